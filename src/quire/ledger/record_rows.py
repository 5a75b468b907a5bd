"""From rows to the values that people read, for every ledger on SQL: counters, outcomes, histories.

As in `rows`: one order of columns in all adapters. Must not know: any database.
"""

import json
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from msgspec import Struct, convert, structs

from quire.ledger.rows import Row, UploadRow, read_file
from quire.ledger.submissions import AWAITED, TAKEN
from quire.ledger.values import (
    AttemptRecord,
    FailedTask,
    FileVersion,
    InputRecord,
    Member,
    StepEnd,
    StrayReport,
)
from quire.model.batch import Batch, FileOutcome, PhaseCounts, Spending, Stage, TaskState
from quire.model.files import BlobUse, File, fold
from quire.model.pipelines import name_step

T = TypeVar("T", bound=Struct)
KEPT_ROLE = "kept"  # of a document's row with other tags


def folded_forms(paths: Iterable[str]) -> list[str]:
    """What the column `folded` of these paths may hold: earlier versions did not compose characters."""
    return sorted({form for path in paths for form in (fold(path), path.casefold())})


class InputRow(NamedTuple):
    """An input file and its outcome so far. `in_round`: whether the present round is about it. `finished`: in
    a batch that flows, all of its documents have walked to their ends.
    """

    file_no: int
    path: str
    outcome: str | None
    error_class: str | None
    reason: str | None
    attempts: int
    in_round: bool
    finished: bool


def read_blob_use(columns: Row) -> BlobUse:
    digest, key, size, batch_id, path, is_input, *_ = columns
    return BlobUse(digest=digest, key=key, size=size, batch_id=batch_id, path=path, is_input=bool(is_input))


def read_counts(columns: Row) -> PhaseCounts:
    phase, name, total, done, failed, cached, *spent = columns
    names = Spending.__struct_fields__
    return PhaseCounts(
        phase=phase,
        name=name,
        total=total,
        done=done,
        failed=failed,
        cached=cached,
        spent=Spending(**dict(zip(names, spent, strict=True))),
    )


def group_products(rows: list[Row]) -> dict[int, list[tuple[str, File]]]:
    """The files made of each input file, with their roles. Of several with one name, each replacing the one
    before, the last.
    """
    made: dict[int, dict[str, tuple[str, File]]] = {}
    for root_no, role, *columns in rows:
        file = read_file(tuple(columns))
        named, name = made.setdefault(root_no, {}), fold(file.path)
        named.pop(name, None)
        named[name] = (role, file)
    return {root_no: list(named.values()) for root_no, named in made.items()}


def list_failed_inputs(ends: Iterable[Row]) -> list[int]:
    """The numbers of those inputs whose steps are told one by one."""
    return [row[0] for row in ends if row[2] == FileOutcome.FAILED]


def group_steps(rows: Iterable[Row], batch: Batch) -> dict[int, list[StepEnd]]:
    """How each step has ended on each input. The rows are in the order in which steps are told."""
    found: dict[int, dict[tuple[int, int], StepEnd]] = {}
    for root_no, phase, branch, name, state, error_class, error in rows:
        steps = found.setdefault(root_no, {})
        end = steps.get((phase, branch))
        if end is None:
            end = steps[phase, branch] = StepEnd(step=name_step(batch, name, branch))
        if state == TaskState.DONE:
            end.done += 1
            continue
        if not end.failed:
            end.error_class, end.reason = error_class, error
        end.failed += 1
    return {root_no: list(steps.values()) for root_no, steps in found.items()}


def read_input(
    columns: Row,
    end: Row | None,
    made: dict[int, list[tuple[str, File]]],
    steps: dict[int, list[StepEnd]],
    batch: Batch,
) -> InputRecord:
    """The outcome of one input, from its upload, the file it became, products, steps, and its batch."""
    upload = UploadRow._make(columns)
    if upload.state == AWAITED:
        return InputRecord(
            path=upload.path, outcome=FileOutcome.PENDING, size=upload.size, reason="not uploaded yet"
        )
    if upload.state != TAKEN:
        return InputRecord(
            path=upload.path,
            outcome=FileOutcome(upload.state),
            size=upload.size,
            error_class=upload.error_class,
            reason=upload.reason,
        )
    file = None if end is None else InputRow._make(end)
    found = None if file is None else file.outcome
    error_class, reason = ("", "") if file is None else (file.error_class or "", file.reason or "")
    if found is not None and file is not None and (file.finished or not file.in_round):
        # A later round that is not about this file says nothing of it, however it goes. Neither does the end
        # of a batch of a document that had walked to its own.
        outcome = FileOutcome(found)
    else:
        outcome, error_class, reason = _decide_outcome(found, error_class, reason, batch)
    return InputRecord(
        path=upload.path,
        outcome=outcome,
        size=upload.size,
        error_class=error_class,
        reason=reason,
        attempts=0 if file is None else file.attempts,
        made=[] if file is None else made.get(file.file_no, []),
        key=upload.key,
        digest=upload.digest,
        steps=[] if file is None else steps.get(file.file_no, []),
        no=0 if file is None else file.file_no,
    )


def _decide_outcome(
    found: str | None, error_class: str, reason: str, batch: Batch
) -> tuple[FileOutcome, str, str]:
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


def read_failed_task(row: Row) -> FailedTask:
    return _build(FailedTask, row)


def read_stray_report(row: Row) -> StrayReport:
    return _build(StrayReport, row)


def read_file_versions(rows: Iterable[Row]) -> list[FileVersion]:
    """In their order. A row that stands for a document with other tags has the role of the one before it."""
    found: list[FileVersion] = []
    roles: dict[tuple[str, str], str] = {}
    for *columns, tags in rows:
        version = _build(FileVersion, (*columns, json.loads(tags)))
        place = (version.path, version.key)
        if version.role == KEPT_ROLE:
            version = structs.replace(version, role=roles.get(place, version.role))
        roles[place] = version.role
        found.append(version)
    return found


def read_attempt(row: Row) -> AttemptRecord:
    return _build(AttemptRecord, row)


def read_member(row: Row) -> Member:
    return _build(Member, row)


def _build(kind: type[T], row: Row) -> T:
    """A value whose fields are the columns of the row, in this order."""
    return convert(dict(zip(kind.__struct_fields__, row, strict=True)), kind, strict=False)
