"""One move of a batch: the compare-and-swap, and all that changes on the way."""

from collections.abc import Iterable

from quire.database.postgres import Connection
from quire.ledger.port import Move, Verdict
from quire.ledger.postgres.rows import change, columns, note, one_row, readable, send
from quire.ledger.rows import batch_of, file_columns, tags_column
from quire.model.batch import TERMINAL, Batch, FileOutcome
from quire.model.errors import Stale


async def make_move(connection: Connection, move: Move) -> Batch:
    to, expect = move.to, move.expect
    ended_at = move.now if to.stage in TERMINAL else None
    row = await one_row(
        connection,
        "move",
        (
            *(to.stage.value, to.phase, to.cursor, move.status, move.now),
            *(move.last_file, move.last_task, readable(move.error), ended_at),
            *(move.batch_no, expect.stage.value, expect.phase, expect.cursor),
        ),
    )
    if row is None:
        raise Stale(f"batch {move.batch_no} has moved on from {expect}")
    # Nothing below asks for an answer: sent in one go.
    async with connection.pipeline():
        if move.opens_phase is not None:
            await change(connection, "open_phase", (move.batch_no, to.phase, move.opens_phase))
        await _change_files(connection, move)
        await _add_tasks(connection, move)
        await _judge(connection, move)
        if move.letter is not None:
            await send(connection, move.letter, move.now)
        if move.event is not None:
            await note(connection, move.batch_no, move.now, *move.event)
    return batch_of(row, move.batch_no)


async def _change_files(connection: Connection, move: Move) -> None:
    # What a transformation adds or removes belongs to the phase it comes from.
    no, made_in = move.batch_no, move.expect.phase
    if move.new_files:
        rows = (
            (new.no, new.root_no, new.added.listed, new.added.role, *file_columns(new.added.file))
            for new in move.new_files
        )
        await change(connection, "insert_files", (no, made_in, *columns(rows)))
    if move.retagged:
        tags = {file: tags_column(tags) for file, tags in move.retagged}
        await change(connection, "retag_files", (list(tags), list(tags.values()), no))
    if move.gone:
        await change(connection, "retire_files", (made_in, no, list(move.gone)))


async def _add_tasks(connection: Connection, move: Move) -> None:
    if move.new_tasks:
        no, phase = move.batch_no, move.to.phase
        await change(connection, "insert_tasks", (no, phase, *columns(move.new_tasks)))
        await change(connection, "count_tasks", (len(move.new_tasks), no, phase))


async def _judge(connection: Connection, move: Move) -> None:
    if move.verdicts:
        rows = (
            (one.root_no, one.outcome.value, one.tries, one.error_class, readable(one.reason))
            for one in _one_per_input(move.verdicts)
        )
        await change(connection, "judge_inputs", (*columns(rows), move.batch_no))
    if move.skips is not None:
        await change(connection, "skip_untouched", (*move.skips, move.batch_no))


def _one_per_input(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Said one after the other: tries add up, the first failure stays, otherwise the last word counts.
    One statement changes a row once only.
    """
    said: dict[int, Verdict] = {}
    for verdict in verdicts:
        before = said.get(verdict.root_no)
        if before is None:
            said[verdict.root_no] = verdict
            continue
        kept = before if before.outcome is FileOutcome.FAILED else verdict
        said[verdict.root_no] = Verdict(
            kept.root_no, kept.outcome, before.tries + verdict.tries, kept.error_class, kept.reason
        )
    return list(said.values())
