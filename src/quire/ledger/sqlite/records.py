"""Reading for people: counters, the end of each input file, events."""

import json
import sqlite3
from typing import Any

from quire.database.sqlite import SqliteDatabase
from quire.ledger.port import InputRecord
from quire.ledger.sqlite.rows import SQL, file_of
from quire.model.batch import FileOutcome, PhaseCounts
from quire.model.files import File


class SqliteRecords:
    _database: SqliteDatabase

    async def counts(self, batch_no: int) -> list[PhaseCounts]:
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["phase_counts"], (batch_no,)).fetchall()
        )
        return [
            PhaseCounts(phase=row[0], name=row[1], total=row[2], done=row[3], failed=row[4], cached=row[5])
            for row in rows
        ]

    async def inputs(self, batch_no: int, *, after: str = "", limit: int) -> list[InputRecord]:
        return await self._database.read(lambda connection: _inputs(connection, batch_no, after, limit))

    async def events(self, batch_no: int, *, limit: int) -> list[tuple[float, str, dict[str, object]]]:
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["batch_events"], (batch_no, limit)).fetchall()
        )
        return [(row[0], row[1], json.loads(row[2])) for row in rows]


def _inputs(connection: sqlite3.Connection, batch_no: int, after: str, limit: int) -> list[InputRecord]:
    uploads = connection.execute(SQL["uploads_after"], (batch_no, after, limit)).fetchall()
    folded = json.dumps([row[0].casefold() for row in uploads if row[1] == "taken"])
    ends = {row[1]: row for row in connection.execute(SQL["inputs_by_folded"], (batch_no, folded)).fetchall()}
    made = _made(connection, batch_no, [row[0] for row in ends.values()])
    return [_input(row, ends.get(row[0]), made) for row in uploads]


def _made(
    connection: sqlite3.Connection, batch_no: int, roots: list[int]
) -> dict[int, list[tuple[str, File]]]:
    made: dict[int, list[tuple[str, File]]] = {}
    for row in connection.execute(SQL["made_files"], (batch_no, json.dumps(roots))):
        made.setdefault(row[0], []).append((row[1], file_of(row, 2)))
    return made


def _input(
    upload: tuple[Any, ...], end: tuple[Any, ...] | None, made: dict[int, list[tuple[str, File]]]
) -> InputRecord:
    path, state, size, error_class, reason = upload[0], upload[1], upload[2], upload[7], upload[8]
    if state != "taken":
        return InputRecord(
            path=path, outcome=FileOutcome(state), size=size, error_class=error_class, reason=reason
        )
    if end is None or end[2] is None:
        # The batch has not ended: say so rather than guess.
        return InputRecord(
            path=path,
            outcome=FileOutcome.SKIPPED,
            size=size,
            error_class="unsettled",
            reason="not settled yet",
        )
    return InputRecord(
        path=path,
        outcome=FileOutcome(end[2]),
        size=size,
        error_class=end[3] or "",
        reason=end[4] or "",
        attempts=end[5],
        made=made.get(end[0], []),
    )
