"""The promises of batches that flow: while they run, when they have come to rest, and against the model."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from quire.ledger.rows import decode_result
from quire.ledger.sqlite import SqliteLedger
from quire.model import manifest
from quire.model.batch import Batch, FileOutcome, Stage
from quire.model.work import MemberFile, StepResult
from quire.testing.memory_blobs import MemoryBlobs
from tests.simulation.flow.endings import Ending, InputEnd
from tests.simulation.flow.invariants import broken_invariants
from tests.simulation.flow.worlds import FlowBatch, FlowWorld
from tests.simulation.shared.compute import FORGED
from tests.simulation.shared.database import SimDatabase
from tests.simulation.shared.kernel import run_alone
from tests.simulation.shared.scene import batches_of

Problems = Iterator[str]
Rows = list[tuple[Any, ...]]


def problems(database: SimDatabase, world: FlowWorld) -> list[str]:
    found = [f"forbidden change: {what}" for what in database.violations()]
    found += broken_invariants(database, world)
    for batch in batches_of(database, [spec.id for spec in world.batches]):
        found += [
            f"batch {batch.no} ({batch.status}): {one}"
            for check in CHECKS
            for one in check(database, world, batch)
        ]
    return found


def differences(
    database: SimDatabase, blobs: MemoryBlobs, batch: Batch, spec: FlowBatch, *, healed: bool = False
) -> list[str]:
    """Between a batch that has ended and what the model says."""
    expected = spec.ending(_done_tasks(database, batch, spec), healed=healed)
    found: list[str] = []
    for what, compare in COMPARED.items():
        seen, wanted = compare(database, blobs, batch, spec, expected)
        if seen != wanted:
            wrong = [row for row in seen if row not in wanted]
            missing = [row for row in wanted if row not in seen]
            order = "" if wrong or missing else f" in another order: {seen}, not {wanted}"
            found.append(f"{what}: has {wrong[:3]}, lacks {missing[:3]}{order}")
    return found


def _done_tasks(database: SimDatabase, batch: Batch, spec: FlowBatch) -> set[tuple[str, str]]:
    """(step, path) of tasks whose step has succeeded: chance decides whether a late success still counts."""
    rows = database.rows(
        "SELECT t.phase, t.branch, f.path FROM tasks t JOIN files f ON f.batch_no = t.batch_no "
        "AND f.file_no = t.file_no WHERE t.batch_no = ? AND (t.state = 'done' "
        "OR t.error_class IN ('name_twice', 'two_replacements'))",
        batch.no,
    )
    phases = spec.pipeline.phases
    return {(phases[phase - 1].steps[branch].name, path) for phase, branch, path in rows}


def _files(
    database: SimDatabase, _blobs: MemoryBlobs, batch: Batch, _spec: FlowBatch, expected: Ending
) -> tuple[Rows, Rows]:
    rows = database.rows(
        "SELECT file_no, parent_no, root_no, path, digest, tags, role, listed, born, gone FROM files "
        "WHERE batch_no = ? AND role <> 'unit' ORDER BY path, file_no",
        batch.no,
    )
    parents = {row[0]: (row[6], row[1]) for row in rows}
    paths = {row[0]: row[3] for row in rows}
    seen = [
        (path, digest, msgspec.json.decode(tags), _role(no, parents), bool(listed), born, paths.get(root))
        for no, _, root, path, digest, tags, _, listed, born, gone in rows
        if gone is None
    ]
    wanted = [
        (row.path, row.file.digest, list(row.file.tags), row.role, row.listed, row.born, row.root)
        for row in sorted(expected.files, key=lambda row: row.path)
    ]
    return seen, wanted


def _inputs(
    database: SimDatabase, _blobs: MemoryBlobs, batch: Batch, _spec: FlowBatch, expected: Ending
) -> tuple[Rows, Rows]:
    ledger = SqliteLedger(database)  # type: ignore[arg-type]  # the same interface without threads
    listed = run_alone(ledger.list_inputs(batch.no, limit=1000))
    simulated = {one.path for one in expected.inputs if one.reason}
    seen = [
        (
            *(one.path, one.outcome.value, one.error_class or ""),
            one.reason if one.path in simulated else "",
            tuple(file.path for _, file in one.made),
            tuple((step.step, step.done, step.failed) for step in one.steps),
        )
        for one in listed
    ]
    wanted: Rows = [
        (one.path, one.outcome, one.error_class, one.reason, one.made, _count_steps(one))
        for one in expected.inputs
    ]
    return seen, wanted


def _count_steps(one: InputEnd) -> tuple[tuple[str, int, int], ...]:
    """How often each step succeeded and failed, in the order of the pipeline."""
    names = list(dict.fromkeys(name for name, _ in one.steps))
    return tuple((name, one.steps.count((name, True)), one.steps.count((name, False))) for name in names)


def _tasks(
    database: SimDatabase, _blobs: MemoryBlobs, batch: Batch, spec: FlowBatch, expected: Ending
) -> tuple[Rows, Rows]:
    rows = database.rows(
        "SELECT t.phase, f.path, t.branch, t.state, t.error_class, t.result FROM tasks t JOIN files f "
        "ON f.batch_no = t.batch_no AND f.file_no = t.file_no "
        "WHERE t.batch_no = ? AND t.state <> 'superseded' ORDER BY t.phase, f.path, t.branch",
        batch.no,
    )
    seen = [
        (phase, path, branch, state, error or "", decode_result(result) if state == "done" else None)
        for phase, path, branch, state, error, result in rows
    ]
    wanted = [
        (
            *(task.phase, task.path, task.branch, "failed" if task.failure else "done"),
            *(task.failure.error_class if task.failure else "", task.result),
        )
        for task in expected.tasks
    ]
    return seen, wanted


def _counts(
    database: SimDatabase, _blobs: MemoryBlobs, batch: Batch, spec: FlowBatch, expected: Ending
) -> tuple[Rows, Rows]:
    ledger = SqliteLedger(database)  # type: ignore[arg-type]  # the same interface without threads
    seen = [
        (one.phase, one.name, one.total, one.done, one.failed)
        for one in run_alone(ledger.count_tasks(batch.no))
    ]
    wanted = []
    for number, phase in enumerate(spec.pipeline.phases, start=1):
        ends = [task.failure is None for task in expected.tasks if task.phase == number]
        wanted.append((number, phase.name, len(ends), sum(ends), len(ends) - sum(ends)))
    return seen, wanted


def _members(
    database: SimDatabase, blobs: MemoryBlobs, batch: Batch, _spec: FlowBatch, expected: Ending
) -> tuple[Rows, Rows]:
    """The lists that tasks of folders were given, in their order."""
    rows = database.rows(
        "SELECT born, path, key FROM files WHERE batch_no = ? AND role = 'unit' AND gone IS NULL "
        "ORDER BY born, path",
        batch.no,
    )
    seen = []
    for phase, path, key in rows:
        listed = msgspec.json.decode(run_alone(blobs.get(key)), type=list[MemberFile])
        seen.append((phase, path, tuple(one.path for one in listed)))
    wanted = [(task.phase, task.path, task.members) for task in expected.tasks if _is_unit(_spec, task.phase)]
    return seen, wanted


def _manifest(
    _database: SimDatabase, blobs: MemoryBlobs, batch: Batch, _spec: FlowBatch, expected: Ending
) -> tuple[Rows, Rows]:
    if not batch.hands_over_to:
        return [], []
    assert batch.manifest_key is not None
    listed = manifest.decode(run_alone(blobs.get(batch.manifest_key)), batch.id)
    seen: Rows = [(file.path, file.digest, file.tags) for file in manifest.files(listed)]
    return seen, [(row.path, row.file.digest, row.file.tags) for row in expected.manifest]


COMPARED: dict[str, Callable[[SimDatabase, MemoryBlobs, Batch, FlowBatch, Ending], tuple[Rows, Rows]]] = {
    "files": _files,
    "inputs": _inputs,
    "tasks": _tasks,
    "counts": _counts,
    "members": _members,
    "manifest": _manifest,
}


def _role(number: int, parents: dict[int, tuple[str, int]]) -> str:
    """A row with other tags has the role of the row whose place it took; inputs have none in the model."""
    role, parent = parents[number]
    while role == "kept":
        role, parent = parents[parent]
    return "" if role == "input" else role


def _is_unit(spec: FlowBatch, phase: int) -> bool:
    return spec.pipeline.phases[phase - 1].waits


def _inputs_have_one_end(database: SimDatabase, _world: FlowWorld, batch: Batch) -> Problems:
    ledger = SqliteLedger(database)  # type: ignore[arg-type]  # the same interface without threads
    for one in run_alone(ledger.list_inputs(batch.no, limit=1000)):
        if one.outcome is FileOutcome.PENDING:
            yield f"{one.path} has no end"
        elif one.outcome is not FileOutcome.DONE and not one.reason:
            yield f"{one.path} is {one.outcome} without a reason"


def _ended_means_settled(database: SimDatabase, _world: FlowWorld, batch: Batch) -> Problems:
    if batch.position.stage is Stage.DONE:
        for task_no, state in database.rows(
            "SELECT task_no, state FROM tasks WHERE batch_no = ? "
            "AND state NOT IN ('done', 'failed', 'superseded')",
            batch.no,
        ):
            yield f"task {task_no} is {state} in a batch that is done"
    if database.rows("SELECT 1 FROM batches WHERE no = ? AND mover IS NOT NULL", batch.no):
        yield "it has ended and somebody still moves it"


def _failures_are_counted(database: SimDatabase, _world: FlowWorld, batch: Batch) -> Problems:
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


def _nothing_is_forged(database: SimDatabase, _world: FlowWorld, batch: Batch) -> Problems:
    for (task_no,) in database.rows(
        "SELECT task_no FROM tasks WHERE batch_no = ? AND worker = ?", batch.no, FORGED
    ):
        yield f"task {task_no} was settled by a forged report"


def _messages_were_sent(database: SimDatabase, _world: FlowWorld, batch: Batch) -> Problems:
    if batch.position.stage is Stage.DONE:
        told = dict(
            database.rows("SELECT type, count(*) FROM events WHERE batch_no = ? GROUP BY 1", batch.no)
        )
        # One that was ended before it began and then taken up has no such event.
        if told.get("batch_started", 0) != 1 and "batch_reopened" not in told:
            yield f"batch_started was told {told.get('batch_started', 0)} times"
        if told.get("batch_done", 0) != batch.position.round:
            yield f"batch_done was told {told.get('batch_done', 0)} times"
    if database.rows("SELECT 1 FROM outbox"):
        yield "a message was never sent"
    for queue, name in database.rows("SELECT queue, id FROM messages WHERE state = 'waiting'"):
        yield f"the message {name} still waits in {queue}"


def _phases_were_told_in_order(database: SimDatabase, world: FlowWorld, batch: Batch) -> Problems:
    names = [phase.name for phase in world.pipelines[batch.pipeline].phases]
    rounds: dict[int, list[str]] = {}
    for (data,) in database.rows(
        "SELECT data FROM events WHERE batch_no = ? AND type = 'phase_started' ORDER BY no", batch.no
    ):
        said = msgspec.json.decode(data)
        rounds.setdefault(said["round"], []).append(said["phase"])
    if sorted(rounds) != list(range(1, batch.position.round + 1)) and batch.position.phase:
        yield f"phases were told of the rounds {sorted(rounds)}"
    for number, told in rounds.items():
        if told != names[names.index(told[0]) :][: len(told)] or (number == 1 and told[0] != names[0]):
            yield f"phases of round {number} were told as {told}"
        if told[-1] != names[-1] and (number < batch.position.round or batch.position.stage is Stage.DONE):
            yield f"phases of round {number} were told up to {told[-1]}"


Check = Callable[[SimDatabase, FlowWorld, Batch], Problems]
CHECKS: tuple[Check, ...] = (
    _inputs_have_one_end,
    _ended_means_settled,
    _failures_are_counted,
    _nothing_is_forged,
    _messages_were_sent,
    _phases_were_told_in_order,
)
EMPTY = StepResult()
