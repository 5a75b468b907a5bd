"""Reading for people: counters, the end of each input file, its story, events."""

import json
from collections.abc import Collection
from typing import Any

from quire.database.postgres import Connection, PostgresDatabase
from quire.database.postgres_queries import Values
from quire.ledger.port import AttemptRecord, BatchFilter, FailedTask, FileVersion, InputRecord, StrayReport
from quire.ledger.postgres.rows import all_rows, load_batch, one_row
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
from quire.model.batch import Batch, FileOutcome, PhaseCounts, Stage
from quire.model.files import BlobUse

PAGE = 1000


class PostgresRecordStore:
    _database: PostgresDatabase

    async def list_batches(self, wanted: BatchFilter) -> list[Batch]:
        values = {"before": wanted.before, "ended": wanted.ended, "phase": wanted.phase}
        values["state"] = None if wanted.state is None else wanted.state.value
        values |= {"tenant": wanted.tenant, "limit": wanted.limit}
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
        async def work(connection: Connection) -> tuple[list[Row], list[Row]]:
            root = await one_row(connection, "root_of_path", (batch_no, folded_forms([path]), path))
            if root is None:
                return [], []
            values = {"no": batch_no, "root": root[0]}
            files = await all_rows(connection, "story_files", values)
            return files, await all_rows(connection, "story_attempts", values)

        files, attempts = await self._database.read(work)
        return read_file_versions(files), [read_attempt(row) for row in attempts]

    async def find_uses(self, digests: Collection[str], *, limit: int) -> list[BlobUse]:
        rows = await self._rows("blob_uses", {"digests": list(digests), "limit": limit})
        return [read_blob_use(row) for row in rows]

    async def list_stray_reports(self, batch_no: int, *, limit: int) -> list[StrayReport]:
        return [read_stray_report(row) for row in await self._rows("strays", (batch_no, limit))]

    async def list_events(
        self, batch_no: int, *, after: int = 0, limit: int
    ) -> list[tuple[int, float, str, dict[str, object]]]:
        rows = await self._rows("batch_events", (batch_no, after, limit))
        return [(no, at, kind, json.loads(data)) for no, at, kind, data in rows]

    async def _rows(self, query: str, values: Values) -> list[Row]:
        return await self._database.read(lambda connection: all_rows(connection, query, values))


async def _list_inputs(
    connection: Connection,
    batch_no: int,
    after: str,
    limit: int,
    outcome: FileOutcome | None,
    error_class: str | None,
) -> list[InputRecord]:
    batch = await load_batch(connection, batch_no)
    if outcome is FileOutcome.FAILED and batch.position.stage is not Stage.ERROR:
        # Few among many: found along their own index.
        values: dict[str, Any] = {"no": batch_no, "after": after, "error_class": error_class, "limit": limit}
        paths = [row[0] for row in await all_rows(connection, "failed_paths", values)]
        return await _read_outcomes(
            connection, batch, await all_rows(connection, "uploads_at", (batch_no, paths))
        )
    found: list[InputRecord] = []
    while len(found) < limit:
        page = await all_rows(connection, "uploads_after", (batch_no, after, max(limit, PAGE)))
        if not page:
            break
        after = page[-1][0]
        found += (
            record
            for record in await _read_outcomes(connection, batch, page)
            if outcome in {None, record.outcome} and error_class in {None, record.error_class}
        )
    return found[:limit]


async def _read_outcomes(connection: Connection, batch: Batch, uploads: list[Row]) -> list[InputRecord]:
    folded = folded_forms(path for path, state, *_ in uploads if state == "taken")
    ends = {row[1]: row for row in await all_rows(connection, "inputs_by_folded", (batch.no, folded))}
    roots = [row[0] for row in ends.values()]
    made = group_products(await all_rows(connection, "made_files", (batch.no, roots)))
    failed = {"no": batch.no, "roots": list_failed_inputs(ends.values())}
    steps = group_steps(await all_rows(connection, "steps_of_inputs", failed), batch)
    return [read_input(row, ends.get(row[0]), made, steps, batch) for row in uploads]
