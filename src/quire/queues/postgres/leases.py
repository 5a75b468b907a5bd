"""Send, lease and settle messages: one statement each, for any number of messages."""

from collections.abc import Collection, Sequence
from typing import Any

from quire.database.postgres import Connection, PostgresDatabase
from quire.model.ids import Ids
from quire.queues.checks import check_messages
from quire.queues.checksums import check_leased, compute_checksum, lease_intact
from quire.queues.notifier import Notifier
from quire.queues.port import DEDUPE_SECONDS, LeasedMessage, Message
from quire.queues.postgres.rows import all_rows, change
from quire.queues.rows import build_entry, build_token, make_storable, parse_token, raise_lost, to_minute


class PostgresLeases:
    _database: PostgresDatabase
    _ids: Ids
    _notifier: Notifier

    async def send(
        self, queue: str, messages: Sequence[Message], *, now: float, delay_seconds: float = 0
    ) -> int:
        fit = check_messages(messages)
        if not fit:
            return 0
        values = {
            "queue": queue,
            "ids": [one.id for one in fit],
            "bodies": [one.body for one in fit],
            "priorities": [one.priority for one in fit],
            "checksums": [compute_checksum(queue, one.id, one.priority, now, one.body) for one in fit],
            "due_at": now + delay_seconds,
            "now": now,
            "minute": to_minute(now),
        }

        async def put(connection: Connection) -> int:
            ((new, _),) = await all_rows(connection, "send", values)
            return int(new)

        async def work(connection: Connection) -> int:
            new = await put(connection)
            if new < len(fit):
                outdated = {"queue": queue, "ids": values["ids"], "over": now - DEDUPE_SECONDS}
                if await change(connection, "forget_ids", outdated):
                    new += await put(connection)
            return new

        # A single message is atomic by itself; it is sent again only when its id is known, perhaps outdated.
        new = await self._database.write_alone(put) if len(fit) == 1 else 0
        if not new:
            new = await self._database.write(work)
        if new:
            self._notifier.notify(queue)
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
        # One for all of them: a lease is proven by number and token together.
        token = self._ids.ulid()
        values = {
            "queue": queue,
            "limit": max(0, limit),
            "token": token,
            "worker": make_storable(worker),
            "until": now + seconds,
            "now": now,
            "minute": to_minute(now),
        }
        self._notifier.mark_seen(queue)
        # Planned anew each time: a plan kept from when the queue was short reads all of a long one.
        rows = await self._database.write_alone(
            lambda connection: all_rows(connection, "lease", values, prepare=False)
        )
        if rows and len(rows) == limit:
            self._notifier.notify(queue)  # there may be more, for another consumer
        return [
            check_leased(
                LeasedMessage(
                    queue=queue,
                    id=message_id,
                    body=body,
                    deliveries=deliveries,
                    token=build_token(no, token),
                    priority=priority,
                    sent_at=sent_at,
                ),
                checksum,
            )
            for no, message_id, body, deliveries, priority, sent_at, checksum in rows
        ]

    async def wait(self, queues: Collection[str], *, seconds: float) -> None:
        await self._notifier.wait(queues, seconds=seconds)

    async def next_due(self, queue: str, *, now: float) -> float | None:
        values = {"queue": queue, "now": now}
        ((moment,),) = await self._database.read(lambda connection: all_rows(connection, "next_due", values))
        return None if moment is None else float(moment)

    async def extend(self, leased: Sequence[LeasedMessage], *, seconds: float, now: float) -> None:
        await self._on_leases("extend", leased, {"until": now + seconds, "now": now})

    async def acknowledge(self, leased: Sequence[LeasedMessage], *, now: float) -> None:
        await self._on_leases("acknowledge", leased, {"now": now, "minute": to_minute(now)})

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
        trial = build_entry(leased, at=now, ending="released", error_class=error_class, error=error)
        due_at = now + delay_seconds
        values = {"due_at": due_at, "entry": trial if counted else None, "minute": to_minute(now)}
        await self._on_lease("release", leased, values)
        self._notifier.notify(leased.queue)

    async def dead_letter(
        self, leased: LeasedMessage, *, now: float, reason: str, error_class: str = ""
    ) -> None:
        trial = build_entry(leased, at=now, ending="buried", error_class=error_class, error=reason)
        values = {
            "now": now,
            "entry": trial,
            "error_class": make_storable(error_class),
            "minute": to_minute(now),
        }
        await self._on_lease("give_up", leased, values)

    async def _on_leases(self, query: str, leased: Sequence[LeasedMessage], values: dict[str, Any]) -> None:
        if not leased:
            return
        # In order, so that two consumers that end the same leases cannot deadlock.
        proofs = sorted({parse_token(one) for one in leased})
        values = {
            **values,
            "nos": [no for no, _ in proofs],
            "tokens": [make_storable(token) for _, token in proofs],
        }
        rows = await self._database.write_alone(
            lambda connection: all_rows(connection, query, values, prepare=False)
        )
        raise_lost(leased, kept=set(rows))

    async def _on_lease(self, query: str, leased: LeasedMessage, values: dict[str, Any]) -> None:
        no, token = parse_token(leased)
        values = {**values, "no": no, "token": make_storable(token)}
        if not await self._database.write_alone(lambda connection: change(connection, query, values)):
            raise_lost([leased], kept=())
