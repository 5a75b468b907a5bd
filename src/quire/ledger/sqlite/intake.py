"""Files come in while the batch flows: their folders are listed, then they are taken one after the other."""

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from quire.database.sqlite import SqliteDatabase
from quire.ledger.flow_rows import EffectRows, open_phases
from quire.ledger.intake import FinishedInput, FolderNames, ListedName, TakenFile
from quire.ledger.intake_rows import (
    check_listed_before,
    keep_files,
    name_columns,
    number_names,
    refuse_more,
    taken_columns,
)
from quire.ledger.record_rows import group_products
from quire.ledger.rows import read_batch, read_file, upload_columns
from quire.ledger.sqlite.flow_settlement import advance, read_cursors, write_effects
from quire.ledger.sqlite.rows import SQL, fetch_numbers, load_batch, record_event
from quire.model.batch import Batch
from quire.model.errors import Stale
from quire.model.files import File, fold

Row = tuple[Any, ...]


class SqliteIntakeStore:
    _database: SqliteDatabase

    async def begin_intake(
        self,
        batch: Batch,
        *,
        phases: Sequence[str],
        waits_at: int | None,
        now: float,
        delays: Sequence[float] = (),
    ) -> Batch:

        def work(connection: sqlite3.Connection) -> Batch:
            if not connection.execute(SQL["intake_begin"], (waits_at, phases[0], now, batch.no)).rowcount:
                raise Stale(f"batch {batch.id} has been begun by somebody else")
            connection.executemany(SQL["flow_open_phase"], open_phases(batch.no, phases, delays, now))
            record_event(connection, batch.no, now, "phase_started", {"phase": phases[0], "round": 1})
            return load_batch(connection, batch.no)

        return await self._database.write(work)

    async def list_folder(self, batch_no: int, folder: FolderNames, *, now: float) -> list[ListedName]:
        def work(connection: sqlite3.Connection) -> list[ListedName]:
            last = _check_open(connection, batch_no)
            wanted = [*folder.awaited, *folder.names]
            known = _find_known(connection, batch_no, wanted[:1])
            if known:
                known = _find_known(connection, batch_no, wanted)
                check_listed_before(wanted, known)
                return known
            listed = number_names(folder, last)
            connection.executemany(SQL["flow_insert_file"], (name_columns(batch_no, one) for one in listed))
            uploads = ((batch_no, *upload_columns(one)) for one in folder.refusals)
            connection.executemany(SQL["upsert_upload"], uploads)
            connection.execute(SQL["intake_listed"], (last + len(listed), now, batch_no))
            return listed

        return keep_files(await self._database.write(work))

    async def list_names(self, batch_no: int, *, after: int, limit: int) -> list[ListedName]:
        rows = await self._intake_rows("intake_names", (batch_no, after, limit))
        return [ListedName(*row) for row in rows]

    async def take_files(self, batch_no: int, files: Sequence[TakenFile], *, now: float) -> None:
        def work(connection: sqlite3.Connection) -> None:
            last = _check_open(connection, batch_no)
            numbers = json.dumps([one.no for one in files])
            before = set(fetch_numbers(connection, "intake_taken_before", (batch_no, numbers)))
            fresh = [one for one in files if one.no not in before]
            uploads = ((batch_no, *upload_columns(one.upload)) for one in fresh)
            connection.executemany(SQL["upsert_upload"], uploads)
            refused = ((batch_no, one.no) for one in fresh if one.file is None)
            connection.executemany(SQL["intake_refuse"], refused)
            taken = [(*taken_columns(one, one.file), batch_no) for one in fresh if one.file is not None]
            connection.executemany(SQL["intake_take"], taken)
            connection.execute(SQL["intake_count"], (len(taken), batch_no))
            rows = EffectRows(batch_no, last, read_cursors(connection, batch_no))
            for one in fresh:
                if one.first is not None:
                    rows.follow(one.first, one.no)
            write_effects(connection, batch_no, rows, settled=0, now=now)

        await self._database.write(work)

    async def close_intake(
        self,
        batch_no: int,
        *,
        manifest_key: str,
        total_files: int,
        message: bytes,
        refused: int,
        passed_over: int,
        now: float,
    ) -> Batch:
        def work(connection: sqlite3.Connection) -> Batch:
            values = (manifest_key, total_files, refused, passed_over, message.decode(), now, batch_no)
            if not connection.execute(SQL["intake_close"], values).rowcount:
                raise refuse_more(batch_no)
            record_event(connection, batch_no, now, "batch_finalized", {"total_files": total_files})
            advance(connection, batch_no, now)
            return load_batch(connection, batch_no)

        return await self._database.write(work)

    async def list_runs(self, run_key: str) -> list[Batch]:
        return [read_batch(row, row[0]) for row in await self._intake_rows("intake_runs", (run_key,))]

    async def list_finished(
        self, batch_no: int, *, after: int, numbers: Collection[int], limit: int
    ) -> tuple[list[FinishedInput], int]:
        def work(connection: sqlite3.Connection) -> tuple[list[FinishedInput], int]:
            (last,) = connection.execute(SQL["intake_last_file"], (batch_no,)).fetchone()
            to = max(after, min(last, after + limit))
            values = (batch_no, after, to, json.dumps(list(numbers)))
            rows = connection.execute(SQL["intake_finished"], values).fetchall()
            ended = json.dumps([no for no, _, finished in rows if finished])
            made = group_products(connection.execute(SQL["made_files"], (batch_no, ended)).fetchall())
            found = [FinishedInput(no, path, bool(ended), made.get(no, [])) for no, path, ended in rows]
            return found, to

        return await self._database.read(work)

    async def list_withdrawn(self, batch_no: int, *, after: int, limit: int) -> list[tuple[int, File]]:
        rows = await self._intake_rows("intake_withdrawn", (batch_no, after, limit))
        return [(no, read_file(tuple(columns))) for no, *columns in rows]

    async def _intake_rows(self, query: str, values: Row) -> list[Row]:
        return await self._database.read(lambda connection: connection.execute(SQL[query], values).fetchall())


def _check_open(connection: sqlite3.Connection, batch_no: int) -> int:
    """The number of the last file. Raises Stale."""
    row = connection.execute(SQL["intake_open"], (batch_no,)).fetchone()
    if row is None:
        raise refuse_more(batch_no)
    return int(row[0])


def _find_known(connection: sqlite3.Connection, batch_no: int, paths: Iterable[str]) -> list[ListedName]:
    wanted = set(paths)
    values = (batch_no, json.dumps(sorted({fold(path) for path in wanted})))
    rows = connection.execute(SQL["intake_known"], values).fetchall()
    return [ListedName(*row) for row in rows if row[1] in wanted]
