"""A message as its state object has it: the truth. And how it changes, step by step.

States: `pending` belongs to a sending of many that is decided elsewhere; `waiting`, `leased`, `dead`; `done`
is remembered until its window is over; `gone` is forgotten already; `closed` is about to be deleted. `rev`
grows with every change and `order` is new with every incarnation, so that no hint is ever right again once it
was wrong. Pure.
"""

from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, structs

from quire.queues.bucket_store.places import Places, rounded, segment
from quire.queues.port import DEDUPE_SECONDS, DeadLetter, Leased, Message, Trial, Waiting
from quire.queues.rows import readable

State = Literal["pending", "waiting", "leased", "dead", "done", "gone", "closed"]


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    state: State
    order: str
    rev: int = 1
    nonce: str = ""  # new with every write: each writer knows its own
    body: bytes = b""
    priority: int = 3
    deliveries: int = 0
    sent_at: float = 0.0
    due_at: float = 0.0  # when it may be delivered, or the end of its lease
    token: str = ""
    worker: str = ""
    trials: tuple[Trial, ...] = ()
    no: int = 0
    buried_at: float = 0.0
    error_class: str = ""
    until: float = 0.0
    send: str = ""
    schema: int = 1


class Sending(Struct, frozen=True, kw_only=True):
    """What decides over many messages at once. `names` are those of their states."""

    state: Literal["open", "committed", "aborted"]
    nonce: str
    names: tuple[str, ...] = ()
    schema: int = 1


class Grave(Struct, frozen=True, kw_only=True):
    """Whose number it is."""

    name: str
    nonce: str


T = TypeVar("T")


def encode(body: Any) -> bytes:
    return msgspec.json.encode(body)


def decode(body: bytes, kind: type[T]) -> T | None:
    """None: perhaps a later version's, in any case not ours to judge."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def fresh(message: Message, *, order: str, now: float, due_at: float, send: str) -> Record:
    return Record(
        id=message.id,
        state="pending" if send else "waiting",
        order=order,
        body=message.body,
        priority=message.priority,
        sent_at=now,
        due_at=rounded(due_at),
        send=send,
    )


def place_of(record: Record, places: Places) -> str | None:
    """The one hint that is right for it; None: it needs none."""
    name = segment(record.id)
    if record.state in {"pending", "waiting", "leased"}:
        return places.hint(
            tier=record.priority,
            due_at=record.due_at,
            order=record.order,
            leased=record.state == "leased",
            rev=record.rev,
            sent_at=record.sent_at,
            name=name,
        )
    if record.state == "dead":
        return places.grave(record.no)
    if record.state in {"done", "gone"}:
        return places.tombstone(until=record.until, order=record.order, rev=record.rev, name=name)
    return None


def settled(record: Record) -> Record:
    """As it is once its sending is committed; the hint stays the same."""
    return structs.replace(record, state="waiting", send="") if record.state == "pending" else record


def lent(record: Record, *, token: str, seconds: float, now: float, worker: str) -> Record:
    trials = record.trials
    if record.state == "leased":
        trials = (*trials, _trial(record, "expired", now))
    return structs.replace(
        record,
        state="leased",
        rev=record.rev + 1,
        token=token,
        worker=readable(worker),
        deliveries=record.deliveries + 1,
        due_at=rounded(now + seconds),
        trials=trials,
    )


def extended(record: Record, *, seconds: float, now: float) -> Record:
    return structs.replace(record, rev=record.rev + 1, due_at=rounded(now + seconds))


def released(
    record: Record, *, now: float, delay_seconds: float, error_class: str, error: str, counted: bool
) -> Record:
    trials, deliveries = record.trials, record.deliveries
    if counted:
        trials = (*trials, _trial(record, "released", now, error_class, error))
    else:
        deliveries -= 1
    return structs.replace(
        record,
        state="waiting",
        rev=record.rev + 1,
        token="",
        worker="",
        deliveries=deliveries,
        due_at=rounded(now + delay_seconds),
        trials=trials,
    )


def buried(record: Record, *, no: int, now: float, error_class: str, reason: str) -> Record:
    return structs.replace(
        record,
        state="dead",
        rev=record.rev + 1,
        token="",
        worker="",
        no=no,
        buried_at=now,
        error_class=readable(error_class),
        trials=(*record.trials, _trial(record, "buried", now, error_class, reason)),
    )


def replayed(record: Record, *, order: str, now: float, due_at: float) -> Record:
    anew = structs.replace(record, deliveries=0, worker="")
    return structs.replace(
        anew,
        state="waiting",
        rev=record.rev + 1,
        order=order,
        due_at=rounded(due_at),
        no=0,
        buried_at=0.0,
        error_class="",
        trials=(*record.trials, _trial(anew, "replayed", now)),
    )


def finished(record: Record, *, now: float) -> Record:
    """Only its id is kept, as long as it must be known."""
    return _ended(record, "done", rounded(now + DEDUPE_SECONDS))


def forgotten(record: Record, *, now: float) -> Record:
    return _ended(record, "gone", rounded(now))


def closed(record: Record) -> Record:
    return _ended(record, "closed", record.until)


def _ended(record: Record, state: State, until: float) -> Record:
    return Record(id=record.id, state=state, order=record.order, rev=record.rev + 1, until=until)


def loan_of(queue: str, record: Record) -> Leased:
    return Leased(
        queue=queue,
        id=record.id,
        body=record.body,
        deliveries=record.deliveries,
        token=record.token,
        priority=record.priority,
        sent_at=record.sent_at,
    )


def letter_of(queue: str, record: Record) -> DeadLetter:
    return DeadLetter(
        no=record.no,
        queue=queue,
        id=record.id,
        body=record.body,
        priority=record.priority,
        deliveries=record.deliveries,
        sent_at=record.sent_at,
        buried_at=record.buried_at,
        error_class=record.error_class,
        reason=record.trials[-1].error if record.trials else "",
        trials=record.trials,
    )


def waiting_of(queue: str, record: Record, *, now: float) -> Waiting:
    out = record.state == "leased" and record.due_at > now
    return Waiting(
        queue=queue,
        id=record.id,
        body=record.body,
        priority=record.priority,
        deliveries=record.deliveries,
        sent_at=record.sent_at,
        due_at=record.due_at,
        leased_to=record.worker if out else None,
    )


def _trial(record: Record, ending: str, now: float, error_class: str = "", error: str = "") -> Trial:
    return Trial(
        delivery=record.deliveries,
        at=now,
        ending=ending,
        worker=record.worker,
        error_class=readable(error_class),
        error=readable(error),
    )
