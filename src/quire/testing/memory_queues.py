"""Queues in memory: the reference adapter. Only `wait` waits, and time is handed in.

Promise: passes the same suite as every other backend. With `away` every method raises Unavailable, like a
server that restarts.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from quire.model.errors import Lost, Missing, Reject, Unavailable
from quire.queues.checksums import check_leased, compute_checksum, is_intact, lease_intact
from quire.queues.port import (
    DEDUPE_SECONDS,
    LEAST,
    MAX_MESSAGE_BYTES,
    URGENT,
    DeadLetter,
    DeadLetterFilter,
    FailedDelivery,
    LeasedMessage,
    Message,
    QueueCounter,
    QueueDepth,
    QueuedMessage,
)

ALL = DeadLetterFilter()
_MAX_ID = 200
_HOUR_SECONDS = 3600.0
_MINUTE_SECONDS = 60.0


class _Entry:
    def __init__(self, message: Message, *, checksum: int, no: int, now: float, due_at: float) -> None:
        self.message = message
        self.checksum = checksum
        self.no = no
        self.sent_at = now
        self.due_at = due_at
        self.deliveries = 0
        self.token: str | None = None
        self.worker = ""
        self.history: tuple[FailedDelivery, ...] = ()

    @property
    def order(self) -> tuple[int, float, int]:
        return self.message.priority, self.due_at, self.no

    def record(self, ending: str, *, now: float, error_class: str = "", error: str = "") -> None:
        trial = FailedDelivery(
            delivery=self.deliveries,
            at=now,
            ending=ending,
            worker=self.worker,
            error_class=error_class,
            error=error,
        )
        self.history += (trial,)


class _Queue:
    def __init__(self) -> None:
        self.messages: dict[str, _Entry] = {}
        self.dead: dict[str, DeadLetter] = {}
        self.checksums: dict[str, int] = {}  # of the dead letters
        self.remembered: dict[str, float] = {}  # id: when it is forgotten
        self.totals: Counter[QueueCounter] = Counter()
        self.minutes: dict[float, Counter[QueueCounter]] = {}

    def count(self, happening: QueueCounter, number: int, now: float) -> None:
        if number:
            self.totals[happening] += number
            minute = now - now % _MINUTE_SECONDS
            self.minutes.setdefault(minute, Counter())[happening] += number

    def select_dead(self, chosen: DeadLetterFilter) -> list[DeadLetter]:
        return sorted((one for one in self.dead.values() if _matches(chosen, one)), key=lambda one: one.no)


class MemoryQueues:
    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        self._numbers = 0
        self._waiting: set[tuple[frozenset[str], asyncio.Event]] = set()
        self.away = False

    async def send(
        self, queue: str, messages: Sequence[Message], *, now: float, delay_seconds: float = 0
    ) -> int:
        state = self._find_queue(queue)
        for message in messages:
            _check(message)
        new = 0
        for message in messages:
            known = message.id in state.messages or message.id in state.dead
            if known or state.remembered.get(message.id, -math.inf) > now:
                continue
            checksum = compute_checksum(queue, message.id, message.priority, now, message.body)
            entry = _Entry(message, checksum=checksum, no=self._next(), now=now, due_at=now + delay_seconds)
            state.messages[message.id] = entry
            new += 1
        state.count(QueueCounter.SENT, new, now)
        self._wake(queue)
        return new

    async def lease(
        self, queue: str, *, limit: int, seconds: float, now: float, worker: str = ""
    ) -> list[LeasedMessage]:
        async def lease(number: int) -> list[LeasedMessage]:
            entries = self._find_queue(queue).messages.values()
            due = sorted((one for one in entries if one.due_at <= now), key=lambda one: one.order)
            return [self._lease_entry(queue, entry, seconds, now, worker) for entry in due[:number]]

        return await lease_intact(lease, self, limit=limit, now=now)

    def _lease_entry(
        self, queue: str, entry: _Entry, seconds: float, now: float, worker: str
    ) -> LeasedMessage:
        state = self._find_queue(queue)
        if entry.token is not None:
            entry.record("expired", now=now)
            state.count(QueueCounter.EXPIRED, 1, now)
        state.count(QueueCounter.DELIVERED, 1, now)
        entry.deliveries += 1
        entry.token, entry.worker, entry.due_at = str(self._next()), worker, now + seconds
        leased = LeasedMessage(
            queue=queue,
            id=entry.message.id,
            body=entry.message.body,
            deliveries=entry.deliveries,
            token=entry.token,
            priority=entry.message.priority,
            sent_at=entry.sent_at,
        )
        return check_leased(leased, entry.checksum)

    async def wait(self, queues: Collection[str], *, seconds: float) -> None:
        self._check_available()
        waiter = (frozenset(queues), asyncio.Event())
        self._waiting.add(waiter)
        try:
            await asyncio.wait_for(waiter[1].wait(), seconds)
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(waiter)

    async def next_due(self, queue: str, *, now: float) -> float | None:
        entries = self._find_queue(queue).messages.values()
        return min((one.due_at for one in entries if one.due_at > now), default=None)

    async def extend(self, leased: Sequence[LeasedMessage], *, seconds: float, now: float) -> None:
        lost = []
        for one in leased:
            entry = self._find_leased(one)
            if entry is None or entry.due_at <= now:
                lost.append(one.id)
            else:
                entry.due_at = now + seconds
        _raise_lost(lost)

    async def acknowledge(self, leased: Sequence[LeasedMessage], *, now: float) -> None:
        lost = []
        for one in leased:
            if self._find_leased(one) is None:
                lost.append(one.id)
                continue
            state = self._find_queue(one.queue)
            del state.messages[one.id]
            state.remembered[one.id] = now + DEDUPE_SECONDS
            state.count(QueueCounter.ACKNOWLEDGED, 1, now)
        _raise_lost(lost)

    async def release(
        self,
        leased: LeasedMessage,
        *,
        now: float,
        delay_seconds: float = 0,
        error_class: str = "",
        error: str = "",
        counted: bool = True,
    ) -> None:
        entry = self._get_leased(leased)
        if counted:
            entry.record("released", now=now, error_class=error_class, error=error)
            self._find_queue(leased.queue).count(QueueCounter.RELEASED, 1, now)
        else:
            entry.deliveries -= 1
        entry.token, entry.worker, entry.due_at = None, "", now + delay_seconds
        self._wake(leased.queue)

    async def dead_letter(
        self, leased: LeasedMessage, *, now: float, reason: str, error_class: str = ""
    ) -> None:
        entry = self._get_leased(leased)
        entry.record("buried", now=now, error_class=error_class, error=reason)
        state = self._find_queue(leased.queue)
        del state.messages[leased.id]
        state.dead[leased.id] = DeadLetter(
            no=self._next(),
            queue=leased.queue,
            id=leased.id,
            body=entry.message.body,
            priority=entry.message.priority,
            deliveries=entry.deliveries,
            sent_at=entry.sent_at,
            buried_at=now,
            error_class=error_class,
            reason=reason,
            history=entry.history,
        )
        state.checksums[leased.id] = entry.checksum
        state.count(QueueCounter.DEAD_LETTERED, 1, now)

    async def list_dead_letters(
        self, queue: str, *, chosen: DeadLetterFilter = ALL, after: int = 0, limit: int
    ) -> list[DeadLetter]:
        state = self._find_queue(queue)
        found = [one for one in state.select_dead(chosen) if one.no > after][:limit]
        return [_examine(one, state.checksums[one.id]) for one in found]

    async def get_dead_letter(self, queue: str, message_id: str) -> DeadLetter:
        state = self._find_queue(queue)
        found = state.dead.get(message_id)
        if found is None:
            raise Missing(f"queue {queue} has no dead letter {message_id}")
        return _examine(found, state.checksums[message_id])

    async def count_dead_letters(self, queue: str) -> dict[str, int]:
        return dict(Counter(one.error_class for one in self._find_queue(queue).dead.values()).most_common())

    async def replay(
        self, queue: str, *, chosen: DeadLetterFilter = ALL, now: float, per_second: float = 0, limit: int
    ) -> int:
        state = self._find_queue(queue)
        letters = state.select_dead(chosen)[:limit]
        for place, letter in enumerate(letters):
            message = Message(id=letter.id, body=letter.body, priority=letter.priority)
            due_at = now + (place / per_second if per_second else 0)
            checksum = state.checksums.pop(letter.id)
            entry = _Entry(message, checksum=checksum, no=self._next(), now=letter.sent_at, due_at=due_at)
            entry.history = letter.history
            entry.record("replayed", now=now)
            state.messages[letter.id] = entry
            del state.dead[letter.id]
        state.count(QueueCounter.REPLAYED, len(letters), now)
        self._wake(queue)
        return len(letters)

    async def discard(self, queue: str, *, chosen: DeadLetterFilter = ALL, now: float, limit: int) -> int:
        state = self._find_queue(queue)
        letters = state.select_dead(chosen)[:limit]
        for letter in letters:
            del state.dead[letter.id], state.checksums[letter.id]
            state.remembered[letter.id] = now + DEDUPE_SECONDS
        state.count(QueueCounter.DISCARDED, len(letters), now)
        return len(letters)

    async def names(self) -> list[str]:
        self._check_available()
        return sorted(name for name, state in self._queues.items() if state.totals)

    async def depth(self, queue: str, *, now: float) -> QueueDepth:
        state = self._find_queue(queue)
        entries = state.messages.values()
        return QueueDepth(
            waiting=sum(one.due_at <= now for one in entries),
            delayed=sum(one.due_at > now and one.token is None for one in entries),
            leased=sum(one.due_at > now and one.token is not None for one in entries),
            dead=len(state.dead),
            oldest_at=min(
                (one.sent_at for one in entries if one.due_at <= now or one.token is not None), default=None
            ),
        )

    async def peek(self, queue: str, *, limit: int, now: float) -> list[QueuedMessage]:
        entries = self._find_queue(queue).messages.values()
        out = [one for one in entries if one.token is not None and one.due_at > now]
        rest = sorted(
            (one for one in entries if one not in out), key=lambda one: (one.due_at > now, one.order)
        )
        return [
            QueuedMessage(
                queue=queue,
                id=one.message.id,
                body=one.message.body,
                priority=one.message.priority,
                deliveries=one.deliveries,
                sent_at=one.sent_at,
                due_at=one.due_at,
                leased_to=one.worker if one in out else None,
                is_damaged=_is_damaged(queue, one),
            )
            for one in (*rest, *sorted(out, key=lambda one: one.order))[:limit]
        ]

    async def counters(self, queue: str, *, since: float | None = None) -> dict[QueueCounter, int]:
        state = self._find_queue(queue)
        if since is None:
            return {happening: state.totals[happening] for happening in QueueCounter}
        first = since - since % _MINUTE_SECONDS
        late = [counted for minute, counted in state.minutes.items() if minute >= first]
        return {happening: sum(counted[happening] for counted in late) for happening in QueueCounter}

    async def purge(self, queue: str, *, now: float) -> int:
        state = self._find_queue(queue)
        gone = [one for one in state.messages.values() if one.token is None or one.due_at <= now]
        for one in gone:
            del state.messages[one.message.id]
        state.count(QueueCounter.DISCARDED, len(gone), now)
        return len(gone)

    async def sweep(self, *, now: float) -> int:
        self._check_available()
        forgotten = 0
        for state in self._queues.values():
            over = [name for name, until in state.remembered.items() if until <= now]
            for name in over:
                del state.remembered[name]
            forgotten += len(over)
            state.minutes = {at: one for at, one in state.minutes.items() if at >= now - _HOUR_SECONDS}
        return forgotten

    async def close(self) -> None:
        """Nothing to close."""

    def _check_available(self) -> None:
        if self.away:
            raise Unavailable("the queues are away")

    def _find_queue(self, queue: str) -> _Queue:
        self._check_available()
        return self._queues.setdefault(queue, _Queue())

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    def _wake(self, queue: str) -> None:
        for queues, event in self._waiting:
            if queue in queues:
                event.set()

    def _find_leased(self, leased: LeasedMessage) -> _Entry | None:
        entry = self._find_queue(leased.queue).messages.get(leased.id)
        return entry if entry is not None and entry.token == leased.token else None

    def _get_leased(self, leased: LeasedMessage) -> _Entry:
        entry = self._find_leased(leased)
        if entry is None:
            _raise_lost([leased.id])
            raise AssertionError  # not reached
        return entry


def _is_damaged(queue: str, entry: _Entry) -> bool:
    one = entry.message
    return not is_intact(queue, one.id, one.priority, entry.sent_at, one.body, entry.checksum)


def _examine(letter: DeadLetter, checksum: int) -> DeadLetter:
    intact = is_intact(letter.queue, letter.id, letter.priority, letter.sent_at, letter.body, checksum)
    return msgspec.structs.replace(letter, is_damaged=not intact)


def _check(message: Message) -> None:
    if len(message.body) > MAX_MESSAGE_BYTES:
        raise Reject("too large: store its content as a blob and send a reference", code="message_too_large")
    named = 0 < len(message.id) <= _MAX_ID and message.id.isprintable()
    if not named or not URGENT <= message.priority <= LEAST:
        raise Reject("an id has 1 to 200 printable characters, a priority is 1 to 5", code="bad_message")


def _matches(chosen: DeadLetterFilter, letter: DeadLetter) -> bool:
    if chosen.ids is not None and letter.id not in chosen.ids:
        return False
    if chosen.error_class is not None and letter.error_class != chosen.error_class:
        return False
    text = (chosen.text or "").casefold()
    body = letter.body.decode("utf-8", "replace")
    return any(text in place.casefold() for place in (letter.reason, letter.id, body))


def _raise_lost(ids: list[str]) -> None:
    if ids:
        raise Lost("the lease is gone: stop working on it", code="lease_lost", ids=tuple(ids))
