"""Queues, messages and dead letters as JSON: the shapes that programs rely on.

Field names stay; new ones may be added. Times are RFC 3339 in UTC. A body is text where it is UTF-8,
otherwise base64, never both.
"""

import base64

from msgspec import Struct

from quire.model.clock import timestamp
from quire.queues.port import DeadLetter, FailedDelivery, QueuedMessage


class QueueLine(Struct, frozen=True, kw_only=True):
    """`acknowledged_per_second` and `retry_rate` (retries by deliveries; None without any) cover the last
    `seconds_looked_at`.
    """

    queue: str
    waiting: int
    delayed: int
    in_flight: int
    dead: int
    oldest_age_seconds: float | None
    acknowledged_per_second: float
    retry_rate: float | None
    seconds_looked_at: float
    max_retries: int
    dead_letter: str


class Body(Struct, frozen=True, kw_only=True):
    size: int
    body: str | None
    body_base64: str | None


class WaitingLine(Body, frozen=True, kw_only=True):
    """`state` is waiting, delayed or in_flight; `due_at` is the end of the lease of what is in flight. What
    `is_damaged` will not be delivered: its bytes are not those that were sent.
    """

    queue: str
    id: str
    state: str
    priority: int
    deliveries: int
    sent_at: str
    due_at: str
    leased_to: str | None
    is_damaged: bool = False


class TrialLine(Struct, frozen=True, kw_only=True):
    delivery: int
    at: str
    ending: str
    worker: str
    error_class: str | None
    error: str | None


class DeadLine(Body, frozen=True, kw_only=True):
    """The next page of the list starts after `no`; `history` has every failed delivery. The bytes of what
    `is_damaged` are not those that were sent, whatever it was given up for.
    """

    no: int
    queue: str
    id: str
    error_class: str | None
    reason: str
    deliveries: int
    priority: int
    sent_at: str
    buried_at: str
    history: list[TrialLine]
    is_damaged: bool = False


def to_waiting_line(one: QueuedMessage, now: float) -> WaitingLine:
    text, coded = _decode_body(one.body)
    state = "in_flight" if one.leased_to is not None else ("delayed" if one.due_at > now else "waiting")
    return WaitingLine(
        queue=one.queue,
        id=one.id.encode("utf-8", "replace").decode(),
        state=state,
        priority=one.priority,
        deliveries=one.deliveries,
        sent_at=timestamp(one.sent_at),
        due_at=timestamp(one.due_at),
        leased_to=one.leased_to,
        is_damaged=one.is_damaged,
        size=len(one.body),
        body=text,
        body_base64=coded,
    )


def to_dead_line(letter: DeadLetter) -> DeadLine:
    text, coded = _decode_body(letter.body)
    return DeadLine(
        no=letter.no,
        queue=letter.queue,
        id=letter.id.encode("utf-8", "replace").decode(),  # damaged ones may be no text
        error_class=letter.error_class or None,
        reason=letter.reason,
        deliveries=letter.deliveries,
        priority=letter.priority,
        sent_at=timestamp(letter.sent_at),
        buried_at=timestamp(letter.buried_at),
        history=[_to_trial_line(one) for one in letter.history],
        is_damaged=letter.is_damaged,
        size=len(letter.body),
        body=text,
        body_base64=coded,
    )


def _to_trial_line(one: FailedDelivery) -> TrialLine:
    return TrialLine(
        delivery=one.delivery,
        at=timestamp(one.at),
        ending=one.ending,
        worker=one.worker,
        error_class=one.error_class or None,
        error=one.error or None,
    )


def _decode_body(body: bytes) -> tuple[str | None, str | None]:
    try:
        return body.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(body).decode()
