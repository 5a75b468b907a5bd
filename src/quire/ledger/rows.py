"""Between rows and values, for every ledger on SQL: what each column means, in which order.

Adapters bring the statements and the transactions; a row has the same columns in the same order in all of
them. Must not know: any database.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from quire.ledger.values import (
    BatchDraft,
    Claim,
    ListedFile,
    SettledTask,
    Settlement,
    StrayKind,
    TaskStanding,
    Upload,
    WorkableBatch,
)
from quire.model.batch import Batch, Budget, Hold, Position, Spent, Stage, TaskState
from quire.model.cost import Cost
from quire.model.errors import Missing
from quire.model.files import File
from quire.model.ids import BatchId
from quire.model.work import Order, Report, StepResult

Row = tuple[Any, ...]

_result_decoder = msgspec.msgpack.Decoder(StepResult)
_encoder = msgspec.msgpack.Encoder()
EMPTY_RESULT = StepResult()
NO_COST = Cost()
_STATES = {state.value: state for state in TaskState}  # looking up is cheaper than calling the class
OVER_BUDGET = "the batch has spent its budget"


def encode_result(result: StepResult | None) -> bytes | None:
    """None for an empty result: most rows of fact-less steps then need no blob at all."""
    if result is None or result == EMPTY_RESULT:
        return None
    return _encoder.encode(result)


def decode_result(blob: bytes | None) -> StepResult:
    return EMPTY_RESULT if blob is None else _result_decoder.decode(blob)


def batch_of(row: Row | None, name: object) -> Batch:
    """From the columns of `batch_rows`."""
    if row is None:
        raise Missing(f"there is no batch {name}", code="unknown_batch")
    return Batch(
        no=row[0],
        id=BatchId(row[1]),
        pipeline=row[2],
        pipeline_version=row[3],
        position=Position(Stage(row[4]), row[5], row[6], row[18]),
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
        started_at=row[19],
        tier=row[20],
        tenant=row[21],
        hold=None if row[22] is None else Hold(row[22]),
        hold_reason=row[23],
        phase_retries=row[24],
        rests_until=row[25],
        budget=Budget(seconds=row[26], tokens=row[27], money_micros=row[28]),
        refused=row[34],
        passed_over=row[35],
        hands_over_to=row[36],
    )


def candidate_of(row: Row) -> WorkableBatch:
    return WorkableBatch(batch=batch_of(row, row[0]), served_at=row[29])


def draft_columns(draft: BatchDraft) -> Row:
    budget = draft.budget
    return (
        *(draft.id, draft.run_key, draft.pipeline, draft.pipeline_version, draft.plan, draft.now),
        *(draft.tier, draft.tenant, budget.seconds, budget.tokens, budget.money_micros),
        draft.hands_over_to,
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
        cid=row[9],
        config=config_of(row[10]),
        upload_id=row[11],
        taken_at=row[12],
        source_file=row[13],
        tags=tags_of(row[14]),
    )


def file_of(row: Row, at: int) -> File:
    """A file from ten columns beginning at `at`: key, path, name, size, content_type, digest, cid,
    source_file, tags, config.
    """
    return File(
        key=row[at],
        path=row[at + 1],
        name=row[at + 2],
        size=row[at + 3],
        content_type=row[at + 4],
        digest=row[at + 5],
        cid=row[at + 6],
        source_file=row[at + 7],
        tags=tags_of(row[at + 8]),
        processing_config=config_of(row[at + 9]),
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
        config_column(file.processing_config),
    )


# Most files have neither tags nor settings; decoding only what is there is worth it at thousands per second.
def tags_of(column: str) -> tuple[str, ...]:
    return () if column == "[]" else tuple(json.loads(column))


def config_of(column: str) -> dict[str, Any]:
    return {} if column == "{}" else json.loads(column)


def tags_column(tags: tuple[str, ...]) -> str:
    return json.dumps(tags) if tags else "[]"


def config_column(config: dict[str, Any]) -> str:
    return json.dumps(config) if config else "{}"


def claim_of(batch_no: int, row: Row) -> Claim:
    """From task_no, attempt, failures, interruptions, started_at and the file's columns."""
    return Claim(Order(batch_no, row[0], row[1], file_of(row, 5)), row[2], row[3], row[4])


def standing_of(batch_no: int, row: Row | None, task_no: int) -> TaskStanding:
    """From the columns of a claim, then phase, round and state."""
    if row is None:
        raise Missing(f"there is no task {task_no} in that batch", code="unknown_task")
    return TaskStanding(claim=claim_of(batch_no, row), phase=row[15], round=row[16], state=_STATES[row[17]])


def listed_of(row: Row) -> ListedFile:
    return ListedFile(row[0], row[1], file_of(row, 2))


def settled_task_of(row: Row) -> SettledTask:
    return SettledTask(
        task_no=row[0],
        state=_STATES[row[1]],
        tries=row[2],
        listed=ListedFile(row[6], row[7], file_of(row, 8)),
        result=decode_result(row[3]),
        error_class=row[4],
        error=row[5],
    )


def is_plain_success(settlement: Settlement) -> bool:
    """Done, without products, facts or costs, and not from the cache."""
    report = settlement.report
    plain = report.result is None or report.result == EMPTY_RESULT
    return settlement.state is TaskState.DONE and plain and not settlement.cached and report.cost == NO_COST


def success_columns(settlement: Settlement) -> Row:
    """What `settle_success` sets, and then the attempt it is fenced by."""
    report = settlement.report
    return (
        *(report.worker, report.started_at, report.seconds),
        *(report.batch_no, report.task_no, report.attempt),
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
        report.outcome,
        report.worker,
        report.started_at,
        report.seconds,
        encode_cost(report.cost),
        report.batch_no,
        report.task_no,
        report.attempt,
    )


def late_columns(settlement: Settlement) -> Row:
    """What `late_success` sets, and then the attempt it belongs to."""
    report = settlement.report
    return (
        *(encode_result(report.result), report.worker, report.seconds, encode_cost(report.cost)),
        *(report.batch_no, report.task_no, report.attempt),
    )


def encode_cost(cost: Cost) -> bytes | None:
    return None if cost == NO_COST else _encoder.encode(cost)


def stray_kind(report: Report, now: tuple[int, str] | None) -> StrayKind:
    """Why it changed nothing, from the task's (attempt, state) as it is."""
    if now is None or report.attempt > now[0] or report.attempt < 1:
        return StrayKind.UNKNOWN
    if report.attempt < now[0] or now[1] == TaskState.SUPERSEDED:
        return StrayKind.LATE
    return StrayKind.DUPLICATE


def stray_columns(report: Report, kind: StrayKind, now: float) -> Row:
    return (report.batch_no, report.task_no, report.attempt, report.outcome, report.worker, now, kind)


class Tally(Struct, frozen=True, kw_only=True):
    """What a set of settlements adds to the counters of its phase."""

    done: int
    failed: int
    cached: int
    spent: Spent
    failures: dict[str, int]
    due_at: float | None

    @property
    def columns(self) -> Row:
        """As `count_settled` wants them."""
        spent = self.spent
        return (
            *(self.done, self.failed, self.cached, self.done + self.failed),
            *(spent.seconds, spent.bytes_in, spent.bytes_out),
            *(spent.tokens_in, spent.tokens_out, spent.money_micros),
        )


def tally(settlements: Sequence[Settlement]) -> Tally:
    done = failed = cached = 0
    seconds = 0.0
    cost = NO_COST
    failures: dict[str, int] = {}
    due: list[float] = []
    for settlement in settlements:
        report = settlement.report
        if settlement.state is TaskState.DONE:
            done += 1
        elif settlement.state is TaskState.FAILED:
            failed += 1
            failures[report.error_class] = failures.get(report.error_class, 0) + 1
        cached += settlement.cached
        seconds += report.seconds
        if report.cost != NO_COST:
            cost += report.cost
        if settlement.due_at is not None:
            due.append(settlement.due_at)
    spent = Spent(
        seconds=seconds,
        bytes_in=cost.bytes_in,
        bytes_out=cost.bytes_out,
        tokens_in=cost.tokens_in,
        tokens_out=cost.tokens_out,
        money_micros=cost.money_micros,
    )
    return Tally(
        done=done, failed=failed, cached=cached, spent=spent, failures=failures, due_at=min(due, default=None)
    )
