"""Two queue stores behind one: queues with certain names live elsewhere, on a server of their own.

An outage there is an outage of those names alone: they are left out where all queues are looked at, and a
send that failed is not repeated before a pause, so that a sender with other things to do is not held up.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Sequence

from quire.model.backoff import backoff_seconds
from quire.model.clock import Clock
from quire.model.errors import Lost, QuireError, Unavailable
from quire.queues.port import (
    DeadLetter,
    DeadLetterFilter,
    LeasedMessage,
    Message,
    MessageQueues,
    QueueCounter,
    QueueDepth,
    QueuedMessage,
    QueueStore,
)

# How long a send may take there, and how long none is tried after one that failed.
SEND_SECONDS = 2.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0


class RoutedQueues:
    """Every queue port. `is_elsewhere` says of a name whether its queue is in `other`."""

    def __init__(
        self,
        main: QueueStore,
        other: QueueStore,
        is_elsewhere: Callable[[str], bool],
        clock: Clock,
        *,
        trouble: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        """`trouble` is called with a reason when sending elsewhere begins to fail, and with None when it
        succeeds again.
        """
        self._main = main
        self._other = other
        self._is_elsewhere = is_elsewhere
        self._clock = clock
        self._trouble = trouble
        self._failures: dict[str, int] = {}  # since the last success, by queue
        self._again_at = -math.inf

    def _store(self, queue: str) -> QueueStore:
        return self._other if self._is_elsewhere(queue) else self._main

    async def send(
        self, queue: str, messages: Sequence[Message], *, now: float, delay_seconds: float = 0
    ) -> int:
        if not self._is_elsewhere(queue):
            return await self._main.send(queue, messages, now=now, delay_seconds=delay_seconds)
        if self._clock.monotonic() < self._again_at:
            raise Unavailable(f"the server of {queue} was away a moment ago and is not asked again yet")
        try:
            async with asyncio.timeout(SEND_SECONDS):
                sent = await self._other.send(queue, messages, now=now, delay_seconds=delay_seconds)
        except TimeoutError as error:
            away = Unavailable(f"the server of {queue} does not answer")
            self._note_failure(queue, away)
            raise away from error
        except QuireError as error:
            self._note_failure(queue, error)
            raise
        if self._failures.pop(queue, 0):
            self._trouble(None)
        return sent

    def _note_failure(self, queue: str, error: QuireError) -> None:
        failures = self._failures[queue] = self._failures.get(queue, 0) + 1
        if failures == 1:
            self._trouble(str(error))
        if isinstance(error, Unavailable):
            pause = backoff_seconds(failures, first=FIRST_PAUSE_SECONDS, longest=LONGEST_PAUSE_SECONDS)
            self._again_at = self._clock.monotonic() + pause

    async def lease(
        self, queue: str, *, limit: int, seconds: float, now: float, worker: str = ""
    ) -> list[LeasedMessage]:
        return await self._store(queue).lease(queue, limit=limit, seconds=seconds, now=now, worker=worker)

    async def wait(self, queues: Collection[str], *, seconds: float) -> None:
        away = {name for name in queues if self._is_elsewhere(name)}
        here = set(queues) - away
        if not away or not here:
            await (self._other if away else self._main).wait(queues, seconds=seconds)
            return
        waiting = [
            asyncio.ensure_future(store.wait(names, seconds=seconds))
            for store, names in ((self._main, here), (self._other, away))
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for one in waiting:
                if one.done():
                    one.result()
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def next_due(self, queue: str, *, now: float) -> float | None:
        return await self._store(queue).next_due(queue, now=now)

    async def extend(self, leased: Sequence[LeasedMessage], *, seconds: float, now: float) -> None:
        await self._on_both(leased, lambda store, some: store.extend(some, seconds=seconds, now=now))

    async def acknowledge(self, leased: Sequence[LeasedMessage], *, now: float) -> None:
        await self._on_both(leased, lambda store, some: store.acknowledge(some, now=now))

    async def _on_both(
        self,
        leased: Sequence[LeasedMessage],
        act: Callable[[MessageQueues, Sequence[LeasedMessage]], Awaitable[None]],
    ) -> None:
        lost: list[Lost] = []
        for store in (self._main, self._other):
            some = [one for one in leased if self._store(one.queue) is store]
            if some:
                try:
                    await act(store, some)
                except Lost as error:
                    lost.append(error)
        if lost:
            ids = tuple(name for error in lost for name in error.ids)
            raise Lost(str(lost[0]), code=lost[0].code, ids=ids)

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
        await self._store(leased.queue).release(
            leased,
            now=now,
            delay_seconds=delay_seconds,
            error_class=error_class,
            error=error,
            counted=counted,
        )

    async def dead_letter(
        self, leased: LeasedMessage, *, now: float, reason: str, error_class: str = ""
    ) -> None:
        store = self._store(leased.queue)
        await store.dead_letter(leased, now=now, reason=reason, error_class=error_class)

    async def list_dead_letters(
        self, queue: str, *, chosen: DeadLetterFilter = DeadLetterFilter(), after: int = 0, limit: int
    ) -> list[DeadLetter]:
        return await self._store(queue).list_dead_letters(queue, chosen=chosen, after=after, limit=limit)

    async def get_dead_letter(self, queue: str, message_id: str) -> DeadLetter:
        return await self._store(queue).get_dead_letter(queue, message_id)

    async def count_dead_letters(self, queue: str) -> dict[str, int]:
        return await self._store(queue).count_dead_letters(queue)

    async def replay(
        self,
        queue: str,
        *,
        chosen: DeadLetterFilter = DeadLetterFilter(),
        now: float,
        per_second: float = 0,
        limit: int,
    ) -> int:
        return await self._store(queue).replay(
            queue, chosen=chosen, now=now, per_second=per_second, limit=limit
        )

    async def discard(
        self, queue: str, *, chosen: DeadLetterFilter = DeadLetterFilter(), now: float, limit: int
    ) -> int:
        return await self._store(queue).discard(queue, chosen=chosen, now=now, limit=limit)

    async def names(self) -> list[str]:
        """Without those elsewhere while their server is away."""
        here = [name for name in await self._main.names() if not self._is_elsewhere(name)]
        try:
            away = await self._other.names()
        except Unavailable:
            return here
        return sorted({*here, *away})

    async def depth(self, queue: str, *, now: float) -> QueueDepth:
        return await self._store(queue).depth(queue, now=now)

    async def peek(self, queue: str, *, limit: int, now: float) -> list[QueuedMessage]:
        return await self._store(queue).peek(queue, limit=limit, now=now)

    async def counters(self, queue: str, *, since: float | None = None) -> dict[QueueCounter, int]:
        return await self._store(queue).counters(queue, since=since)

    async def purge(self, queue: str, *, now: float) -> int:
        return await self._store(queue).purge(queue, now=now)

    async def sweep(self, *, now: float) -> int:
        """The other server is swept the next time when it is away."""
        swept = await self._main.sweep(now=now)
        try:
            return swept + await self._other.sweep(now=now)
        except Unavailable:
            return swept
