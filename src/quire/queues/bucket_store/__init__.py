"""Queues in an object store, and nothing else: no database, no server of our own.

One object per message is the truth, written by compare-and-swap alone; every other object is a hint that
whoever meets it puts right (`docs/decisions/0017` has the ideas). Nothing wakes those who wait but senders of
the same process: others are noticed by asking, at most every two seconds. All who work with the queues in one
process share one object.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress

from quire.model.errors import Retry
from quire.model.ids import Ids
from quire.model.objects import Objects
from quire.queues.bucket_store.counting import Pause
from quire.queues.bucket_store.desk import Desk
from quire.queues.bucket_store.graves import Graves
from quire.queues.bucket_store.loans import Lender
from quire.queues.bucket_store.looking import Onlooker
from quire.queues.bucket_store.reach import Reach
from quire.queues.bucket_store.sending import Sender
from quire.queues.bucket_store.sweeping import Sweeper
from quire.queues.bucket_store.waiting import Waiter
from quire.queues.port import Chosen, DeadLetter, Depth, Happening, Leased, Message, Waiting

_ALL = Chosen()


class BucketQueues:
    """All doors. `pause` is how it waits."""

    def __init__(self, objects: Objects, ids: Ids, pause: Pause = asyncio.sleep) -> None:
        desk = Desk(Reach(objects, ids), ids, pause)
        self._desk = desk
        self._sender = Sender(desk)
        self._lender = Lender(desk)
        self._waiter = Waiter(desk)
        self._graves = Graves(desk)
        self._onlooker = Onlooker(desk)
        self._sweeper = Sweeper(desk)

    async def send(
        self, queue: str, messages: Sequence[Message], *, now: float, delay_seconds: float = 0
    ) -> int:
        return await self._sender.send(queue, messages, now=now, delay_seconds=delay_seconds)

    async def lease(
        self, queue: str, *, limit: int, seconds: float, now: float, worker: str = ""
    ) -> list[Leased]:
        return await self._lender.lease(queue, limit=limit, seconds=seconds, now=now, worker=worker)

    async def wait(self, queues: Collection[str], *, seconds: float) -> None:
        await self._waiter.wait(queues, seconds=seconds)

    async def next_due(self, queue: str, *, now: float) -> float | None:
        return await self._onlooker.next_due(queue, now=now)

    async def extend(self, leased: Sequence[Leased], *, seconds: float, now: float) -> None:
        await self._lender.extend(leased, seconds=seconds, now=now)

    async def acknowledge(self, leased: Sequence[Leased], *, now: float) -> None:
        await self._lender.acknowledge(leased, now=now)

    async def release(
        self,
        leased: Leased,
        *,
        now: float,
        delay_seconds: float = 0,
        error_class: str = "",
        error: str = "",
        counted: bool = True,
    ) -> None:
        await self._lender.release(
            leased,
            now=now,
            delay_seconds=delay_seconds,
            error_class=error_class,
            error=error,
            counted=counted,
        )

    async def bury(self, leased: Leased, *, now: float, reason: str, error_class: str = "") -> None:
        await self._lender.bury(leased, now=now, reason=reason, error_class=error_class)

    async def dead(
        self, queue: str, *, chosen: Chosen = _ALL, after: int = 0, limit: int
    ) -> list[DeadLetter]:
        return await self._graves.dead(queue, chosen=chosen, after=after, limit=limit)

    async def dead_letter(self, queue: str, message_id: str) -> DeadLetter:
        return await self._graves.dead_letter(queue, message_id)

    async def dead_classes(self, queue: str) -> dict[str, int]:
        return await self._graves.dead_classes(queue)

    async def replay(
        self, queue: str, *, chosen: Chosen = _ALL, now: float, per_second: float = 0, limit: int
    ) -> int:
        return await self._graves.replay(queue, chosen=chosen, now=now, per_second=per_second, limit=limit)

    async def discard(self, queue: str, *, chosen: Chosen = _ALL, now: float, limit: int) -> int:
        return await self._graves.discard(queue, chosen=chosen, now=now, limit=limit)

    async def names(self) -> list[str]:
        return await self._onlooker.names()

    async def depth(self, queue: str, *, now: float) -> Depth:
        """From the hints: those of a process that died a moment ago may still be counted."""
        return await self._onlooker.depth(queue, now=now)

    async def peek(self, queue: str, *, limit: int, now: float) -> list[Waiting]:
        return await self._onlooker.peek(queue, limit=limit, now=now)

    async def counters(self, queue: str, *, since: float | None = None) -> dict[Happening, int]:
        """Other processes are some seconds behind."""
        return await self._desk.counting.read(queue, since)

    async def purge(self, queue: str, *, now: float) -> int:
        return await self._onlooker.purge(queue, now=now)

    async def sweep(self, *, now: float) -> int:
        await self._desk.counting.flush()
        return sum([await self._sweeper.sweep(name, now=now) for name in await self.names()])

    async def close(self) -> None:
        """Lay down what was counted. The store itself stays open: it is not ours."""
        with suppress(Retry):
            await self._desk.counting.close()


__all__ = ["BucketQueues"]
