"""Reading for people: counters, the end of each input file, events."""

import json
import sqlite3

from quire.database.sqlite import SqliteDatabase
from quire.ledger.port import InputRecord
from quire.ledger.rows import counts_of, input_of, made_by_root
from quire.ledger.sqlite.rows import SQL
from quire.model.batch import PhaseCounts


class SqliteRecords:
    _database: SqliteDatabase

    async def counts(self, batch_no: int) -> list[PhaseCounts]:
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["phase_counts"], (batch_no,)).fetchall()
        )
        return [counts_of(row) for row in rows]

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
    roots = json.dumps([row[0] for row in ends.values()])
    made = made_by_root(connection.execute(SQL["made_files"], (batch_no, roots)).fetchall())
    return [input_of(row, ends.get(row[0]), made) for row in uploads]
