"""Waiting for messages: senders of this process ring, those of others are noticed by asking.

Whoever sends writes one small object, the bell of the queue; who waits looks at its version, more seldom the
longer nothing comes. A look is the cheapest request there is. The first wait for a queue comes back at once:
what was sent before nobody has heard of.
"""

import asyncio
from collections.abc import Collection
from functools import partial

from quire.model.errors import Retry
from quire.queues.bucket_store.desk import Desk

SHORTEST_SECONDS, LONGEST_SECONDS = 0.1, 2.0


class Waiter:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._known: dict[str, str] = {}  # versions of bells

    async def wait(self, queues: Collection[str], *, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        step = SHORTEST_SECONDS
        names = sorted(set(queues))
        while seconds > 0 and not await self._asked(names):
            left = end - loop.time()
            if left <= 0:
                return
            began = loop.time()
            await self._desk.bell.wait(names, seconds=min(step, left))
            if loop.time() - began < min(step, left) * 0.9:
                return  # rung
            step = min(2 * step, LONGEST_SECONDS)

    async def _asked(self, queues: list[str]) -> bool:
        """Whether somebody has rung since we last asked."""
        answers = await self._desk.reach.many(partial(self._bell, queue) for queue in queues)
        news = [queue for queue, answer in zip(queues, answers, strict=True) if answer is True]
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, Retry):
                raise answer
        for queue in news:
            self._desk.bell.ring(queue)
        return bool(news)

    async def _bell(self, queue: str) -> bool:
        seen = await self._desk.reach.look(self._desk.places(queue).bell)
        version = "" if seen is None else seen.version
        changed = self._known.get(queue) != version
        self._known[queue] = version
        return changed
