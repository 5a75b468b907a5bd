"""From rows to values and back, for every ledger on SQL.

Adapters bring the statements and the transactions; each kind of row has one order of columns, which is that
of its NamedTuple here, in all adapters. Must not know: any database.
"""

import json
from typing import Any, NamedTuple

import msgspec

from quire.ledger.values import BatchDraft, Claim, ListedFile, StoredTask, Upload, WorkableBatch
from quire.model.batch import Batch, Budget, FlowState, Hold, Position, Stage, TaskState
from quire.model.cost import Cost
from quire.model.errors import Missing
from quire.model.files import File, fold
from quire.model.ids import BatchId
from quire.model.work import Order, StepResult

Row = tuple[Any, ...]

_result_decoder = msgspec.msgpack.Decoder(StepResult)
_encoder = msgspec.msgpack.Encoder()
EMPTY_RESULT = StepResult()
NO_COST = Cost()
_STATES = {state.value: state for state in TaskState}  # looking up is cheaper than calling the class
_FLOWING = frozenset({Stage.FLOWING.value, Stage.ENDING.value})
OVER_BUDGET = "the batch has spent its budget"


def encode_result(result: StepResult | None) -> bytes | None:
    """None for an empty result: most rows of fact-less steps then need no blob at all."""
    if result is None or result == EMPTY_RESULT:
        return None
    return _encoder.encode(result)


def decode_result(blob: bytes | None) -> StepResult:
    return EMPTY_RESULT if blob is None else _result_decoder.decode(blob)


class BatchRow(NamedTuple):
    """The columns of the view `batch_rows`."""

    no: int
    id: str
    pipeline: str
    pipeline_version: int
    stage: str
    phase: int
    cursor: int
    status: str
    manifest_key: str | None
    total_files: int
    last_file: int
    last_task: int
    created_at: float
    updated_at: float
    completed_at: float | None
    error: str | None
    plan: str
    delivered_at: float | None
    round: int
    started_at: float | None
    tier: int
    tenant: str
    hold: str | None
    hold_reason: str | None
    phase_retries: int
    rests_until: float
    budget_seconds: float | None
    budget_tokens: int | None
    budget_money: int | None
    served_at: float
    mover: int | None
    next_task: int
    rank: int | None
    dispatch_at: float
    refused: int
    passed_over: int
    hands_over_to: str
    open_tasks: int
    sources: int
    admitted: int
    admissible: int
    waits_at: int | None
    gathers: int
    adopts_to: int | None


class UploadRow(NamedTuple):
    """The columns of an upload, as every query gives them."""

    path: str
    state: str
    size: int
    stamp: str
    key: str
    digest: str
    content_type: str
    error_class: str
    reason: str
    cid: str | None
    config: str
    upload_id: str
    taken_at: float | None
    source_file: str | None
    tags: str


def read_batch(columns: Row | None, name: object) -> Batch:
    """Raises Missing when there is no row; `name` is what was asked for."""
    if columns is None:
        raise Missing(f"there is no batch {name}", code="unknown_batch")
    row = BatchRow._make(columns)
    return Batch(
        no=row.no,
        id=BatchId(row.id),
        pipeline=row.pipeline,
        pipeline_version=row.pipeline_version,
        position=Position(Stage(row.stage), row.phase, row.cursor, row.round),
        status=row.status,
        manifest_key=row.manifest_key,
        total_files=row.total_files,
        last_file=row.last_file,
        created_at=row.created_at,
        updated_at=row.updated_at,
        completed_at=row.completed_at,
        error=row.error,
        plan=row.plan,
        delivered_at=row.delivered_at,
        started_at=row.started_at,
        tier=row.tier,
        tenant=row.tenant,
        hold=None if row.hold is None else Hold(row.hold),
        hold_reason=row.hold_reason,
        phase_retries=row.phase_retries,
        rests_until=row.rests_until,
        budget=Budget(seconds=row.budget_seconds, tokens=row.budget_tokens, money_micros=row.budget_money),
        refused=row.refused,
        passed_over=row.passed_over,
        hands_over_to=row.hands_over_to,
        flow=_read_flow(row) if row.stage in _FLOWING else None,
    )


def _read_flow(row: BatchRow) -> FlowState:
    return FlowState(
        open_tasks=row.open_tasks,
        sources=row.sources,
        admitted=row.admitted,
        admissible=row.admissible,
        waits_at=row.waits_at,
        gathers=row.gathers,
        adopts_to=row.adopts_to,
    )


def read_workable_batch(columns: Row) -> WorkableBatch:
    row = BatchRow._make(columns)
    return WorkableBatch(batch=read_batch(columns, row.no), served_at=row.served_at)


def draft_columns(draft: BatchDraft) -> Row:
    budget = draft.budget
    return (
        *(draft.id, draft.run_key, draft.pipeline, draft.pipeline_version, draft.plan, draft.now),
        *(draft.tier, draft.tenant, budget.seconds, budget.tokens, budget.money_micros),
        *(draft.hands_over_to, draft.plan_digest),
    )


def upload_columns(upload: Upload) -> Row:
    return (
        *(upload.path, upload.state, upload.size, upload.stamp, upload.key),
        *(upload.digest, upload.content_type, upload.error_class, upload.reason),
    )


def read_upload(columns: Row) -> Upload:
    """Unpacked in the order of `UploadRow`, as thousands are read per second."""
    path, state, size, stamp, key, digest, content_type, error_class, reason, cid, config, *rest = columns
    upload_id, taken_at, source_file, tags = rest
    return Upload(
        path=path,
        state=state,
        size=size,
        stamp=stamp,
        key=key,
        digest=digest,
        content_type=content_type,
        error_class=error_class,
        reason=reason,
        cid=cid,
        config=decode_config(config),
        upload_id=upload_id,
        taken_at=taken_at,
        source_file=source_file,
        tags=decode_tags(tags),
    )


def read_file(columns: Row) -> File:
    """Ten columns; unpacked and not named, as thousands are read per second."""
    key, path, name, size, content_type, digest, cid, source_file, tags, config = columns
    return File(
        key=key,
        path=path,
        name=name,
        size=size,
        content_type=content_type,
        digest=digest,
        cid=cid,
        source_file=source_file,
        tags=decode_tags(tags),
        processing_config=decode_config(config),
    )


def file_columns(file: File) -> Row:
    """The columns from path on, as `insert_file` wants them."""
    return (
        file.path,
        fold(file.path),
        file.name,
        file.key,
        file.size,
        file.content_type,
        file.digest,
        file.cid,
        file.source_file,
        encode_tags(file.tags),
        encode_config(file.processing_config),
    )


# Most files have neither tags nor settings; decoding only what is there is worth it at thousands per second.
def decode_tags(column: str) -> tuple[str, ...]:
    return () if column == "[]" else tuple(json.loads(column))


def decode_config(column: str) -> dict[str, Any]:
    return {} if column == "{}" else json.loads(column)


def encode_tags(tags: tuple[str, ...]) -> str:
    return json.dumps(tags) if tags else "[]"


def encode_config(config: dict[str, Any]) -> str:
    return json.dumps(config) if config else "{}"


def read_claim(batch_no: int, columns: Row) -> Claim:
    task_no, attempt, failures, interruptions, started_at = columns[:5]
    order = Order(batch_no, task_no, attempt, read_file(columns[5:]))
    return Claim(order, failures, interruptions, started_at)


def read_task(batch_no: int, columns: Row | None, task_no: int) -> StoredTask:
    """From the columns of a claim, then phase, round and state. Raises Missing when there is no row."""
    if columns is None:
        raise Missing(f"there is no task {task_no} in that batch", code="unknown_task")
    *claim, phase, round_no, state = columns
    return StoredTask(
        claim=read_claim(batch_no, tuple(claim)), phase=phase, round=round_no, state=_STATES[state]
    )


def read_listed_file(columns: Row) -> ListedFile:
    no, root_no = columns[:2]
    return ListedFile(no, root_no, read_file(columns[2:]))
