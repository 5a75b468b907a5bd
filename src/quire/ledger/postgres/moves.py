"""One move of a batch: the compare-and-swap, and all that changes on the way."""

import json
from collections import Counter
from collections.abc import Iterable

from quire.database.postgres import Connection
from quire.database.postgres_queries import clean_text
from quire.ledger.port import InputOutcome, Move
from quire.ledger.postgres.rows import (
    add_outbox_message,
    change,
    columns,
    hold_over_budget,
    load_batch,
    notify_listeners,
    record_event,
)
from quire.ledger.postgres.withdrawal import reset_units
from quire.ledger.rows import encode_tags, file_columns
from quire.model.batch import TERMINAL, Batch, FileOutcome, Stage
from quire.model.errors import Stale

# What another member may have been waiting for. Moves within a stage are for whoever has the batch anyway.
_NEWS = TERMINAL | {Stage.WORKING, Stage.TRANSFORMING}


async def make_move(connection: Connection, move: Move) -> Batch:
    to, expect, no = move.to, move.expect, move.batch_no
    values = {
        "stage": to.stage.value,
        "phase": to.phase,
        "cursor": to.cursor,
        "round": to.round,
        "status": move.status,
        "now": move.now,
        "last_file": move.last_file,
        "last_task": move.last_task,
        "error": clean_text(move.error),
        "ends": to.stage in TERMINAL,
        "dispatch_at": move.dispatch_at,
        "no": no,
        "at_stage": expect.stage.value,
        "at_phase": expect.phase,
        "at_cursor": expect.cursor,
        "at_round": expect.round,
    }
    if not await change(connection, "move", values):
        raise Stale(f"batch {no} has moved on from {expect}")
    if move.regathers is not None:
        await reset_units(connection, no, to, move.regathers)
    # Nothing below asks for an answer: sent in one go.
    async with connection.pipeline():
        await _change_files(connection, move)
        if move.opens_phase is not None:
            await change(connection, "open_phase", (to.round, to.phase, move.opens_phase, no))
            await change(connection, "start_claims_at", (no,))
        await _add_tasks(connection, move)
        await _record_outcomes(connection, move)
        if move.message is not None:
            await add_outbox_message(connection, move.message, move.now)
        if move.event is not None:
            await record_event(connection, no, move.now, *move.event)
        if to.stage is Stage.WORKING:
            await _begin_work(connection, move)
        elif to.stage in TERMINAL:
            await change(connection, "clear_alarm", (no,))
        if move.message is not None or to.stage in _NEWS:
            await notify_listeners(connection)
        return await load_batch(connection, no)


async def _begin_work(connection: Connection, move: Move) -> None:
    if move.ranked:
        await change(connection, "first_rank", (move.batch_no,))
        await change(connection, "count_rank", (move.batch_no,))
    # A phase without tasks is over as soon as it begins.
    await change(connection, "end_phase_when_settled", (move.now, move.batch_no))
    await hold_over_budget(connection, move.batch_no, move.now)


async def _change_files(connection: Connection, move: Move) -> None:
    # What a transformation adds or removes belongs to the phase it comes from.
    no, made_in = move.batch_no, move.expect.phase
    if move.new_files:
        rows = (
            (
                *(new.no, new.root_no, new.parent_no, new.added.listed, new.added.role),
                *file_columns(new.added.file),
            )
            for new in move.new_files
        )
        await change(connection, "insert_files", (no, made_in, move.to.round, *columns(rows)))
    if move.members:
        await change(connection, "insert_members", (no, *columns(move.members)))
    if move.units:
        rows = ((unit.file_no, unit.key, unit.size, unit.digest) for unit in move.units)
        await change(connection, "fill_units", (*columns(rows), no))
    if move.retagged:
        tags = {file: encode_tags(tags) for file, tags in move.retagged}
        await change(connection, "retag_files", (list(tags), list(tags.values()), no))
    if move.gone:
        await change(connection, "retire_files", (made_in, no, list(move.gone)))


async def _add_tasks(connection: Connection, move: Move) -> None:
    if not move.new_tasks:
        return
    no, phase, round_no = move.batch_no, move.to.phase, move.to.round
    rows = ((task.no, task.file_no, task.rank if move.ranked else None) for task in move.new_tasks)
    await change(connection, "insert_tasks", (no, phase, round_no, *columns(rows)))
    await change(connection, "count_tasks", (len(move.new_tasks), no, round_no, phase))
    if move.ranked:
        ranks = Counter(task.rank for task in move.new_tasks)
        await change(
            connection, "count_ranks", (no, round_no, phase, list(ranks.keys()), list(ranks.values()))
        )


async def _record_outcomes(connection: Connection, move: Move) -> None:
    of_inputs = _one_per_input(one for one in move.verdicts if one.unit_no is None)
    if of_inputs:
        rows = (
            (one.root_no, one.outcome.value, one.tries, one.error_class, clean_text(one.reason))
            for one in of_inputs
        )
        await change(connection, "judge_inputs", (*columns(rows), move.batch_no))
    of_units = [one for one in move.verdicts if one.unit_no is not None]
    if of_units:
        values = {
            "no": move.batch_no,
            "units": [one.unit_no for one in of_units],
            "outcomes": [one.outcome.value for one in of_units],
            "tries": [one.tries for one in of_units],
            "classes": [one.error_class for one in of_units],
            "reasons": [clean_text(one.reason) for one in of_units],
        }
        await change(connection, "judge_members", values)
    if move.skips is not None:
        error_class, reason = move.skips
        await change(connection, "flow_done_members", {"no": move.batch_no})
        skipped = {"error_class": error_class, "reason": reason, "own": json.dumps(move.left_alone)}
        await change(connection, "skip_untouched", skipped | {"no": move.batch_no})


def _one_per_input(verdicts: Iterable[InputOutcome]) -> list[InputOutcome]:
    """Said one after the other: tries add up, the first failure stays, otherwise the last word counts.
    One statement changes a row once only.
    """
    said: dict[int, InputOutcome] = {}
    for verdict in verdicts:
        before = said.get(verdict.root_no)
        if before is None:
            said[verdict.root_no] = verdict
            continue
        kept = before if before.outcome is FileOutcome.FAILED else verdict
        said[verdict.root_no] = InputOutcome(
            kept.root_no, kept.outcome, before.tries + verdict.tries, kept.error_class, kept.reason
        )
    return list(said.values())
