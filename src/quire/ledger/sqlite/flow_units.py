"""Phases about folders or the batch: their units are found in the file list, and given their tasks."""

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

from quire.database.sqlite import SqliteDatabase
from quire.ledger.flow_progress import is_open_before
from quire.ledger.flow_rows import read_task_behind, unit_file
from quire.ledger.flow_values import TaskBehind, UnitFolder, UnitTask, first_number
from quire.ledger.port import ListedFile
from quire.ledger.rows import decode_result, file_columns, read_listed_file
from quire.ledger.sqlite.flow_settlement import advance, read_counters
from quire.ledger.sqlite.rows import SQL, load_batch
from quire.model.batch import Batch, TaskState
from quire.model.errors import Stale
from quire.model.files import fold
from quire.model.work import Value

Row = tuple[Any, ...]


class SqliteFlowUnitStore:
    _database: SqliteDatabase

    async def begin_gather(self, batch: Batch, phase: int) -> Batch | None:
        def work(connection: sqlite3.Connection) -> Batch | None:
            _, counters = read_counters(connection, batch.no)
            if is_open_before(counters, phase):
                return None
            if not connection.execute(SQL["flow_begin_gather"], (batch.no, phase)).rowcount:
                return None
            return load_batch(connection, batch.no)

        return await self._database.write(work)

    async def list_seen(self, batch_no: int, phase: int, *, after: int, limit: int) -> list[ListedFile]:
        rows = await self._unit_rows("flow_seen_by", (batch_no, after, phase, limit))
        return [read_listed_file(row) for row in rows]

    async def list_tasks_behind(self, batch_no: int, file_nos: Sequence[int]) -> list[TaskBehind]:
        rows = await self._unit_rows("flow_tasks_behind", (batch_no, json.dumps(list(file_nos))))
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

        def work(connection: sqlite3.Connection) -> Batch:
            wanted = json.dumps(sorted({fold(path) for path in folders}))
            values = (batch.no, wanted, phase)
            known = dict(connection.execute(SQL["flow_unit_numbers"], values).fetchall())
            last = connection.execute(SQL["flow_batch"], (batch.no,)).fetchone()[1]
            new = [path for path in sorted(folders) if path not in known]
            known |= {path: last + place for place, path in enumerate(new, start=1)}
            connection.executemany(
                SQL["flow_insert_file"],
                (
                    (batch.no, known[path], 0, phase, False, "unit", *file_columns(unit_file(path)), None, "")
                    for path in new
                ),
            )
            moved = (cursor, last + len(new), now, *_gathering(batch, 1))
            if not connection.execute(SQL["flow_gather"], moved).rowcount:
                raise Stale(f"batch {batch.id} has moved on")
            rows = ((batch.no, known[path], file_no) for path, file_no in members)
            connection.executemany(SQL["insert_member"], rows)
            if complete:
                connection.execute(SQL["flow_gather_stage"], (2, batch.no, 1))
            return load_batch(connection, batch.no)

        return await self._database.write(work)

    async def list_flow_units(
        self, batch_no: int, phase: int, *, after: int, limit: int
    ) -> list[tuple[UnitFolder, int]]:
        """Units by number, with how many units are right below each."""

        def work(connection: sqlite3.Connection) -> list[tuple[UnitFolder, int]]:
            units = connection.execute(SQL["flow_units"], (batch_no, after, phase, limit)).fetchall()
            numbers = json.dumps([no for no, _ in units])
            values = (batch_no, numbers, phase)
            below = dict(connection.execute(SQL["flow_child_counts"], values).fetchall())
            return [(UnitFolder(no, path), below.get(no, 0)) for no, path in units]

        return await self._database.read(work)

    async def find_unit_numbers(self, batch_no: int, phase: int, paths: Collection[str]) -> dict[str, int]:
        wanted = json.dumps(sorted({fold(path) for path in paths}))
        return dict(await self._unit_rows("flow_unit_numbers", (batch_no, wanted, phase)))

    async def list_unit_members(self, batch_no: int, unit_no: int) -> list[ListedFile]:
        return [read_listed_file(row) for row in await self._unit_rows("unit_members", (batch_no, unit_no))]

    async def find_nearest_root(self, batch_no: int, phase: int, path: str) -> int:
        rows = await self._unit_rows("flow_nearest_root", (batch_no, phase, fold(path), path))
        return int(rows[0][0]) if rows else 0

    async def list_values(
        self, batch_no: int, phase: int, file_nos: Sequence[int]
    ) -> dict[int, list[tuple[int, int, Value]]]:
        """(phase, branch, value) of what earlier steps gave for each document, in the order of the phases."""

        def work(connection: sqlite3.Connection) -> dict[int, list[tuple[int, int, Value]]]:
            found: dict[int, list[tuple[int, int, Value]]] = {}
            for file_no in file_nos:
                rows = connection.execute(SQL["flow_values_of"], (batch_no, file_no, phase)).fetchall()
                values = [(number, branch, decode_result(blob).value) for number, branch, blob in rows]
                found[file_no] = [(at, branch, value) for at, branch, value in values if value is not None]
            return found

        return await self._database.read(work)

    async def add_unit_tasks(
        self, batch: Batch, phase: int, tasks: Sequence[UnitTask], *, cursor: int, now: float
    ) -> Batch:
        def work(connection: sqlite3.Connection) -> Batch:
            last = connection.execute(SQL["flow_batch"], (batch.no,)).fetchone()[1]
            moved = (cursor, last, now, *_gathering(batch, 2))
            if not connection.execute(SQL["flow_gather"], moved).rowcount:
                raise Stale(f"batch {batch.id} has moved on")
            base = first_number(phase)
            connection.executemany(
                SQL["flow_insert_unit_task"],
                (
                    (
                        *(batch.no, base + one.file_no, phase, one.file_no),
                        *((TaskState.BLOCKED, None) if one.waits_for else (TaskState.WAITING, 0)),
                        *(one.waits_for, None if one.blocks is None else base + one.blocks, one.given),
                    )
                    for one in tasks
                ),
            )
            connection.executemany(
                SQL["flow_fill_unit"],
                ((one.key, one.size, one.digest, one.root_no, batch.no, one.file_no) for one in tasks),
            )
            connection.execute(SQL["flow_count_units"], (len(tasks), batch.no, phase))
            connection.execute(SQL["flow_count_open"], (len(tasks), last, now, batch.no))
            connection.execute(SQL["set_alarm"], (0, batch.no))
            return load_batch(connection, batch.no)

        return await self._database.write(work)

    async def end_gather(self, batch: Batch, *, waits_at: int | None, now: float) -> Batch:
        def work(connection: sqlite3.Connection) -> Batch:
            if not connection.execute(
                SQL["flow_end_gather"], (waits_at, now, *_gathering(batch, 2))
            ).rowcount:
                raise Stale(f"batch {batch.id} has moved on")
            advance(connection, batch.no, now)
            return load_batch(connection, batch.no)

        return await self._database.write(work)

    async def _unit_rows(self, query: str, values: Row) -> list[Row]:
        return await self._database.read(lambda connection: connection.execute(SQL[query], values).fetchall())


def _gathering(batch: Batch, gathers: int) -> Row:
    """Where the batch was seen while its units are made: for the compare-and-swap."""
    waits_at = None if batch.flow is None else batch.flow.waits_at
    return batch.no, gathers, waits_at, batch.position.round, batch.position.cursor
