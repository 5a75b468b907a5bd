"""Messages between queue compute and its workers: tasks, reports and recalls.

Promises: an envelope is small, has a schema number and is checked before use; content that does not fit is
stored, and the envelope holds its digest. No bytes of documents. Must not know: any queue or ledger.
The sender of a task is one process on one ledger; it is called `house` in the JSON.
"""

import hashlib
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from quire.blobs import content, keys
from quire.blobs.port import Blobs
from quire.model.errors import Reject
from quire.model.work import LONGEST_WAIT_SECONDS, Order, Outcome, Report, StepCall, StepResult
from quire.queues.port import MAX_MESSAGE_BYTES

SCHEMA_VERSION = 1
# Of content that is stored because it does not fit: far more than facts of steps, and easy on the memory.
MAX_STORED_BYTES = 16 << 20
LONGEST_TIMEOUT_SECONDS = 7 * 86_400.0
MAX_MEMORY_MB = 1 << 20
ALL_BATCHES = -1

T = TypeVar("T")
# Not `$`, which lets a last line break pass.
_SENDER = r"\A[0-9a-f]{16}-[0-9A-Z]{26}\Z"
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Sender = Annotated[str, Meta(pattern=_SENDER)]
_Key = Annotated[str, Meta(max_length=keys.MAX_KEY_BYTES)]
_Digest = Annotated[str, Meta(pattern=r"\A([0-9a-f]{64})?\Z")]


class Task(Struct, frozen=True, forbid_unknown_fields=True):
    call: StepCall
    order: Order


class TaskEnvelope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One attempt of one task: the task itself, or the digest under which it is stored. `serial` counts the
    orders of the sender: a recall applies to all up to a number. `start_by` is the moment after which no
    worker may start it. `proof` is the key of a blob that every worker with the right store finds there.
    """

    schema_version: int
    sender: _Sender = field(name="house")
    batch_no: _Count
    serial: _Count
    start_by: float
    proof: _Key
    task: Task | None = None
    stored: _Digest = ""


class ReportEnvelope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The end of an attempt: its report, or the digest under which that is stored."""

    schema_version: int
    sender: _Sender = field(name="house")
    report: Report | None = None
    stored: _Digest = ""


class TaskRecall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cancels all orders of this batch up to this serial; with `ALL_BATCHES` all orders of the sender."""

    schema_version: int
    sender: _Sender = field(name="house")
    batch_no: Annotated[int, Meta(ge=ALL_BATCHES, le=2**63 - 1)]
    serial: _Count


class _Versioned(Struct):
    schema_version: int | UnsetType = UNSET


_versions = msgspec.json.Decoder(_Versioned)
_envelopes = msgspec.json.Decoder(TaskEnvelope)
_report_envelopes = msgspec.json.Decoder(ReportEnvelope)
_recalls = msgspec.json.Decoder(TaskRecall)
_tasks = msgspec.json.Decoder(Task)
_reports = msgspec.json.Decoder(Report)


def reports_queue(queue: str, sender: str) -> str:
    """The queue of reports to one sender; derived from its name: no envelope can name another queue."""
    return f"{queue}-reports-{sender}"


def recalls_queue(queue: str) -> str:
    return f"{queue}-recalls"


def derive_ledger_id(secret: bytes, ledger: str) -> str:
    """The id that all senders on one ledger share, and no others."""
    return hashlib.sha256(b"queue\0" + secret + b"\0" + ledger.encode()).hexdigest()[:16]


def read_envelope(body: bytes) -> TaskEnvelope:
    """Raises Reject: `not_json`, `wrong_schema_version` or `bad_message`; so do the others."""
    envelope = _read(_envelopes, body, "a task")
    _check_one_of(envelope.task, envelope.stored)
    if envelope.task is not None:
        _check_task(envelope.task)
    return envelope


def read_report(body: bytes, queue: str) -> ReportEnvelope:
    """Raises Reject, also for a report to a sender with another queue."""
    envelope = _read(_report_envelopes, body, "a report")
    if not queue.endswith(envelope.sender):
        raise Reject("this report is for another sender", code="bad_message")
    _check_one_of(envelope.report, envelope.stored)
    if envelope.report is not None:
        _check_report(envelope.report)
    return envelope


def read_recall(body: bytes) -> TaskRecall:
    return _read(_recalls, body, "a recall")


async def pack_task(envelope: TaskEnvelope, task: Task, blobs: Blobs) -> bytes:
    """The body of the message. Raises Reject when the task cannot be encoded, and what the store raises."""
    whole = _encode(msgspec.structs.replace(envelope, task=task))
    if len(whole) <= MAX_MESSAGE_BYTES:
        return whole
    return _encode(msgspec.structs.replace(envelope, stored=await _store(_encode(task), blobs)))


async def pack_report(sender: str, report: Report, blobs: Blobs) -> bytes:
    """As `pack_task`."""
    whole = _encode(ReportEnvelope(schema_version=SCHEMA_VERSION, sender=sender, report=report))
    if len(whole) <= MAX_MESSAGE_BYTES:
        return whole
    stored = await _store(_encode(report), blobs)
    return _encode(ReportEnvelope(schema_version=SCHEMA_VERSION, sender=sender, stored=stored))


def pack_recall(sender: str, batch_no: int, serial: int) -> bytes:
    return _encode(TaskRecall(schema_version=SCHEMA_VERSION, sender=sender, batch_no=batch_no, serial=serial))


async def load_task(envelope: TaskEnvelope, blobs: Blobs) -> Task:
    """The task, from the envelope or the store. Raises Reject, and what the store raises."""
    if envelope.task is not None:
        return envelope.task
    task = _decode(_tasks, await _fetch(envelope.stored, blobs), "a task")
    _check_task(task)
    return task


async def load_report(envelope: ReportEnvelope, blobs: Blobs) -> Report:
    """As `load_task`."""
    if envelope.report is not None:
        return envelope.report
    report = _decode(_reports, await _fetch(envelope.stored, blobs), "a report")
    _check_report(report)
    return report


def _read(decoder: "msgspec.json.Decoder[T]", body: bytes, what: str) -> T:
    if len(body) > MAX_MESSAGE_BYTES:
        raise Reject(f"a message has {MAX_MESSAGE_BYTES} bytes at most", code="message_too_large")
    version = _decode(_versions, body, what).schema_version
    if version != SCHEMA_VERSION:
        said = "none" if version is UNSET else version
        raise Reject(
            f"{what} in schema version {SCHEMA_VERSION} is read here, and this one has {said}: run the same "
            "version of quire everywhere, then replay it",
            code="wrong_schema_version",
        )
    return _decode(decoder, body, what)


def _decode(decoder: "msgspec.json.Decoder[T]", body: bytes, what: str) -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Reject(f"this is not {what}: {error}", code="bad_message") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Reject(f"this is not {what}: it is not JSON: {error}", code="not_json") from error


def _encode(what: Any) -> bytes:
    try:
        return msgspec.json.encode(what)
    except Exception as error:
        raise Reject(f"this cannot be encoded as a message: {error}", code="bad_message") from error


async def _store(body: bytes, blobs: Blobs) -> str:
    if len(body) > MAX_STORED_BYTES:
        raise Reject(
            f"the message has {len(body)} bytes, and {MAX_STORED_BYTES} is the limit; let the step "
            "write a file instead",
            code="message_too_large",
        )
    return (await content.put_bytes(blobs, body)).digest


async def _fetch(digest: str, blobs: Blobs) -> bytes:
    size = (await blobs.head(keys.content(digest))).size
    if size > MAX_STORED_BYTES:
        raise Reject(f"its stored content has {size} bytes", code="message_too_large")
    return await content.get(blobs, digest)


def _check_one_of(there: object, stored: str) -> None:
    if (there is None) == (not stored):
        raise Reject("it must hold either its content or a digest", code="bad_message")


def _check_task(task: Task) -> None:
    call, order = task.call, task.order
    good = (
        0 < call.timeout_seconds <= LONGEST_TIMEOUT_SECONDS
        and 0 <= call.stall_seconds <= LONGEST_TIMEOUT_SECONDS
        and 0 <= call.page_seconds <= LONGEST_TIMEOUT_SECONDS
        and 1 <= call.memory_mb <= MAX_MEMORY_MB
        and call.at_once >= 0
        and min(order.batch_no, order.task_no, order.attempt) >= 0
    )
    if not good:
        raise Reject("the limits or numbers of this task are invalid", code="bad_message")


def _check_report(report: Report) -> None:
    good = min(report.batch_no, report.task_no, report.attempt) >= 0 and report.seconds >= 0
    if not good or not 0 <= report.delay_seconds <= LONGEST_TIMEOUT_SECONDS or report.known:
        raise Reject("the numbers of this report are invalid", code="bad_message")
    if (report.outcome is Outcome.EXTERNAL) != (report.request is not None):
        raise Reject("a report has a request when, and only when, it waits for an answer", code="bad_message")
    if report.request is not None and not 0 < report.request.within_seconds <= LONGEST_WAIT_SECONDS:
        raise Reject("the deadline of this report's request is invalid", code="bad_message")
    if report.result is not None:
        _check_result(report.result)


def _check_result(result: StepResult) -> None:
    for product in result.products:
        keys.check(product.key)
    value = result.value
    if value is not None and (value.key or value.digest) and value.key != keys.content(value.digest):
        raise Reject("the value of this report is not under the key of its digest", code="bad_message")
