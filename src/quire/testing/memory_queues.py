"""Queues in memory: the reference adapter. Nothing but `wait` waits, and time is handed in.

Promise: the same suite as every other backend. `away` makes every door raise Unavailable, as a server does
that restarts.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Collection, Sequence

from quire.model.errors import Lost, Missing, Reject, Unavailable
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
_LONGEST_ID = 200
_HOUR_SECONDS = 3600.0
_MINUTE_SECONDS = 60.0


class _Entry:
    def __init__(self, message: Message, *, no: int, now: float, due_at: float) -> None:
        self.message = message
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

    def noted(self, ending: str, *, now: float, error_class: str = "", error: str = "") -> None:
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
        self.living: dict[str, _Entry] = {}
        self.dead: dict[str, DeadLetter] = {}
        self.remembered: dict[str, float] = {}  # id: until when
        self.totals: Counter[QueueCounter] = Counter()
        self.minutes: dict[float, Counter[QueueCounter]] = {}

    def count(self, happening: QueueCounter, number: int, now: float) -> None:
        if number:
            self.totals[happening] += number
            minute = now - now % _MINUTE_SECONDS
            self.minutes.setdefault(minute, Counter())[happening] += number

    def chosen_dead(self, chosen: DeadLetterFilter) -> list[DeadLetter]:
        return sorted((one for one in self.dead.values() if _means(chosen, one)), key=lambda one: one.no)


class MemoryQueues:
    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        self._numbers = 0
        self._watching: set[tuple[frozenset[str], asyncio.Event]] = set()
        self.away = False

    async def send(
        self, queue: str, messages: Sequence[Message], *, now: float, delay_seconds: float = 0
    ) -> int:
        room = self._room(queue)
        for message in messages:
            _check(message)
        new = 0
        for message in messages:
            known = message.id in room.living or message.id in room.dead
            if known or room.remembered.get(message.id, -math.inf) > now:
                continue
            entry = _Entry(message, no=self._next(), now=now, due_at=now + delay_seconds)
            room.living[message.id] = entry
            new += 1
        room.count(QueueCounter.SENT, new, now)
        self._wake(queue)
        return new

    async def lease(
        self, queue: str, *, limit: int, seconds: float, now: float, worker: str = ""
    ) -> list[LeasedMessage]:
        room = self._room(queue)
        due = sorted((one for one in room.living.values() if one.due_at <= now), key=lambda one: one.order)
        return [self._lend(queue, entry, seconds, now, worker) for entry in due[:limit]]

    def _lend(self, queue: str, entry: _Entry, seconds: float, now: float, worker: str) -> LeasedMessage:
        room = self._room(queue)
        if entry.token is not None:
            entry.noted("expired", now=now)
            room.count(QueueCounter.EXPIRED, 1, now)
        room.count(QueueCounter.DELIVERED, 1, now)
        entry.deliveries += 1
        entry.token, entry.worker, entry.due_at = str(self._next()), worker, now + seconds
        return LeasedMessage(
            queue=queue,
            id=entry.message.id,
            body=entry.message.body,
            deliveries=entry.deliveries,
            token=entry.token,
            priority=entry.message.priority,
            sent_at=entry.sent_at,
        )

    async def wait(self, queues: Collection[str], *, seconds: float) -> None:
        self._answer()
        watch = (frozenset(queues), asyncio.Event())
        self._watching.add(watch)
        try:
            await asyncio.wait_for(watch[1].wait(), seconds)
        except TimeoutError:
            pass
        finally:
            self._watching.discard(watch)

    async def next_due(self, queue: str, *, now: float) -> float | None:
        entries = self._room(queue).living.values()
        return min((one.due_at for one in entries if one.due_at > now), default=None)

    async def extend(self, leased: Sequence[LeasedMessage], *, seconds: float, now: float) -> None:
        lost = []
        for one in leased:
            entry = self._held(one)
            if entry is None or entry.due_at <= now:
                lost.append(one.id)
            else:
                entry.due_at = now + seconds
        _raise_lost(lost)

    async def acknowledge(self, leased: Sequence[LeasedMessage], *, now: float) -> None:
        lost = []
        for one in leased:
            if self._held(one) is None:
                lost.append(one.id)
                continue
            room = self._room(one.queue)
            del room.living[one.id]
            room.remembered[one.id] = now + DEDUPE_SECONDS
            room.count(QueueCounter.ACKNOWLEDGED, 1, now)
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
        entry = self._proven(leased)
        if counted:
            entry.noted("released", now=now, error_class=error_class, error=error)
            self._room(leased.queue).count(QueueCounter.RELEASED, 1, now)
        else:
            entry.deliveries -= 1
        entry.token, entry.worker, entry.due_at = None, "", now + delay_seconds
        self._wake(leased.queue)

    async def dead_letter(self, leased: LeasedMessage, *, now: float, reason: str, error_class: str = "") -> None:
        entry = self._proven(leased)
        entry.noted("buried", now=now, error_class=error_class, error=reason)
        room = self._room(leased.queue)
        del room.living[leased.id]
        room.dead[leased.id] = DeadLetter(
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
        room.count(QueueCounter.DEAD_LETTERED, 1, now)

    async def list_dead_letters(
        self, queue: str, *, chosen: DeadLetterFilter = ALL, after: int = 0, limit: int
    ) -> list[DeadLetter]:
        return [one for one in self._room(queue).chosen_dead(chosen) if one.no > after][:limit]

    async def get_dead_letter(self, queue: str, message_id: str) -> DeadLetter:
        found = self._room(queue).dead.get(message_id)
        if found is None:
            raise Missing(f"queue {queue} has no dead letter {message_id}")
        return found

    async def count_dead_letters(self, queue: str) -> dict[str, int]:
        return dict(Counter(one.error_class for one in self._room(queue).dead.values()).most_common())

    async def replay(
        self, queue: str, *, chosen: DeadLetterFilter = ALL, now: float, per_second: float = 0, limit: int
    ) -> int:
        room = self._room(queue)
        letters = room.chosen_dead(chosen)[:limit]
        for place, letter in enumerate(letters):
            message = Message(id=letter.id, body=letter.body, priority=letter.priority)
            due_at = now + (place / per_second if per_second else 0)
            entry = _Entry(message, no=self._next(), now=letter.sent_at, due_at=due_at)
            entry.history = letter.history
            entry.noted("replayed", now=now)
            room.living[letter.id] = entry
            del room.dead[letter.id]
        room.count(QueueCounter.REPLAYED, len(letters), now)
        self._wake(queue)
        return len(letters)

    async def discard(self, queue: str, *, chosen: DeadLetterFilter = ALL, now: float, limit: int) -> int:
        room = self._room(queue)
        letters = room.chosen_dead(chosen)[:limit]
        for letter in letters:
            del room.dead[letter.id]
            room.remembered[letter.id] = now + DEDUPE_SECONDS
        room.count(QueueCounter.DISCARDED, len(letters), now)
        return len(letters)

    async def names(self) -> list[str]:
        self._answer()
        return sorted(name for name, room in self._queues.items() if room.totals)

    async def depth(self, queue: str, *, now: float) -> QueueDepth:
        room = self._room(queue)
        entries = room.living.values()
        return QueueDepth(
            waiting=sum(one.due_at <= now for one in entries),
            delayed=sum(one.due_at > now and one.token is None for one in entries),
            leased=sum(one.due_at > now and one.token is not None for one in entries),
            dead=len(room.dead),
            oldest_at=min(
                (one.sent_at for one in entries if one.due_at <= now or one.token is not None), default=None
            ),
        )

    async def peek(self, queue: str, *, limit: int, now: float) -> list[QueuedMessage]:
        entries = self._room(queue).living.values()
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
            )
            for one in (*rest, *sorted(out, key=lambda one: one.order))[:limit]
        ]

    async def counters(self, queue: str, *, since: float | None = None) -> dict[QueueCounter, int]:
        room = self._room(queue)
        if since is None:
            return {happening: room.totals[happening] for happening in QueueCounter}
        first = since - since % _MINUTE_SECONDS
        late = [counted for minute, counted in room.minutes.items() if minute >= first]
        return {happening: sum(counted[happening] for counted in late) for happening in QueueCounter}

    async def purge(self, queue: str, *, now: float) -> int:
        room = self._room(queue)
        gone = [one for one in room.living.values() if one.token is None or one.due_at <= now]
        for one in gone:
            del room.living[one.message.id]
        room.count(QueueCounter.DISCARDED, len(gone), now)
        return len(gone)

    async def sweep(self, *, now: float) -> int:
        self._answer()
        forgotten = 0
        for room in self._queues.values():
            over = [name for name, until in room.remembered.items() if until <= now]
            for name in over:
                del room.remembered[name]
            forgotten += len(over)
            room.minutes = {at: one for at, one in room.minutes.items() if at >= now - _HOUR_SECONDS}
        return forgotten

    async def close(self) -> None:
        """Nothing to let go of."""

    def _answer(self) -> None:
        if self.away:
            raise Unavailable("the queues are away")

    def _room(self, queue: str) -> _Queue:
        self._answer()
        return self._queues.setdefault(queue, _Queue())

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    def _wake(self, queue: str) -> None:
        for queues, event in self._watching:
            if queue in queues:
                event.set()

    def _held(self, leased: LeasedMessage) -> _Entry | None:
        entry = self._room(leased.queue).living.get(leased.id)
        return entry if entry is not None and entry.token == leased.token else None

    def _proven(self, leased: LeasedMessage) -> _Entry:
        entry = self._held(leased)
        if entry is None:
            _raise_lost([leased.id])
            raise AssertionError  # not reached
        return entry


def _check(message: Message) -> None:
    if len(message.body) > MAX_MESSAGE_BYTES:
        raise Reject("too large: store its content as a blob and send a reference", code="message_too_large")
    named = 0 < len(message.id) <= _LONGEST_ID and message.id.isprintable()
    if not named or not URGENT <= message.priority <= LEAST:
        raise Reject("an id has 1 to 200 printable characters, a priority is 1 to 5", code="bad_message")


def _means(chosen: DeadLetterFilter, letter: DeadLetter) -> bool:
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
