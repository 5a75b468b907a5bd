"""What a house and the workers on its queue write to each other: tasks, reports and recalls, as messages.

Promises: an envelope is small, has a schema number and is checked before anybody relies on it; what does not
fit is stored, and the envelope holds its key. No document's bytes ever. Must not know: any queue or ledger.
"""

import hashlib
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from quire.blobs import content, keys
from quire.blobs.port import Blobs
from quire.model.errors import Reject
from quire.model.work import Order, Report, StepCall
from quire.queues.port import MAX_MESSAGE_BYTES

SCHEMA_VERSION = 1
# Of what is stored because it does not fit: far beyond what steps find out, and no burden for the memory.
MAX_STORED_BYTES = 16 << 20
LONGEST_TIMEOUT_SECONDS = 7 * 86_400.0
MOST_MEMORY_MB = 1 << 20
WHOLE_HOUSE = -1

T = TypeVar("T")
# Not `$`, which lets a last line break pass.
_HOUSE = r"\A[0-9a-f]{16}-[0-9A-Z]{26}\Z"
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_House = Annotated[str, Meta(pattern=_HOUSE)]
_Key = Annotated[str, Meta(max_length=keys.MAX_KEY_BYTES)]
_Digest = Annotated[str, Meta(pattern=r"\A([0-9a-f]{64})?\Z")]


class Task(Struct, frozen=True, forbid_unknown_fields=True):
    call: StepCall
    order: Order


class Envelope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One attempt of one task. `serial` counts what the house has handed out: a recall speaks of all up to
    one. `start_by` is the moment after which nobody may begin with it. `proof` is the key of a blob that
    whoever sees the house's store finds there. The task itself, or the digest under which it is stored.
    """

    schema_version: int
    house: _House
    batch_no: _Count
    serial: _Count
    start_by: float
    proof: _Key
    task: Task | None = None
    stored: _Digest = ""


class Told(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The end of an attempt: its report, or the digest under which that is stored."""

    schema_version: int
    house: _House
    report: Report | None = None
    stored: _Digest = ""


class Recall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing of this batch, up to this serial, is wanted any more; `WHOLE_HOUSE`: nothing of the house."""

    schema_version: int
    house: _House
    batch_no: Annotated[int, Meta(ge=WHOLE_HOUSE, le=2**63 - 1)]
    serial: _Count


class _Versioned(Struct):
    schema_version: int | UnsetType = UNSET


_versions = msgspec.json.Decoder(_Versioned)
_envelopes = msgspec.json.Decoder(Envelope)
_tolds = msgspec.json.Decoder(Told)
_recalls = msgspec.json.Decoder(Recall)
_tasks = msgspec.json.Decoder(Task)
_reports = msgspec.json.Decoder(Report)


def reports_queue(queue: str, house: str) -> str:
    """Where a house hears of its tasks; made of its name, so that no envelope can name another queue."""
    return f"{queue}-reports-{house}"


def recalls_queue(queue: str) -> str:
    return f"{queue}-recalls"


def estate_name(secret: bytes, ledger: str) -> str:
    """What all houses on one ledger have in common, and no others."""
    return hashlib.sha256(b"queue\0" + secret + b"\0" + ledger.encode()).hexdigest()[:16]


def read_envelope(body: bytes) -> Envelope:
    """Raises Reject: `not_json`, `wrong_schema_version` or `bad_message`; so do the others."""
    envelope = _read(_envelopes, body, "a task")
    _one_of(envelope.task, envelope.stored)
    if envelope.task is not None:
        _check_task(envelope.task)
    return envelope


def read_told(body: bytes, queue: str) -> Told:
    """Of a house whose reports come into this queue."""
    told = _read(_tolds, body, "a report")
    if not queue.endswith(told.house):
        raise Reject("this report is for another house", code="bad_message")
    _one_of(told.report, told.stored)
    if told.report is not None:
        _check_report(told.report)
    return told


def read_recall(body: bytes) -> Recall:
    return _read(_recalls, body, "a recall")


async def pack_task(envelope: Envelope, task: Task, blobs: Blobs) -> bytes:
    """The body of the message. Raises Reject when the task cannot be told, and what the store raises."""
    whole = _encoded(msgspec.structs.replace(envelope, task=task))
    if len(whole) <= MAX_MESSAGE_BYTES:
        return whole
    return _encoded(msgspec.structs.replace(envelope, stored=await _stored(_encoded(task), blobs)))


async def pack_report(house: str, report: Report, blobs: Blobs) -> bytes:
    """As `pack_task`."""
    whole = _encoded(Told(schema_version=SCHEMA_VERSION, house=house, report=report))
    if len(whole) <= MAX_MESSAGE_BYTES:
        return whole
    stored = await _stored(_encoded(report), blobs)
    return _encoded(Told(schema_version=SCHEMA_VERSION, house=house, stored=stored))


def pack_recall(house: str, batch_no: int, serial: int) -> bytes:
    return _encoded(Recall(schema_version=SCHEMA_VERSION, house=house, batch_no=batch_no, serial=serial))


async def task_of(envelope: Envelope, blobs: Blobs) -> Task:
    """Raises Reject for one that is none, and what the store raises."""
    if envelope.task is not None:
        return envelope.task
    task = _decoded(_tasks, await _fetched(envelope.stored, blobs), "a task")
    _check_task(task)
    return task


async def report_of(told: Told, blobs: Blobs) -> Report:
    """As `task_of`."""
    if told.report is not None:
        return told.report
    report = _decoded(_reports, await _fetched(told.stored, blobs), "a report")
    _check_report(report)
    return report


def _read(decoder: "msgspec.json.Decoder[T]", body: bytes, what: str) -> T:
    if len(body) > MAX_MESSAGE_BYTES:
        raise Reject(f"a message has {MAX_MESSAGE_BYTES} bytes at most", code="message_too_large")
    version = _decoded(_versions, body, what).schema_version
    if version != SCHEMA_VERSION:
        said = "none" if version is UNSET else version
        raise Reject(
            f"{what} in schema version {SCHEMA_VERSION} is read here, and this one has {said}: run the same "
            "version of quire everywhere, then replay it",
            code="wrong_schema_version",
        )
    return _decoded(decoder, body, what)


def _decoded(decoder: "msgspec.json.Decoder[T]", body: bytes, what: str) -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Reject(f"this is not {what}: {error}", code="bad_message") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Reject(f"this is not {what}: it is not JSON: {error}", code="not_json") from error


def _encoded(what: Any) -> bytes:
    try:
        return msgspec.json.encode(what)
    except Exception as error:
        raise Reject(f"this cannot be told in a message: {error}", code="bad_message") from error


async def _stored(body: bytes, blobs: Blobs) -> str:
    if len(body) > MAX_STORED_BYTES:
        raise Reject(
            f"what is to be told has {len(body)} bytes, and {MAX_STORED_BYTES} is the limit; let the step "
            "make a file of it",
            code="message_too_large",
        )
    return (await content.put_bytes(blobs, body)).digest


async def _fetched(digest: str, blobs: Blobs) -> bytes:
    size = (await blobs.head(keys.content(digest))).size
    if size > MAX_STORED_BYTES:
        raise Reject(f"what is stored for it has {size} bytes", code="message_too_large")
    return await content.get(blobs, digest)


def _one_of(there: object, stored: str) -> None:
    if (there is None) == (not stored):
        raise Reject("it must hold its content or the place of it, and not both", code="bad_message")


def _check_task(task: Task) -> None:
    call, order = task.call, task.order
    good = (
        0 < call.timeout_seconds <= LONGEST_TIMEOUT_SECONDS
        and 0 <= call.stall_seconds <= LONGEST_TIMEOUT_SECONDS
        and 1 <= call.memory_mb <= MOST_MEMORY_MB
        and min(order.batch_no, order.task_no, order.attempt) >= 0
    )
    if not good:
        raise Reject("the limits or numbers of this task cannot be", code="bad_message")


def _check_report(report: Report) -> None:
    good = min(report.batch_no, report.task_no, report.attempt) >= 0 and report.seconds >= 0
    if not good or not 0 <= report.delay_seconds <= LONGEST_TIMEOUT_SECONDS or report.known:
        raise Reject("the numbers of this report cannot be", code="bad_message")
    for product in report.result.products if report.result is not None else ():
        keys.check(product.key)
