"""Inspection and clean-up of queues on Redis lists."""

import math
from collections.abc import Callable
from typing import Any

from quire.model.errors import Reject
from quire.queues.port import DEDUPE_SECONDS, QueueCounter, QueueDepth, QueuedMessage
from quire.queues.redis_lists.forms import WireForm
from quire.queues.redis_lists.keys import ListKeys
from quire.queues.redis_server import Server

_FIELDS = 5
_MINUTE_SECONDS = 60


class RedisListOverview:
    _server: Server
    _names: tuple[str, ...]
    _keys: Callable[[str], ListKeys]
    _form: Callable[[str], WireForm]
    _run: Callable[..., Any]
    _read_sent_at: Callable[[bytes], float | None]

    async def names(self) -> list[str]:
        """Of the queues that this process was told of, those that have something: a server has many lists."""
        asked = {name: await self._server.ask("EXISTS", *self._keys(name).every) for name in self._names}
        return [name for name, number in asked.items() if number]

    async def depth(self, queue: str, *, now: float) -> QueueDepth:
        """`oldest_at` is what the message that waits longest says of itself."""
        waiting, delayed, leased, dead, oldest = await self._run("depth", queue, repr(float(now)))
        body = self._to_body(queue, oldest) if oldest else b""
        return QueueDepth(
            waiting=waiting, delayed=delayed, leased=leased, dead=dead, oldest_at=self._read_sent_at(body)
        )

    async def peek(self, queue: str, *, limit: int, now: float) -> list[QueuedMessage]:
        if limit <= 0:
            return []
        flat = await self._run("peek", queue, repr(float(now)), limit)
        parts = (flat[place::_FIELDS] for place in range(_FIELDS))
        return [
            self._to_queued(queue, name, stored, deliveries, due, worker)
            for name, stored, deliveries, due, worker in zip(*parts, strict=True)
        ]

    async def counters(self, queue: str, *, since: float | None = None) -> dict[QueueCounter, int]:
        found = await self._server.table(self._keys(queue).every[-1])
        first = -math.inf if since is None else since // _MINUTE_SECONDS
        counted = dict.fromkeys(QueueCounter, 0)
        for field, number in found.items():
            minute, _, word = field.decode().rpartition(" ")
            if (since is None and not minute) or (since is not None and minute and int(minute) >= first):
                counted[QueueCounter(word)] += int(number)
        return counted

    async def purge(self, queue: str, *, now: float) -> int:
        gone: int = await self._run("purge", queue, repr(float(now)))
        return gone

    async def sweep(self, *, now: float) -> int:
        forget = repr(float(now - DEDUPE_SECONDS))
        return sum([await self._run("sweep", name, repr(float(now)), forget) for name in await self.names()])

    def _to_queued(
        self, queue: str, name: bytes, stored: bytes, deliveries: int, due: bytes, worker: bytes
    ) -> QueuedMessage:
        body = self._to_body(queue, stored)
        due_at = float(due)
        sent_at = self._read_sent_at(body)
        return QueuedMessage(
            queue=queue,
            id=name.decode("utf-8", "replace"),
            body=body,
            priority=3,
            deliveries=deliveries,
            sent_at=due_at if sent_at is None else sent_at,
            due_at=due_at,
            leased_to=worker.decode("utf-8", "replace") if worker else None,
        )

    def _to_body(self, queue: str, stored: bytes) -> bytes:
        try:
            return self._form(queue).to_body(stored)
        except Reject:
            return stored
