"""Between rows and values, for every ledger on SQL: what each column means, in which order.

Adapters bring the statements and the transactions; a row has the same columns in the same order in all of
them. Must not know: any database.
"""

import json
from typing import Any

import msgspec

from quire.ledger.port import Claim, InputRecord, ListedFile, SettledTask, Settlement, Upload
from quire.model.batch import Batch, FileOutcome, PhaseCounts, Position, Stage, TaskState
from quire.model.errors import Missing
from quire.model.files import File
from quire.model.ids import BatchId
from quire.model.work import Order, StepResult

Row = tuple[Any, ...]

_result_decoder = msgspec.msgpack.Decoder(StepResult)
_encoder = msgspec.msgpack.Encoder()
EMPTY_RESULT = StepResult()


def encode_result(result: StepResult | None) -> bytes | None:
    """None for an empty result: most rows of fact-less steps then need no blob at all."""
    if result is None or result == EMPTY_RESULT:
        return None
    return _encoder.encode(result)


def decode_result(blob: bytes | None) -> StepResult:
    return EMPTY_RESULT if blob is None else _result_decoder.decode(blob)


def batch_of(row: Row | None, name: object) -> Batch:
    if row is None:
        raise Missing(f"there is no batch {name}", code="unknown_batch")
    return Batch(
        no=row[0],
        id=BatchId(row[1]),
        pipeline=row[2],
        pipeline_version=row[3],
        position=Position(Stage(row[4]), row[5], row[6]),
        status=row[7],
        manifest_key=row[8],
        total_files=row[9],
        last_file=row[10],
        last_task=row[11],
        created_at=row[12],
        updated_at=row[13],
        completed_at=row[14],
        error=row[15],
        plan=row[16],
        delivered_at=row[17],
    )


def upload_columns(upload: Upload) -> Row:
    return (
        *(upload.path, upload.state, upload.size, upload.stamp, upload.key),
        *(upload.digest, upload.content_type, upload.error_class, upload.reason),
    )


def upload_of(row: Row) -> Upload:
    return Upload(
        path=row[0],
        state=row[1],
        size=row[2],
        stamp=row[3],
        key=row[4],
        digest=row[5],
        content_type=row[6],
        error_class=row[7],
        reason=row[8],
    )


def file_of(row: Row, at: int) -> File:
    """A file from ten columns beginning at `at`: key, path, name, size, content_type, digest, cid,
    source_file, tags, config.
    """
    tags, config = row[at + 8], row[at + 9]
    return File(
        key=row[at],
        path=row[at + 1],
        name=row[at + 2],
        size=row[at + 3],
        content_type=row[at + 4],
        digest=row[at + 5],
        cid=row[at + 6],
        source_file=row[at + 7],
        # Most files have neither; decoding only what is there is worth it at thousands per second.
        tags=() if tags == "[]" else tuple(json.loads(tags)),
        processing_config={} if config == "{}" else json.loads(config),
    )


def file_columns(file: File) -> Row:
    """The columns from path on, as `insert_file` wants them."""
    return (
        file.path,
        file.path.casefold(),
        file.name,
        file.key,
        file.size,
        file.content_type,
        file.digest,
        file.cid,
        file.source_file,
        tags_column(file.tags),
        json.dumps(file.processing_config) if file.processing_config else "{}",
    )


def tags_column(tags: tuple[str, ...]) -> str:
    return json.dumps(tags) if tags else "[]"


def claim_of(batch_no: int, row: Row) -> Claim:
    return Claim(
        order=Order(batch_no, row[0], row[1], file_of(row, 5)),
        failures=row[2],
        interruptions=row[3],
        started_at=row[4],
    )


def settled_task_of(row: Row) -> SettledTask:
    return SettledTask(
        task_no=row[0],
        state=TaskState(row[1]),
        tries=row[2],
        listed=ListedFile(row[6], row[7], file_of(row, 8)),
        result=decode_result(row[3]),
        error_class=row[4],
        error=row[5],
    )


def settle_columns(settlement: Settlement) -> Row:
    """What `settle_task` sets, and then the attempt it is fenced by."""
    report = settlement.report
    tried = not settlement.cached and report.outcome != "done"
    return (
        settlement.state,
        settlement.due_at,
        tried and settlement.blame,
        tried and not settlement.blame,
        settlement.cached,
        encode_result(report.result),
        report.error_class or None,
        report.error or None,
        report.batch_no,
        report.task_no,
        report.attempt,
    )


def attempt_columns(settlement: Settlement) -> Row:
    report = settlement.report
    return (
        *(report.batch_no, report.task_no, report.attempt, report.outcome, report.worker),
        *(report.started_at, report.seconds, report.error_class or None, report.error or None),
    )


def stray_columns(settlement: Settlement, now: float) -> Row:
    report = settlement.report
    return (report.batch_no, report.task_no, report.attempt, report.outcome, report.worker, now)


def counts_of(row: Row) -> PhaseCounts:
    return PhaseCounts(phase=row[0], name=row[1], total=row[2], done=row[3], failed=row[4], cached=row[5])


def made_by_root(rows: list[Row]) -> dict[int, list[tuple[str, File]]]:
    """The files made of each input file, with their roles."""
    made: dict[int, list[tuple[str, File]]] = {}
    for row in rows:
        made.setdefault(row[0], []).append((row[1], file_of(row, 2)))
    return made


def input_of(upload: Row, end: Row | None, made: dict[int, list[tuple[str, File]]]) -> InputRecord:
    """The end of one input: its upload, the file it became, and what was made of that."""
    path, state, size, error_class, reason = upload[0], upload[1], upload[2], upload[7], upload[8]
    if state != "taken":
        return InputRecord(
            path=path, outcome=FileOutcome(state), size=size, error_class=error_class, reason=reason
        )
    if end is None or end[2] is None:
        # The batch has not ended: say so rather than guess.
        return InputRecord(
            path=path,
            outcome=FileOutcome.SKIPPED,
            size=size,
            error_class="unsettled",
            reason="not settled yet",
        )
    return InputRecord(
        path=path,
        outcome=FileOutcome(end[2]),
        size=size,
        error_class=end[3] or "",
        reason=end[4] or "",
        attempts=end[5],
        made=made.get(end[0], []),
    )
