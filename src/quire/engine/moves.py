"""The moves of a batch as pure functions: given where it stands and the next rows, what changes.

Nothing here reads or writes; the conductor brings the rows and the ledger applies the move, all of it or
nothing. `complete` says that the rows handed in are the last of their stage.
"""

from collections.abc import Mapping, Sequence

from quire.engine.states import check_move
from quire.ledger.port import ListedFile, Move, NewFile, SettledTask, Verdict
from quire.model.batch import Batch, FileOutcome, Position, Stage, TaskState
from quire.model.files import File
from quire.model.pipeline import Added, Phase, Pipeline

UNTOUCHED = "no phase of pipeline “{pipeline}” handles {{type}}; nothing was made of the file"


def begin(batch: Batch, *, now: float) -> Move:
    """The message has arrived: the manifest's files are written next."""
    return _move(batch, Position(Stage.FILLING), status="STARTED", now=now, event=("batch_started", {}))


def fill(batch: Batch, pipeline: Pipeline, files: Sequence[File], *, complete: bool, now: float) -> Move:
    """Manifest entries become file rows, numbered from 1 in the manifest's order."""
    first = batch.position.cursor + 1
    new_files = [
        NewFile(number, number, Added(file, role="input")) for number, file in enumerate(files, start=first)
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
    return _enter(batch, pipeline, 1, now=now, new_files=new_files, last_file=last)


def discover(
    batch: Batch, pipeline: Pipeline, files: Sequence[ListedFile], *, complete: bool, now: float
) -> Move:
    """Which of these files need the phase's step."""
    phase = current_phase(batch, pipeline)
    wanted = [listed.no for listed in files if phase.finds(listed.file)]
    new_tasks = list(enumerate(wanted, start=batch.last_task + 1))
    number = batch.position.phase
    to = Position(Stage.WORKING, number) if complete else Position(Stage.DISCOVERING, number, files[-1].no)
    return _move(
        batch, to, status=phase.name, now=now, new_tasks=new_tasks, last_task=batch.last_task + len(new_tasks)
    )


def within(tasks: Sequence[SettledTask], products: int) -> Sequence[SettledTask]:
    """As many of them as make no more than that many products, but at least one: a task may have hundreds."""
    made = 0
    for number, task in enumerate(tasks):
        made += len(task.result.products)
        if made > products and number:
            return tasks[:number]
    return tasks


def rivals(phase: Phase, tasks: Sequence[SettledTask]) -> set[str]:
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
) -> Move:
    """Fold results into the file list. A failed task's file passes unchanged and is listed as failed."""
    phase = current_phase(batch, pipeline)
    occupied = dict(taken)
    new_files: list[NewFile] = []
    retagged: list[tuple[int, tuple[str, ...]]] = []
    gone: list[int] = []
    verdicts: list[Verdict] = []
    number = batch.last_file
    for task in tasks:
        listed = task.listed
        if task.state is not TaskState.DONE:
            verdicts.append(
                Verdict(listed.root_no, FileOutcome.FAILED, task.tries, task.error_class, task.error)
            )
            continue
        change = phase.becomes(listed.file, task.result, Others(occupied, listed.file.path))
        if change.kept is None:
            gone.append(listed.no)
        elif change.kept.tags != listed.file.tags:
            retagged.append((listed.no, change.kept.tags))
        for added in change.added:
            number += 1
            new_files.append(NewFile(number, listed.root_no, added))
            folded = added.file.path.casefold()
            occupied[folded] = occupied.get(folded, 0) + 1
        verdicts.append(Verdict(listed.root_no, FileOutcome.DONE, task.tries))
    changes = {
        "new_files": new_files,
        "retagged": retagged,
        "gone": gone,
        "verdicts": verdicts,
        "last_file": number,
    }
    here = batch.position.phase
    if not complete:
        to = Position(Stage.TRANSFORMING, here, tasks[-1].task_no)
        return _move(batch, to, status=batch.status, now=now, **changes)
    return _enter(batch, pipeline, here + 1, now=now, **changes)


def fail(batch: Batch, reason: str, *, now: float) -> Move:
    """The batch cannot go on; the reason names the cause."""
    to = Position(Stage.ERROR, batch.position.phase)
    return _move(batch, to, status="ERROR", now=now, error=reason, event=("batch_failed", {"reason": reason}))


def current_phase(batch: Batch, pipeline: Pipeline) -> Phase:
    return pipeline.phases[batch.position.phase - 1]


class Others:
    """The occupied paths as a file sees them: its own does not count, a namesake's does."""

    def __init__(self, occupied: Mapping[str, int], own_path: str) -> None:
        self._occupied = occupied
        self._own = own_path.casefold()

    def __contains__(self, path: object) -> bool:
        return self._occupied.get(str(path), 0) > (path == self._own)


def _enter(batch: Batch, pipeline: Pipeline, number: int, *, now: float, **changes: object) -> Move:
    """Into phase `number`, or to the end when there is none."""
    if number <= len(pipeline.phases):
        name = pipeline.phases[number - 1].name
        return _move(
            batch,
            Position(Stage.DISCOVERING, number),
            status=name,
            now=now,
            opens_phase=name,
            event=("phase_started", {"phase": name}),
            **changes,
        )
    return _move(
        batch,
        Position(Stage.DONE, batch.position.phase),
        status="DONE",
        now=now,
        skips=("not_handled", UNTOUCHED.format(pipeline=pipeline.name)),
        event=("batch_done", {}),
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
