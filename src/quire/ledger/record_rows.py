"""Between rows and the values that people read, for every ledger on SQL: counters, ends, stories.

As in `rows`: the same columns in the same order in all adapters. Must not know: any database.
"""

import json

from quire.ledger.rows import Row, file_of
from quire.ledger.submissions import AWAITED, TAKEN
from quire.ledger.values import (
    AttemptRecord,
    FailedTask,
    FileStory,
    InputRecord,
    Member,
    Stray,
    StrayKind,
)
from quire.model.batch import Batch, FileOutcome, PhaseCounts, Spent, Stage, TaskState
from quire.model.files import File


def counts_of(row: Row) -> PhaseCounts:
    return PhaseCounts(
        phase=row[0],
        name=row[1],
        total=row[2],
        done=row[3],
        failed=row[4],
        cached=row[5],
        spent=Spent(
            seconds=row[6],
            bytes_in=row[7],
            bytes_out=row[8],
            tokens_in=row[9],
            tokens_out=row[10],
            money_micros=row[11],
        ),
    )


def made_by_root(rows: list[Row]) -> dict[int, list[tuple[str, File]]]:
    """The files made of each input file, with their roles."""
    made: dict[int, list[tuple[str, File]]] = {}
    for row in rows:
        made.setdefault(row[0], []).append((row[1], file_of(row, 2)))
    return made


def input_of(
    upload: Row, end: Row | None, made: dict[int, list[tuple[str, File]]], batch: Batch
) -> InputRecord:
    """The end of one input: its upload, the file it became, what was made of that, how its batch ended."""
    path, state, size, error_class, reason = upload[0], upload[1], upload[2], upload[7], upload[8]
    if state == AWAITED:
        return InputRecord(path=path, outcome=FileOutcome.PENDING, size=size, reason="not uploaded yet")
    if state != TAKEN:
        return InputRecord(
            path=path, outcome=FileOutcome(state), size=size, error_class=error_class, reason=reason
        )
    found, known_class, known_reason = (
        (end[2], end[3] or "", end[4] or "") if end is not None else (None, "", "")
    )
    if end is None or end[6]:
        outcome, known_class, known_reason = _end_of(found, known_class, known_reason, batch)
    else:
        # A later round that is not about this file says nothing of it, however it goes.
        outcome = FileOutcome.PENDING if found is None else FileOutcome(found)
    return InputRecord(
        path=path,
        outcome=outcome,
        size=size,
        error_class=known_class,
        reason=known_reason,
        attempts=0 if end is None else end[5],
        made=[] if end is None else made.get(end[0], []),
        key=upload[4],
        digest=upload[5],
    )


def _end_of(found: str | None, error_class: str, reason: str, batch: Batch) -> tuple[FileOutcome, str, str]:
    """A file of a batch that stopped half-way is not done, whatever earlier phases said of it."""
    if found == FileOutcome.FAILED:
        return FileOutcome.FAILED, error_class, reason
    match batch.position.stage:
        case Stage.DONE if found is not None:
            return FileOutcome(found), error_class, reason
        case Stage.CANCELLED:
            return FileOutcome.CANCELLED, "batch_cancelled", f"the batch was cancelled: {batch.error}"
        case Stage.ERROR:
            return FileOutcome.FAILED, "batch_error", f"the batch could not go on: {batch.error}"
        case _:
            return FileOutcome.PENDING, "", "not settled yet"


def failed_task_of(row: Row) -> FailedTask:
    return FailedTask(task_no=row[0], phase=row[1], path=row[2], key=row[3], error_class=row[4], error=row[5])


def stray_of(row: Row) -> Stray:
    return Stray(
        task_no=row[0],
        attempt=row[1],
        outcome=row[2],
        worker=row[3],
        received_at=row[4],
        kind=StrayKind(row[5]),
    )


def story_file_of(row: Row) -> FileStory:
    return FileStory(
        no=row[0],
        path=row[1],
        role=row[2],
        born=row[3],
        gone=row[4],
        listed=bool(row[5]),
        key=row[6],
        size=row[7],
        content_type=row[8],
        tags=tuple(json.loads(row[9])),
    )


def attempt_of(row: Row) -> AttemptRecord:
    return AttemptRecord(
        phase=row[0],
        round=row[1],
        task_no=row[2],
        attempt=row[3],
        state=TaskState(row[4]),
        outcome=row[5],
        worker=row[6],
        started_at=row[7],
        seconds=row[8],
        path=row[9],
        error_class=row[10],
        error=row[11],
    )


def member_of(row: Row) -> Member:
    return Member(no=row[0], name=row[1], kind=row[2], place=row[3], beat=row[4], enlisted_at=row[5])
