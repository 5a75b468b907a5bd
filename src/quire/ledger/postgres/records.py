"""Reading for people: counters, the end of each input file, events."""

import json

from quire.database.postgres import Connection, PostgresDatabase
from quire.ledger.port import InputRecord
from quire.ledger.postgres.rows import all_rows
from quire.ledger.rows import counts_of, input_of, made_by_root
from quire.model.batch import PhaseCounts


class PostgresRecords:
    _database: PostgresDatabase

    async def counts(self, batch_no: int) -> list[PhaseCounts]:
        rows = await self._database.read(lambda connection: all_rows(connection, "phase_counts", (batch_no,)))
        return [counts_of(row) for row in rows]

    async def inputs(self, batch_no: int, *, after: str = "", limit: int) -> list[InputRecord]:
        return await self._database.read(lambda connection: _inputs(connection, batch_no, after, limit))

    async def events(self, batch_no: int, *, limit: int) -> list[tuple[float, str, dict[str, object]]]:
        rows = await self._database.read(
            lambda connection: all_rows(connection, "batch_events", (batch_no, limit))
        )
        return [(row[0], row[1], json.loads(row[2])) for row in rows]


async def _inputs(connection: Connection, batch_no: int, after: str, limit: int) -> list[InputRecord]:
    uploads = await all_rows(connection, "uploads_after", (batch_no, after, limit))
    folded = [row[0].casefold() for row in uploads if row[1] == "taken"]
    found = await all_rows(connection, "inputs_by_folded", (batch_no, folded))
    ends = {row[1]: row for row in found}
    roots = [row[0] for row in ends.values()]
    made = made_by_root(await all_rows(connection, "made_files", (batch_no, roots)))
    return [input_of(row, ends.get(row[0]), made) for row in uploads]
