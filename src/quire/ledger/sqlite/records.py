"""Reading for people: counters, the end of each input file, its story, events."""

import json
import sqlite3
from collections.abc import Collection

from quire.database.sqlite import SqliteDatabase
from quire.ledger.port import AttemptRecord, BatchFilter, FailedTask, FileVersion, InputRecord, StrayReport
from quire.ledger.record_rows import (
    folded_forms,
    group_products,
    group_steps,
    list_failed_inputs,
    read_attempt,
    read_blob_use,
    read_counts,
    read_failed_task,
    read_file_versions,
    read_input,
    read_stray_report,
)
from quire.ledger.rows import Row, read_batch
from quire.ledger.sqlite.rows import SQL, load_batch
from quire.model.batch import Batch, FileOutcome, PhaseCounts, Stage
from quire.model.files import BlobUse

PAGE = 1000


class SqliteRecordStore:
    _database: SqliteDatabase

    async def list_batches(self, wanted: BatchFilter) -> list[Batch]:
        values = (wanted.before, wanted.ended, wanted.state, wanted.phase, wanted.tenant, wanted.limit)
        return [read_batch(row, row[0]) for row in await self._rows("list_batches", values)]

    async def list_older_members(self) -> list[str]:
        return [str(name) for (name,) in await self._rows("adoption_names_of_older_members", ())]

    async def count_tasks(self, batch_no: int) -> list[PhaseCounts]:
        return [read_counts(row) for row in await self._rows("phase_counts", (batch_no,))]

    async def count_failures(self, batch_no: int) -> dict[str, int]:
        return dict(await self._rows("failures", (batch_no,)))

    async def list_failed_tasks(self, batch_no: int, *, after: int = 0, limit: int) -> list[FailedTask]:
        return [read_failed_task(row) for row in await self._rows("failed_tasks", (batch_no, after, limit))]

    async def list_first_failed(self, batch_no: int, *, limit: int) -> list[FailedTask]:
        return [read_failed_task(row) for row in await self._rows("first_failed_tasks", (batch_no, limit))]

    async def list_inputs(
        self,
        batch_no: int,
        *,
        after: str = "",
        limit: int,
        outcome: FileOutcome | None = None,
        error_class: str | None = None,
    ) -> list[InputRecord]:
        return await self._database.read(
            lambda connection: _list_inputs(connection, batch_no, after, limit, outcome, error_class)
        )

    async def get_file_history(
        self, batch_no: int, path: str
    ) -> tuple[list[FileVersion], list[AttemptRecord]]:
        def work(connection: sqlite3.Connection) -> tuple[list[Row], list[Row]]:
            values = (batch_no, json.dumps(folded_forms([path])), path)
            root = connection.execute(SQL["root_of_path"], values).fetchone()
            if root is None:
                return [], []
            files = connection.execute(SQL["story_files"], (batch_no, root[0])).fetchall()
            return files, connection.execute(SQL["story_attempts"], (batch_no, root[0])).fetchall()

        files, attempts = await self._database.read(work)
        return read_file_versions(files), [read_attempt(row) for row in attempts]

    async def find_uses(self, digests: Collection[str], *, limit: int) -> list[BlobUse]:
        rows = await self._rows("blob_uses", (json.dumps(list(digests)), limit))
        return [read_blob_use(row) for row in rows]

    async def list_stray_reports(self, batch_no: int, *, limit: int) -> list[StrayReport]:
        return [read_stray_report(row) for row in await self._rows("strays", (batch_no, limit))]

    async def list_events(
        self, batch_no: int, *, after: int = 0, limit: int
    ) -> list[tuple[int, float, str, dict[str, object]]]:
        rows = await self._rows("batch_events", (batch_no, after, limit))
        return [(no, at, kind, json.loads(data)) for no, at, kind, data in rows]

    async def _rows(self, query: str, values: Row) -> list[Row]:
        return await self._database.read(lambda connection: connection.execute(SQL[query], values).fetchall())


def _list_inputs(
    connection: sqlite3.Connection,
    batch_no: int,
    after: str,
    limit: int,
    outcome: FileOutcome | None,
    error_class: str | None,
) -> list[InputRecord]:
    batch = load_batch(connection, batch_no)
    if outcome is FileOutcome.FAILED and batch.position.stage is not Stage.ERROR:
        # Few among many: found along their own index.
        values = (batch_no, after, error_class, limit)
        paths = json.dumps([row[0] for row in connection.execute(SQL["failed_paths"], values).fetchall()])
        uploads = connection.execute(SQL["uploads_at"], (batch_no, paths)).fetchall()
        return _read_outcomes(connection, batch, uploads)
    found: list[InputRecord] = []
    # Where some are left out, more are read at once.
    at_once = limit if outcome is None and error_class is None else max(limit, PAGE)
    while len(found) < limit:
        page = connection.execute(SQL["uploads_after"], (batch_no, after, at_once)).fetchall()
        if not page:
            break
        after = page[-1][0]
        found += (
            record
            for record in _read_outcomes(connection, batch, page)
            if outcome in {None, record.outcome} and error_class in {None, record.error_class}
        )
    return found[:limit]


def _read_outcomes(connection: sqlite3.Connection, batch: Batch, uploads: list[Row]) -> list[InputRecord]:
    folded = json.dumps(folded_forms(path for path, state, *_ in uploads if state == "taken"))
    ends = {row[1]: row for row in connection.execute(SQL["inputs_by_folded"], (batch.no, folded)).fetchall()}
    roots = json.dumps([row[0] for row in ends.values()])
    made = group_products(connection.execute(SQL["made_files"], (batch.no, roots)).fetchall())
    failed = json.dumps(list_failed_inputs(ends.values()))
    steps = group_steps(connection.execute(SQL["steps_of_inputs"], (batch.no, failed)), batch)
    return [read_input(row, ends.get(row[0]), made, steps, batch) for row in uploads]
