"""Phases about folders or the batch: their units are found in the file list, and given their tasks."""

from collections.abc import Collection, Sequence
from typing import Any

from quire.database.postgres import Connection, PostgresDatabase
from quire.database.postgres_queries import Values
from quire.ledger.flow_rows import read_task_behind, unit_file
from quire.ledger.flow_values import TaskBehind, UnitFolder, UnitTask, first_number
from quire.ledger.port import ListedFile
from quire.ledger.postgres.flow_progress import hold_flow
from quire.ledger.postgres.rows import all_rows, change, columns, load_batch, notify_listeners, one_row
from quire.ledger.rows import Row, decode_result, file_columns, read_listed_file
from quire.model.batch import Batch
from quire.model.errors import Stale
from quire.model.files import fold
from quire.model.work import Value


class PostgresFlowUnitStore:
    _database: PostgresDatabase

    async def begin_gather(self, batch: Batch, phase: int) -> Batch | None:
        async def work(connection: Connection) -> Batch | None:
            held = await hold_flow(connection, batch.no)
            if held is None or held.is_open_before(phase):
                return None
            if not await change(connection, "flow_begin_gather", (batch.no, phase)):
                return None
            return await load_batch(connection, batch.no)

        return await self._database.write(work)

    async def list_seen(self, batch_no: int, phase: int, *, after: int, limit: int) -> list[ListedFile]:
        values = {"no": batch_no, "after": after, "phase": phase, "limit": limit}
        return [read_listed_file(row) for row in await self._unit_rows("flow_seen_by", values)]

    async def list_tasks_behind(self, batch_no: int, file_nos: Sequence[int]) -> list[TaskBehind]:
        rows = await self._unit_rows("flow_tasks_behind", {"no": batch_no, "files": list(file_nos)})
        return [read_task_behind(row) for row in rows]

    async def add_units(
        self,
        batch: Batch,
        phase: int,
        members: Sequence[tuple[str, int]],
        folders: Sequence[str],
        *,
        cursor: int,
        complete: bool,
        now: float,
    ) -> Batch:
        """`folders` are all that must be units; `members` says which file belongs to which."""
        folded = sorted({fold(path) for path in folders})

        async def work(connection: Connection) -> Batch:
            last = await _gather(connection, batch, gathers=1, cursor=cursor, now=now)
            known: dict[str, int] = dict(
                await all_rows(connection, "flow_unit_numbers", (batch.no, folded, phase))
            )
            new = [path for path in sorted(folders) if path not in known]
            known |= {path: last + place for place, path in enumerate(new, start=1)}
            rows = [
                (batch.no, known[path], 0, phase, False, "unit", *file_columns(unit_file(path)), None, "")
                for path in new
            ]
            found = {"last_file": last + len(new), "complete": complete, "no": batch.no}
            async with connection.pipeline():
                if rows:
                    await change(connection, "flow_insert_files", tuple(columns(rows)))
                if members:
                    units, files = columns((known[path], file_no) for path, file_no in members)
                    await change(connection, "insert_members", (batch.no, units, files))
                await change(connection, "flow_found_units", found)
                return await load_batch(connection, batch.no)

        return await self._database.write(work)

    async def list_flow_units(
        self, batch_no: int, phase: int, *, after: int, limit: int
    ) -> list[tuple[UnitFolder, int]]:
        async def work(connection: Connection) -> tuple[list[Row], dict[int, int]]:
            units = await all_rows(connection, "flow_units", (batch_no, after, phase, limit))
            values = {"no": batch_no, "units": [no for no, _ in units], "phase": phase}
            return units, dict(await all_rows(connection, "flow_child_counts", values))

        units, below = await self._database.read(work)
        return [(UnitFolder(no, path), below.get(no, 0)) for no, path in units]

    async def find_unit_numbers(self, batch_no: int, phase: int, paths: Collection[str]) -> dict[str, int]:
        folded = sorted({fold(path) for path in paths})
        return dict(await self._unit_rows("flow_unit_numbers", (batch_no, folded, phase)))

    async def list_unit_members(self, batch_no: int, unit_no: int) -> list[ListedFile]:
        return [read_listed_file(row) for row in await self._unit_rows("unit_members", (batch_no, unit_no))]

    async def find_nearest_root(self, batch_no: int, phase: int, path: str) -> int:
        values = {"no": batch_no, "phase": phase, "folded": fold(path), "path": path}
        rows = await self._unit_rows("flow_nearest_root", values)
        return int(rows[0][0]) if rows else 0

    async def list_values(
        self, batch_no: int, phase: int, file_nos: Sequence[int]
    ) -> dict[int, list[tuple[int, int, Value]]]:
        values = {"no": batch_no, "phase": phase, "files": list(file_nos)}
        found: dict[int, list[tuple[int, int, Value]]] = {no: [] for no in file_nos}
        for no, at, branch, blob in await self._unit_rows("flow_values_of", values) if file_nos else ():
            value = decode_result(blob).value
            if value is not None:
                found[no].append((at, branch, value))
        return found

    async def add_unit_tasks(
        self, batch: Batch, phase: int, tasks: Sequence[UnitTask], *, cursor: int, now: float
    ) -> Batch:
        base = first_number(phase)

        async def work(connection: Connection) -> Batch:
            await _gather(connection, batch, gathers=2, cursor=cursor, now=now)
            rows = (
                (
                    *(base + one.file_no, one.file_no, one.waits_for),
                    *(None if one.blocks is None else base + one.blocks, one.given),
                )
                for one in tasks
            )
            lists = ((one.file_no, one.key, one.size, one.digest, one.root_no) for one in tasks)
            async with connection.pipeline():
                if tasks:
                    await change(connection, "flow_insert_unit_tasks", (batch.no, phase, *columns(rows)))
                    await change(connection, "flow_fill_units", (*columns(lists), batch.no))
                await change(connection, "flow_count_units", (len(tasks), batch.no, phase))
                await change(connection, "flow_count_open", (len(tasks), batch.no))
                await change(connection, "set_alarm", (0.0, batch.no))
                await notify_listeners(connection)
                return await load_batch(connection, batch.no)

        return await self._database.write(work)

    async def end_gather(self, batch: Batch, *, waits_at: int | None, now: float) -> Batch:
        async def work(connection: Connection) -> Batch:
            values = {"waits_at": waits_at, "now": now} | _gathering(batch, 2)
            if not await change(connection, "flow_end_gather", values):
                raise Stale(f"batch {batch.id} has moved on")
            held = await hold_flow(connection, batch.no)
            async with connection.pipeline():
                if held is not None:
                    await held.write(connection, now)
                return await load_batch(connection, batch.no)

        return await self._database.write(work)

    async def _unit_rows(self, query: str, values: Values) -> list[Row]:
        return await self._database.read(lambda connection: all_rows(connection, query, values))


async def _gather(connection: Connection, batch: Batch, *, gathers: int, cursor: int, now: float) -> int:
    """The compare-and-swap of who makes units, and the last file number."""
    values = {"cursor": cursor, "now": now} | _gathering(batch, gathers)
    row = await one_row(connection, "flow_gather", values)
    if row is None:
        raise Stale(f"batch {batch.id} has moved on")
    return int(row[0])


def _gathering(batch: Batch, gathers: int) -> dict[str, Any]:
    """Where the batch was seen while its units are made: for the compare-and-swap."""
    return {
        "no": batch.no,
        "gathers": gathers,
        "phase": None if batch.flow is None else batch.flow.waits_at,
        "round": batch.position.round,
        "at_cursor": batch.position.cursor,
    }
