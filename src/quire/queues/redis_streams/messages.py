"""Send, lease and settle messages."""

import asyncio
import json
import math
from collections.abc import Collection, Sequence

from quire.model.errors import Lost, Unavailable
from quire.model.ids import Ids
from quire.queues.checks import check_messages
from quire.queues.checksums import check_leased, compute_checksum, lease_intact, seal, unseal
from quire.queues.port import DEDUPE_SECONDS, LeasedMessage, Message
from quire.queues.redis_server import Argument, Server
from quire.queues.redis_streams.keys import (
    RedisKeys,
    build_entry_end,
    decode_id,
    encode_id,
    encode_text,
    format_moment,
    read_moment,
)

# Longer waits end in between: so a connection that died silently is noticed.
LONGEST_WAIT_SECONDS = 300.0
GRACE_SECONDS = 5.0


class RedisMessages:
    _server: Server
    _keys: RedisKeys
    _ids: Ids

    async def send(
        self, queue: str, messages: Sequence[Message], *, now: float, delay_seconds: float = 0
    ) -> int:
        arguments: list[Argument] = [format_moment(now), format_moment(now + max(0.0, delay_seconds))]
        for message in check_messages(messages):
            checksum = compute_checksum(queue, message.id, message.priority, now, message.body)
            arguments += (message.id, seal(message.body, checksum), message.priority)
        if not messages:
            return 0
        # Before the messages: a name without messages does no harm, messages without a name are not found.
        name = ("ZADD", self._keys.registry, "GT", format_moment(now), encode_text(queue))
        new: int = await self._server.run_after(name, "send", self._keys.of(queue), *arguments)
        return new

    async def lease(
        self, queue: str, *, limit: int, seconds: float, now: float, worker: str = ""
    ) -> list[LeasedMessage]:
        return await lease_intact(
            lambda number: self._lease(queue, limit=number, seconds=seconds, now=now, worker=worker),
            self,
            limit=limit,
            now=now,
        )

    async def _lease(
        self, queue: str, *, limit: int, seconds: float, now: float, worker: str
    ) -> list[LeasedMessage]:
        """With damaged messages among them."""
        if limit <= 0:
            return []
        # One for all of them: a lease is proven by queue, id and token together.
        token = self._ids.ulid()
        values = (format_moment(now), format_moment(now + seconds), token, json.dumps(worker), limit)
        flat = await self._server.run("lease", self._keys.of(queue), *values)
        parts = (flat[place::5] for place in range(5))
        return [
            _to_leased(queue, token, name, body, deliveries, priority, sent)
            for name, body, deliveries, priority, sent in zip(*parts, strict=True)
        ]

    async def wait(self, queues: Collection[str], *, seconds: float) -> None:
        seconds = min(seconds, LONGEST_WAIT_SECONDS)
        if seconds <= 0:
            return
        if not queues:
            await asyncio.sleep(seconds)
            return
        names = sorted(set(queues))
        places = [self._keys.wake(name) for name in names]
        keys = [self._keys.of(name) for name in names]
        try:
            async with asyncio.timeout(seconds + GRACE_SECONDS):
                # Rounded up: 0 would wait for ever.
                await self._server.wait_for_entry(
                    "news", keys, places, milliseconds=math.ceil(seconds * 1000)
                )
        except TimeoutError as error:
            raise Unavailable(f"{self._server.name} does not answer") from error

    async def next_due(self, queue: str, *, now: float) -> float | None:
        due = await self._server.run("next_due", self._keys.of(queue), format_moment(now))
        return float(due) if due else None

    async def extend(self, leased: Sequence[LeasedMessage], *, seconds: float, now: float) -> None:
        await self._on_leases("extend", leased, format_moment(now), format_moment(now + seconds))

    async def acknowledge(self, leased: Sequence[LeasedMessage], *, now: float) -> None:
        await self._on_leases("acknowledge", leased, format_moment(now), format_moment(now + DEDUPE_SECONDS))

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
        trial = build_entry_end(at=now, ending="released", error_class=error_class, error=error)
        due = format_moment(now + max(0.0, delay_seconds))
        values = (format_moment(now), due, leased.id, leased.token, int(counted), trial)
        if not await self._server.run("release", self._keys.of(leased.queue), *values):
            raise _lost_error([leased.id])

    async def dead_letter(
        self, leased: LeasedMessage, *, now: float, reason: str, error_class: str = ""
    ) -> None:
        trial = build_entry_end(at=now, ending="buried", error_class=error_class, error=reason)
        values = (
            format_moment(now),
            encode_id(leased.id),
            leased.token,
            encode_text(error_class),
            encode_text(reason),
            trial,
        )
        if not await self._server.run("dead_letter", self._keys.of(leased.queue), *values):
            raise _lost_error([leased.id])

    async def _on_leases(self, script: str, leased: Sequence[LeasedMessage], *values: Argument) -> None:
        by_queue: dict[str, dict[tuple[str, str], None]] = {}
        for one in leased:
            by_queue.setdefault(one.queue, {})[one.id, one.token] = None
        lost: list[str] = []
        for queue, proofs in by_queue.items():
            flat = (part for proof in proofs for part in proof)
            answer = await self._server.run(script, self._keys.of(queue), *values, *flat)
            lost += [name.decode() for name in answer]
        if lost:
            raise _lost_error(lost)


def _to_leased(
    queue: str, token: str, name: bytes, stored: bytes, deliveries: int, priority: int, sent: bytes
) -> LeasedMessage:
    body, checksum = unseal(stored)
    leased = LeasedMessage(
        queue=queue,
        id=decode_id(name),
        body=body,
        deliveries=deliveries,
        token=token,
        priority=priority,
        sent_at=read_moment(sent),
    )
    return check_leased(leased, checksum)


def _lost_error(ids: Sequence[str]) -> Lost:
    named = ", ".join(ids[:3]) + (" …" if len(ids) > 3 else "")
    return Lost(f"the lease is gone, stop working on: {named}", code="lease_lost", ids=tuple(ids))
