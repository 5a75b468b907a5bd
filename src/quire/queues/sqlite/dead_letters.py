"""Dead letters: list, replay, discard."""

import json
import sqlite3

from quire.database.sqlite import SqliteDatabase
from quire.model.errors import Missing
from quire.queues.notifier import Notifier
from quire.queues.port import DeadLetter, DeadLetterFilter, QueueCounter
from quire.queues.rows import PAGE, has_text, list_ids, make_storable
from quire.queues.sqlite.rows import SQL, count, numbers, read_dead_letter


class SqliteDeadLetters:
    _database: SqliteDatabase
    _notifier: Notifier

    async def list_dead_letters(
        self, queue: str, *, chosen: DeadLetterFilter = DeadLetterFilter(), after: int = 0, limit: int
    ) -> list[DeadLetter]:
        def work(connection: sqlite3.Connection) -> list[DeadLetter]:
            found = _find_letters(connection, queue, chosen, after=after, limit=limit)
            return [letter for _, letter in found]

        return await self._database.read(work)

    async def get_dead_letter(self, queue: str, message_id: str) -> DeadLetter:
        row = await self._database.read(
            lambda connection: connection.execute(
                SQL["dead_letter"], (queue, make_storable(message_id))
            ).fetchone()
        )
        if row is None:
            raise Missing(f"queue {queue} has no dead letter {make_storable(message_id)}")
        return read_dead_letter(queue, row)

    async def count_dead_letters(self, queue: str) -> dict[str, int]:
        return dict(
            await self._database.read(
                lambda connection: connection.execute(SQL["dead_classes"], (queue,)).fetchall()
            )
        )

    async def replay(
        self,
        queue: str,
        *,
        chosen: DeadLetterFilter = DeadLetterFilter(),
        now: float,
        per_second: float = 0,
        limit: int,
    ) -> int:
        def work(connection: sqlite3.Connection) -> int:
            nos = _select_rows(connection, queue, chosen, limit=limit)
            pause = 1 / per_second if per_second > 0 else 0.0
            rows = [(now + place * pause, now, no) for place, no in enumerate(nos)]
            connection.executemany(SQL["replay"], rows)
            count(connection, queue, QueueCounter.REPLAYED, len(nos), now=now)
            return len(nos)

        replayed = await self._database.write(work)
        if replayed:
            self._notifier.notify(queue)
        return replayed

    async def discard(
        self, queue: str, *, chosen: DeadLetterFilter = DeadLetterFilter(), now: float, limit: int
    ) -> int:
        def work(connection: sqlite3.Connection) -> int:
            nos = _select_rows(connection, queue, chosen, limit=limit)
            connection.execute(SQL["discard"], (now, numbers(nos)))
            count(connection, queue, QueueCounter.DISCARDED, len(nos), now=now)
            return len(nos)

        return await self._database.write(work)


def _filter_values(chosen: DeadLetterFilter) -> tuple[str | None, str | None]:
    ids = list_ids(chosen)
    error_class = None if chosen.error_class is None else make_storable(chosen.error_class)
    return None if ids is None else json.dumps(ids), error_class


def _find_letters(
    connection: sqlite3.Connection, queue: str, chosen: DeadLetterFilter, *, after: int, limit: int
) -> list[tuple[int, DeadLetter]]:
    """In order of their number, with their row numbers; page by page where a text is searched."""
    found: list[tuple[int, DeadLetter]] = []
    page = PAGE if chosen.text else limit
    while len(found) < limit:
        rows = connection.execute(SQL["dead"], (queue, after, *_filter_values(chosen), page)).fetchall()
        letters = [(row_no, read_dead_letter(queue, tuple(columns))) for *columns, row_no in rows]
        found += [one for one in letters if not chosen.text or has_text(one[1], chosen.text)]
        if len(rows) < page:
            break
        after = rows[-1][0]
    return found[:limit]


def _select_rows(
    connection: sqlite3.Connection, queue: str, chosen: DeadLetterFilter, *, limit: int
) -> list[int]:
    if chosen.text:
        return [no for no, _ in _find_letters(connection, queue, chosen, after=0, limit=limit)]
    rows = connection.execute(SQL["dead_numbers"], (queue, *_filter_values(chosen), limit))
    return [row[0] for row in rows.fetchall()]
