"""Inspection and clean-up."""

import json
import math

from quire.queues.checksums import is_intact, unseal
from quire.queues.port import DEDUPE_SECONDS, QueueCounter, QueueDepth, QueuedMessage
from quire.queues.redis_server import Server
from quire.queues.redis_streams.keys import (
    RedisKeys,
    decode_id,
    decode_text,
    encode_text,
    format_moment,
    read_moment,
)

_FIELDS = 7
# A script blocks the server: purge and sweep take this many at a time, some 20 ms.
_CHUNK = 5000
_MINUTE_SECONDS = 60


class RedisOverview:
    _server: Server
    _keys: RedisKeys

    async def names(self) -> list[str]:
        found: list[bytes] = await self._server.ask("ZRANGE", self._keys.registry, 0, -1)
        return sorted(decode_text(name) for name in found)

    async def depth(self, queue: str, *, now: float) -> QueueDepth:
        answer = await self._server.run("depth", self._keys.of(queue), format_moment(now))
        waiting, delayed, leased, dead, oldest = answer
        return QueueDepth(
            waiting=waiting,
            delayed=delayed,
            leased=leased,
            dead=dead,
            oldest_at=float(oldest) if oldest else None,
        )

    async def peek(self, queue: str, *, limit: int, now: float) -> list[QueuedMessage]:
        if limit <= 0:
            return []
        flat = await self._server.run("peek", self._keys.of(queue), format_moment(now), limit)
        parts = (flat[place::_FIELDS] for place in range(_FIELDS))
        return [
            _to_queued(queue, name, body, priority, deliveries, sent, due, worker)
            for name, body, priority, deliveries, sent, due, worker in zip(*parts, strict=True)
        ]

    async def counters(self, queue: str, *, since: float | None = None) -> dict[QueueCounter, int]:
        found = await self._server.table(self._keys.counts(queue))
        first = -math.inf if since is None else since // _MINUTE_SECONDS
        counted = dict.fromkeys(QueueCounter, 0)
        for field, number in found.items():
            minute, _, word = field.decode().rpartition(" ")
            if (since is None and not minute) or (since is not None and minute and int(minute) >= first):
                counted[QueueCounter(word)] += int(number)
        return counted

    async def purge(self, queue: str, *, now: float) -> int:
        """In chunks of some thousands; messages that are sent meanwhile may be deleted, too."""
        gone = 0
        while True:
            chunk: int = await self._server.run("purge", self._keys.of(queue), format_moment(now), _CHUNK)
            gone += chunk
            if chunk < _CHUNK:
                return gone

    async def sweep(self, *, now: float) -> int:
        """Also restores messages that are leased by nobody: a server that lost data has such."""
        forgotten = 0
        for name in await self.names():
            empty = False
            chunk = _CHUNK
            while chunk == _CHUNK:
                answer = await self._server.run("sweep", self._keys.of(name), format_moment(now), _CHUNK)
                chunk, _, empty = answer
                forgotten += chunk
            if empty:
                long_ago = format_moment(now - DEDUPE_SECONDS)
                await self._server.run("forget", [self._keys.registry], encode_text(name), long_ago)
        return forgotten


def _to_queued(
    queue: str,
    name: bytes,
    stored: bytes,
    priority: int,
    deliveries: int,
    sent: bytes,
    due: bytes,
    worker: bytes,
) -> QueuedMessage:
    body, checksum = unseal(stored)
    message_id, sent_at = decode_id(name), read_moment(sent)
    return QueuedMessage(
        queue=queue,
        id=message_id,
        body=body,
        priority=priority,
        deliveries=deliveries,
        sent_at=sent_at,
        due_at=float(due),
        leased_to=json.loads(worker) if worker else None,
        is_damaged=not is_intact(queue, message_id, priority, sent_at, body, checksum),
    )
