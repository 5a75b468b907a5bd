"""Dead letters: list, replay, discard."""

from typing import Any

from quire.database.postgres import Connection, PostgresDatabase
from quire.model.errors import Missing
from quire.queues.notifier import Notifier
from quire.queues.port import DeadLetter, DeadLetterFilter, QueueCounter
from quire.queues.postgres.rows import all_rows, change, read_dead_letter
from quire.queues.rows import PAGE, has_text, list_ids, make_storable, to_minute


class PostgresDeadLetters:
    _database: PostgresDatabase
    _notifier: Notifier

    async def list_dead_letters(
        self, queue: str, *, chosen: DeadLetterFilter = DeadLetterFilter(), after: int = 0, limit: int
    ) -> list[DeadLetter]:
        async def work(connection: Connection) -> list[DeadLetter]:
            found = await _find_letters(connection, queue, chosen, after=after, limit=limit)
            return [letter for _, letter in found]

        return await self._database.read(work)

    async def get_dead_letter(self, queue: str, message_id: str) -> DeadLetter:
        values = {"queue": queue, "id": make_storable(message_id)}
        rows = await self._database.read(lambda connection: all_rows(connection, "dead_letter", values))
        if not rows:
            raise Missing(f"queue {queue} has no dead letter {make_storable(message_id)}")
        return read_dead_letter(queue, rows[0])

    async def count_dead_letters(self, queue: str) -> dict[str, int]:
        values = {"queue": queue}
        rows = await self._database.read(lambda connection: all_rows(connection, "dead_classes", values))
        return dict(rows)

    async def replay(
        self,
        queue: str,
        *,
        chosen: DeadLetterFilter = DeadLetterFilter(),
        now: float,
        per_second: float = 0,
        limit: int,
    ) -> int:
        async def work(connection: Connection) -> int:
            nos = await _select_rows(connection, queue, chosen, limit=limit)
            if nos:
                pause = 1 / per_second if per_second > 0 else 0.0
                await change(connection, "replay", {"nos": nos, "now": now, "pause": pause})
                await _count(connection, queue, QueueCounter.REPLAYED, len(nos), now=now)
                await change(connection, "wake", {})
            return len(nos)

        replayed = await self._database.write(work)
        if replayed:
            self._notifier.notify(queue)
        return replayed

    async def discard(
        self, queue: str, *, chosen: DeadLetterFilter = DeadLetterFilter(), now: float, limit: int
    ) -> int:
        async def work(connection: Connection) -> int:
            nos = await _select_rows(connection, queue, chosen, limit=limit)
            if nos:
                await change(connection, "discard", {"nos": nos, "now": now})
                await _count(connection, queue, QueueCounter.DISCARDED, len(nos), now=now)
            return len(nos)

        return await self._database.write(work)


async def _count(connection: Connection, queue: str, what: QueueCounter, number: int, *, now: float) -> None:
    values = {"queue": queue, "minute": to_minute(now), "what": what.value, "number": number}
    await change(connection, "count", values)


def _filter_values(queue: str, chosen: DeadLetterFilter) -> dict[str, Any]:
    error_class = None if chosen.error_class is None else make_storable(chosen.error_class)
    return {"queue": queue, "ids": list_ids(chosen), "error_class": error_class}


async def _find_letters(
    connection: Connection, queue: str, chosen: DeadLetterFilter, *, after: int, limit: int
) -> list[tuple[int, DeadLetter]]:
    """In order of their number, with their row numbers; page by page where a text is searched."""
    found: list[tuple[int, DeadLetter]] = []
    page = PAGE if chosen.text else limit
    while len(found) < limit:
        values = {**_filter_values(queue, chosen), "after": after, "limit": page}
        rows = await all_rows(connection, "dead", values)
        letters = [(row_no, read_dead_letter(queue, tuple(columns))) for *columns, row_no in rows]
        found += [one for one in letters if not chosen.text or has_text(one[1], chosen.text)]
        if len(rows) < page:
            break
        after = rows[-1][0]
    return found[:limit]


async def _select_rows(
    connection: Connection, queue: str, chosen: DeadLetterFilter, *, limit: int
) -> list[int]:
    """Locked, so that nobody else replays or discards them as well."""
    if chosen.text:
        found = await _find_letters(connection, queue, chosen, after=0, limit=limit)
        rows = await all_rows(connection, "lock_dead", {"nos": [no for no, _ in found]})
    else:
        rows = await all_rows(
            connection, "dead_numbers", {**_filter_values(queue, chosen), "limit": max(0, limit)}
        )
    return [row[0] for row in rows]
