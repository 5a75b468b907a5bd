"""The promises, as questions to the ledger when the world has come to rest. Each says what is wrong."""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from quire.ledger.rows import decode_result, read_file
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import Batch, FileOutcome, Stage
from tests.simulation.engine.worlds import World, result_of
from tests.simulation.shared.compute import FORGED
from tests.simulation.shared.database import SimDatabase
from tests.simulation.shared.kernel import run_alone
from tests.simulation.shared.scene import batches_of

Problems = Iterator[str]
Row = tuple[Any, ...]


class Picture(Struct, frozen=True, kw_only=True):
    """How a batch ended, as its owner sees it; `numbered` is the same list with the numbers of the files."""

    status: str
    inputs: list[Row]
    listing: list[Row]
    counts: list[Row]
    numbered: list[Row]


def picture(database: SimDatabase, batch: Batch) -> Picture:
    ledger = SqliteLedger(database)  # type: ignore[arg-type]  # the same interface without threads
    files = database.rows(
        "SELECT file_no, root_no, path, role, listed, digest, tags FROM files "
        "WHERE batch_no = ? AND gone IS NULL AND role <> 'unit' ORDER BY path, digest, file_no",
        batch.no,
    )
    return Picture(
        status=batch.status,
        inputs=[
            (
                *(one.path, one.outcome, one.error_class, bool(one.reason)),
                sorted((role, file.path, file.digest) for role, file in one.made),
            )
            for one in run_alone(ledger.list_inputs(batch.no, limit=1000))
        ],
        listing=[row[2:] for row in files],
        counts=[
            (one.phase, one.name, one.total, one.done, one.failed)
            for one in run_alone(ledger.count_tasks(batch.no))
        ],
        numbered=files,
    )


def problems(database: SimDatabase, world: World) -> list[str]:
    found = [f"forbidden change: {what}" for what in database.violations()]
    for batch in batches_of(database, [spec.id for spec in world.batches]):
        found += [
            f"batch {batch.no} ({batch.status}): {one}"
            for check in CHECKS
            for one in check(database, world, batch)
        ]
    return found


def _inputs_have_one_end(database: SimDatabase, _world: World, batch: Batch) -> Problems:
    for path, outcome, _, reason, _ in picture(database, batch).inputs:
        if outcome is FileOutcome.PENDING:
            yield f"{path} has no end"
        elif outcome is not FileOutcome.DONE and not reason:
            yield f"{path} is {outcome} without a reason"


def _counters_equal_rows(database: SimDatabase, _world: World, batch: Batch) -> Problems:
    counted = database.rows(
        "SELECT round, phase, count(*), sum(state = 'done'), sum(state = 'failed') FROM tasks "
        "WHERE batch_no = ? AND state <> 'superseded' GROUP BY 1, 2 ORDER BY 1, 2",
        batch.no,
    )
    kept = database.rows(
        "SELECT round, phase, total, done, failed FROM rounds "
        "WHERE batch_no = ? AND total + done + failed <> 0 ORDER BY 1, 2",
        batch.no,
    )
    if counted != kept:
        yield f"counters {kept} but rows {counted}"
    counted = database.rows(
        "SELECT coalesce(error_class, ''), count(*) FROM tasks WHERE batch_no = ? AND state = 'failed' "
        "GROUP BY 1 ORDER BY 1",
        batch.no,
    )
    kept = database.rows(
        "SELECT error_class, tasks FROM failures WHERE batch_no = ? AND tasks <> 0 ORDER BY 1", batch.no
    )
    if counted != kept:
        yield f"failures {kept} but rows {counted}"


def _ended_means_settled(database: SimDatabase, _world: World, batch: Batch) -> Problems:
    if batch.position.stage is Stage.DONE:
        for task_no, state in database.rows(
            "SELECT task_no, state FROM tasks "
            "WHERE batch_no = ? AND state NOT IN ('done', 'failed', 'superseded')",
            batch.no,
        ):
            yield f"task {task_no} is {state} in a batch that is done"
    if database.rows("SELECT 1 FROM batches WHERE no = ? AND mover IS NOT NULL", batch.no):
        yield "it has ended and somebody still moves it"


def _attempts_are_counted(database: SimDatabase, world: World, batch: Batch) -> Problems:
    """Numbered from 1 without gaps, and no more failures than the phase allows."""
    reopened = database.rows(
        "SELECT count(*) FROM events WHERE batch_no = ? AND type = 'batch_reopened'", batch.no
    )[0][0]
    phases = world.pipelines[batch.pipeline].phases
    history: dict[int, set[int]] = {}
    for task_no, attempt in database.rows(
        "SELECT task_no, attempt FROM attempts WHERE batch_no = ? ORDER BY 1, 2", batch.no
    ):
        history.setdefault(task_no, set()).add(attempt)
    for task_no, phase, attempt, failures in database.rows(
        "SELECT task_no, phase, attempt, failures FROM tasks WHERE batch_no = ? AND outcome IS NOT NULL",
        batch.no,
    ):
        limit = phases[phase - 1].max_attempts
        if failures > limit:
            yield f"task {task_no} failed {failures} times, the limit is {limit}"
        numbers = history.get(task_no, set()) | {attempt}
        # An attempt that was out when its batch was ended from outside has no end of its own.
        if numbers != set(range(1, attempt + 1)) and not reopened:
            yield f"task {task_no} counts {attempt} attempts and has {sorted(numbers)}"


def _results_are_true(database: SimDatabase, world: World, batch: Batch) -> Problems:
    """What is recorded is what the step gives for that file; nothing forged, nothing of another attempt."""
    phases = world.pipelines[batch.pipeline].phases
    for row in database.rows(
        "SELECT t.phase, t.task_no, t.result, t.worker, f.key, f.path, f.name, f.size, f.content_type, "
        "f.digest, f.cid, f.source_file, f.tags, f.config "
        "FROM tasks t JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no "
        "WHERE t.batch_no = ? AND t.state = 'done'",
        batch.no,
    ):
        phase = phases[row[0] - 1]
        result = decode_result(row[2])
        expected, _ = result_of(phase, read_file(row[4:]))
        told = phase.rank is not None and bool(result.products)
        if row[3] == FORGED or result.facts != expected.facts or (not told and result != expected):
            yield f"task {row[1]} has the result {result}, not {expected}"


def _letters_were_seen(database: SimDatabase, _world: World, batch: Batch) -> Problems:
    if batch.position.stage is Stage.DONE:
        started = database.rows(
            "SELECT count(*) FROM events WHERE batch_no = ? AND type = 'batch_started'", batch.no
        )[0][0]
        # One that was ended before it began and then taken up has no such event.
        taken_up = database.rows(
            "SELECT 1 FROM events WHERE batch_no = ? AND type = 'batch_reopened'", batch.no
        )
        if started != 1 and not taken_up:
            yield f"it was started {started} times"
    if database.rows("SELECT 1 FROM outbox"):
        yield "a letter was never sent"
    for queue, name in database.rows("SELECT queue, id FROM messages WHERE state = 'waiting'"):
        yield f"the message {name} still waits in {queue}"


Check = Callable[[SimDatabase, World, Batch], Problems]
CHECKS: tuple[Check, ...] = (
    _inputs_have_one_end,
    _counters_equal_rows,
    _ended_means_settled,
    _attempts_are_counted,
    _results_are_true,
    _letters_were_seen,
)
