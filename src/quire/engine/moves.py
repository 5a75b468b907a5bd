"""The moves of a batch as pure functions: given where it stands and the next rows, what changes.

Nothing here reads or writes; the scheduler brings the rows and the ledger applies the move, all of it or
nothing. `complete` says that the rows handed in are the last of their stage.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from quire.engine.states import check_move
from quire.ledger.port import (
    InputOutcome,
    ListedFile,
    Move,
    NewFile,
    NewTask,
    OutboxMessage,
    SettledTask,
    UnitContent,
)
from quire.model.batch import Batch, FileOutcome, Position, Stage, TaskState
from quire.model.files import File
from quire.model.pipeline import AddedFile, Phase, Pipeline, Unit
from quire.model.plan import Plan

UNTOUCHED = "no step of the pipeline “{pipeline}” accepts this file ({{type}}); it has no results"

UNIT_ROLE = "unit"
UNIT_TYPE = "application/vnd.quire.members+json"


class _PlannedPhase(Struct):
    name: str


class _Plan(Struct):
    phases: tuple[_PlannedPhase, ...] = ()


def begin(batch: Batch, *, now: float) -> Move:
    """The message has arrived: the manifest's files are written next."""
    to = Position(Stage.FILLING)
    return _move(batch, to, status=first_status(batch), now=now, event=("batch_started", {}))


def fill(
    batch: Batch,
    pipeline: Pipeline,
    files: Sequence[File],
    *,
    complete: bool,
    now: float,
    message: OutboxMessage | None = None,
) -> Move:
    """Manifest entries become file rows, numbered from 1 in the manifest's order. `message` is
    sent when this is the end of the batch.
    """
    first = batch.position.cursor + 1
    new_files = [
        NewFile(number, number, AddedFile(file, role="input"))
        for number, file in enumerate(files, start=first)
    ]
    last = batch.position.cursor + len(files)
    if not complete:
        return _move(
            batch,
            Position(Stage.FILLING, 0, last),
            status=batch.status,
            now=now,
            new_files=new_files,
            last_file=last,
        )
    return _enter(batch, pipeline, 1, now=now, new_files=new_files, last_file=last, message=message)


def gather(
    batch: Batch,
    pipeline: Pipeline,
    files: Sequence[ListedFile],
    known: Mapping[str, int],
    *,
    complete: bool,
    now: float,
) -> Move:
    """Group files into units; `known` are the units that earlier moves of this stage created."""
    phase = current_phase(batch, pipeline)
    numbers = dict(known)
    number = batch.last_file
    new_units: list[NewFile] = []
    members: list[tuple[int, int]] = []
    for listed in files:
        if not phase.finds(listed.file):
            continue
        path = unit_path(phase, listed.file)
        if path not in numbers:
            number += 1
            numbers[path] = number
            unit = File(key="", path=path, name=path.rpartition("/")[2], size=0, content_type=UNIT_TYPE)
            # A unit descends from its first member: its results are laid out beside that file.
            new_units.append(NewFile(number, listed.root_no, AddedFile(unit, role=UNIT_ROLE, listed=False)))
        members.append((numbers[path], listed.no))
    at = batch.position
    stage, cursor = (Stage.DISCOVERING, 0) if complete else (Stage.GATHERING, files[-1].no)
    return _move(
        batch,
        Position(stage, at.phase, cursor, at.round),
        status=phase.name,
        now=now,
        new_files=new_units,
        members=members,
        last_file=number,
    )


def unit_path(phase: Phase, file: File) -> str:
    """The folder the file lies in; the whole batch is the empty path."""
    return "" if phase.unit is Unit.BATCH else file.path.rpartition("/")[0]


def discover(
    batch: Batch,
    pipeline: Pipeline,
    files: Sequence[ListedFile],
    *,
    complete: bool,
    now: float,
    contents: Sequence[UnitContent] = (),
) -> Move:
    """Which of these files need the phase's step; of units (with their `contents`) all do."""
    phase = current_phase(batch, pipeline)
    wanted = [one for one in files if phase.unit is not Unit.FILE or phase.finds(one.file)]
    rank = phase.rank
    new_tasks = [
        NewTask(number, one.no, 0 if rank is None else rank(one.file))
        for number, one in enumerate(wanted, start=batch.last_task + 1)
    ]
    at = batch.position
    stage, cursor = (Stage.WORKING, 0) if complete else (Stage.DISCOVERING, files[-1].no)
    # Also without a wait of its own: that of the phase before, perhaps an empty one, is not this one's.
    begins = now + phase.pace.first_seconds if phase.pace.first_seconds else 0.0
    return _move(
        batch,
        Position(stage, at.phase, cursor, at.round),
        status=phase.name,
        now=now,
        ranked=rank is not None,
        units=contents,
        new_tasks=new_tasks,
        last_task=batch.last_task + len(new_tasks),
        dispatch_at=begins if complete else None,
    )


def limit_products(tasks: Sequence[SettledTask], products: int) -> Sequence[SettledTask]:
    """The first tasks that together have at most `products` products, but at least one task."""
    made = 0
    for number, task in enumerate(tasks):
        made += len(task.result.products)
        if made > products and number:
            return tasks[:number]
    return tasks


def rival_paths(phase: Phase, tasks: Sequence[SettledTask]) -> set[str]:
    """The case-folded paths whose existence decides how results are named."""
    return {
        path.casefold()
        for task in tasks
        if task.state is TaskState.DONE
        for path in phase.rivals(task.listed.file, task.result)
    }


def transform(
    batch: Batch,
    pipeline: Pipeline,
    tasks: Sequence[SettledTask],
    taken: Mapping[str, int],
    *,
    complete: bool,
    now: float,
    message: OutboxMessage | None = None,
) -> Move:
    """Fold results into the file list. A failed task's file passes unchanged and is listed as failed.
    `message` is sent when this is the end of the batch.
    """
    phase = current_phase(batch, pipeline)
    occupied = dict(taken)
    new_files: list[NewFile] = []
    retagged: list[tuple[int, tuple[str, ...]]] = []
    gone: list[int] = []
    verdicts: list[InputOutcome] = []
    number = batch.last_file
    for task in tasks:
        listed = task.listed
        unit_no = None if phase.unit is Unit.FILE else listed.no
        if task.state is not TaskState.DONE:
            words = (task.tries, task.error_class, task.error)
            verdicts.append(InputOutcome(listed.root_no, FileOutcome.FAILED, *words, unit_no))
            continue
        change = phase.becomes(listed.file, task.result, OccupiedPaths(occupied, listed.file.path))
        if unit_no is None:
            if change.kept is None:
                gone.append(listed.no)
            elif change.kept.tags != listed.file.tags:
                retagged.append((listed.no, change.kept.tags))
        for added in change.added:
            number += 1
            new_files.append(NewFile(number, listed.root_no, added, listed.no))
            folded = added.file.path.casefold()
            occupied[folded] = occupied.get(folded, 0) + 1
        verdicts.append(InputOutcome(listed.root_no, FileOutcome.DONE, task.tries, unit_no=unit_no))
    changes: dict[str, Any] = {
        "new_files": new_files,
        "retagged": retagged,
        "gone": gone,
        "verdicts": verdicts,
        "last_file": number,
    }
    at = batch.position
    if not complete:
        to = Position(Stage.TRANSFORMING, at.phase, tasks[-1].task_no, at.round)
        return _move(batch, to, status=batch.status, now=now, **changes)
    return _enter(batch, pipeline, at.phase + 1, now=now, message=message, **changes)


def end(batch: Batch, plan: Plan, *, now: float, message: OutboxMessage | None = None) -> Move:
    """The end of a batch that flows: nothing of it is open."""
    round_no = batch.position.round
    return _move(
        batch,
        Position(Stage.DONE, batch.position.phase, 0, round_no),
        status="DONE",
        now=now,
        skips=("not_handled", UNTOUCHED.format(pipeline=plan.name)),
        left_alone=plan.left_alone,
        message=message,
        event=("batch_done", {"round": round_no, **({"handed_over_to": message.queue} if message else {})}),
    )


def fail(batch: Batch, reason: str, *, now: float) -> Move:
    """The batch cannot go on; the reason names the cause."""
    at = batch.position
    to = Position(Stage.ERROR, at.phase, at.cursor, at.round)
    return _move(batch, to, status="ERROR", now=now, error=reason, event=("batch_failed", {"reason": reason}))


def retry_round(batch: Batch, pipeline: Pipeline, phase: int, *, now: float) -> Move:
    """A new round of a finished batch, from the phase where the first retried task failed."""
    return _enter(batch, pipeline, phase, now=now, round_no=batch.position.round + 1)


def first_status(batch: Batch) -> str:
    """The status of a batch that has just started: the name of its first phase, by its plan."""
    plan = msgspec.json.decode(batch.plan, type=_Plan)
    return plan.phases[0].name if plan.phases else "STARTED"


def status_of(batch: Batch, pipeline: Pipeline) -> str:
    """The status of a batch that continues in its phase."""
    return current_phase(batch, pipeline).name if batch.position.phase else first_status(batch)


def is_last(batch: Batch, pipeline: Pipeline) -> bool:
    """Whether the batch is in its last phase."""
    return batch.position.phase >= len(pipeline.phases)


def current_phase(batch: Batch, pipeline: Pipeline) -> Phase:
    return pipeline.phases[batch.position.phase - 1]


class OccupiedPaths:
    """Occupied paths as one file sees them: its own path does not count, another file's equal path does."""

    def __init__(self, occupied: Mapping[str, int], own_path: str) -> None:
        self._occupied = occupied
        self._own = own_path.casefold()

    def __contains__(self, path: object) -> bool:
        return self._occupied.get(str(path), 0) > (path == self._own)


def _enter(
    batch: Batch,
    pipeline: Pipeline,
    number: int,
    *,
    now: float,
    round_no: int | None = None,
    message: OutboxMessage | None = None,
    **changes: object,
) -> Move:
    """Into phase `number`, or to the end when there is none."""
    round_no = round_no or batch.position.round
    if number <= len(pipeline.phases):
        phase = pipeline.phases[number - 1]
        gathers = phase.unit is not Unit.FILE
        return _move(
            batch,
            Position(Stage.GATHERING if gathers else Stage.DISCOVERING, number, 0, round_no),
            status=phase.name,
            now=now,
            opens_phase=phase.name,
            regathers=phase.unit if gathers and round_no > 1 else None,
            event=("phase_started", {"phase": phase.name, "round": round_no}),
            **changes,
        )
    return _move(
        batch,
        Position(Stage.DONE, batch.position.phase, 0, round_no),
        status="DONE",
        now=now,
        skips=("not_handled", UNTOUCHED.format(pipeline=pipeline.name)),
        left_alone=pipeline.left_alone,
        message=message,
        event=("batch_done", {"round": round_no, **({"handed_over_to": message.queue} if message else {})}),
        **changes,
    )


def _move(batch: Batch, to: Position, *, status: str, now: float, **changes: object) -> Move:
    check_move(batch.position, to)
    return Move(
        batch_no=batch.no,
        expect=batch.position,
        to=to,
        status=status,
        now=now,
        **changes,  # type: ignore[arg-type]  # the callers above name fields of Move
    )
