"""Send, lease and settle messages. There is one writer: the next statement still sees what one has found."""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Sequence

from quire.database.sqlite import SqliteDatabase
from quire.model.ids import Ids
from quire.queues.checks import check_messages
from quire.queues.checksums import check_leased, compute_checksum, lease_intact
from quire.queues.notifier import Notifier
from quire.queues.port import DEDUPE_SECONDS, LeasedMessage, Message, QueueCounter
from quire.queues.rows import (
    PRIORITIES,
    Row,
    build_entry,
    build_token,
    group_by_lease,
    make_storable,
    parse_token,
    raise_lost,
)
from quire.queues.sqlite.rows import SQL, count, numbers


class SqliteLeases:
    _database: SqliteDatabase
    _ids: Ids
    _notifier: Notifier

    async def send(
        self, queue: str, messages: Sequence[Message], *, now: float, delay_seconds: float = 0
    ) -> int:
        due_at = now + delay_seconds
        rows = [
            (
                *(queue, one.id, one.body, one.priority, due_at, now),
                compute_checksum(queue, one.id, one.priority, now, one.body),
            )
            for one in check_messages(messages)
        ]
        if not rows:
            return 0

        def work(connection: sqlite3.Connection) -> int:
            new = connection.executemany(SQL["send"], rows).rowcount
            if new < len(rows):
                ids = json.dumps([message_id for _, message_id, *_ in rows])
                values = (queue, ids, now - DEDUPE_SECONDS)
                if connection.execute(SQL["forget_ids"], values).rowcount:
                    new += connection.executemany(SQL["send"], rows).rowcount
            count(connection, queue, QueueCounter.SENT, new, now=now)
            return new

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
        lease = self._ids.ulid()

        def work(connection: sqlite3.Connection) -> list[LeasedMessage]:
            due = _find_due(connection, queue, limit=limit, now=now)
            if not due:
                return []
            ran_out = [row[0] for _, row in due if row[5] is not None]
            if ran_out:
                connection.execute(SQL["note_expired"], (now, numbers(ran_out)))
                count(connection, queue, QueueCounter.EXPIRED, len(ran_out), now=now)
            values = (lease, make_storable(worker), now + seconds, numbers([row[0] for _, row in due]))
            connection.execute(SQL["lease"], values)
            count(connection, queue, QueueCounter.DELIVERED, len(due), now=now)
            return [_to_leased(queue, priority, row, lease) for priority, row in due]

        self._notifier.mark_seen(queue)
        leased = await self._database.write(work)
        if leased and len(leased) == limit:
            self._notifier.notify(queue)  # there may be more, for another consumer
        return leased

    async def wait(self, queues: Collection[str], *, seconds: float) -> None:
        await self._notifier.wait(queues, seconds=seconds)

    async def next_due(self, queue: str, *, now: float) -> float | None:
        def work(connection: sqlite3.Connection) -> list[float | None]:
            rows = (connection.execute(SQL["next_due"], (queue, one, now)).fetchone() for one in PRIORITIES)
            return [row[0] for row in rows]

        found = await self._database.read(work)
        return min((moment for moment in found if moment is not None), default=None)

    async def extend(self, leased: Sequence[LeasedMessage], *, seconds: float, now: float) -> None:
        def work(connection: sqlite3.Connection) -> set[tuple[int, str]]:
            kept: set[tuple[int, str]] = set()
            for lease, nos in group_by_lease(leased).items():
                rows = connection.execute(SQL["extend"], (now + seconds, numbers(nos), lease, now))
                kept.update((row[0], lease) for row in rows)
            return kept

        if leased:
            raise_lost(leased, kept=await self._database.write(work))

    async def acknowledge(self, leased: Sequence[LeasedMessage], *, now: float) -> None:
        def work(connection: sqlite3.Connection) -> set[tuple[int, str]]:
            kept: set[tuple[int, str]] = set()
            done: Counter[str] = Counter()
            for lease, nos in group_by_lease(leased).items():
                for no, queue in connection.execute(
                    SQL["acknowledge"], (now, numbers(nos), lease)
                ).fetchall():
                    kept.add((no, lease))
                    done[queue] += 1
            for queue, number in done.items():
                count(connection, queue, QueueCounter.ACKNOWLEDGED, number, now=now)
            return kept

        if leased:
            raise_lost(leased, kept=await self._database.write(work))

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

        def work(connection: sqlite3.Connection) -> int:
            if not counted:
                return connection.execute(SQL["release_uncounted"], (due_at, *parse_token(leased))).rowcount
            changed = connection.execute(SQL["release"], (due_at, trial, *parse_token(leased))).rowcount
            count(connection, leased.queue, QueueCounter.RELEASED, changed, now=now)
            return changed

        if not await self._database.write(work):
            raise_lost([leased], kept=())
        self._notifier.notify(leased.queue)

    async def dead_letter(
        self, leased: LeasedMessage, *, now: float, reason: str, error_class: str = ""
    ) -> None:
        trial = build_entry(leased, at=now, ending="buried", error_class=error_class, error=reason)

        def work(connection: sqlite3.Connection) -> int:
            values = (now, make_storable(error_class), trial, *parse_token(leased))
            changed = connection.execute(SQL["give_up"], values).rowcount
            if changed:
                connection.execute(SQL["count_dead_letter"])
                count(connection, leased.queue, QueueCounter.DEAD_LETTERED, 1, now=now)
            return changed

        if not await self._database.write(work):
            raise_lost([leased], kept=())


def _find_due(connection: sqlite3.Connection, queue: str, *, limit: int, now: float) -> list[tuple[int, Row]]:
    """By priority, then as they became due; each with its priority."""
    found: list[tuple[int, Row]] = []
    for priority in PRIORITIES:
        left = limit - len(found)
        if left <= 0:
            break
        rows = connection.execute(SQL["due"], (queue, priority, now, left)).fetchall()
        found.extend((priority, row) for row in rows)
    return found


def _to_leased(queue: str, priority: int, row: Row, lease: str) -> LeasedMessage:
    no, message_id, body, deliveries, sent_at, _, checksum = row
    leased = LeasedMessage(
        queue=queue,
        id=message_id,
        body=body,
        deliveries=(deliveries or 0) + 1,  # none in a damaged row
        token=build_token(no, lease),
        priority=priority,
        sent_at=sent_at,
    )
    return check_leased(leased, checksum)
