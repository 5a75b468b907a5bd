"""Batches whose documents move on by themselves: intake and joins. Claims are in `flow_claims`, folders
in `flow_units`.

Every method is one transaction. Cost per task does not depend on the size of the batch: new tasks are
claimed along the primary key from a cursor for each phase, and status is read from counters.
"""

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

from quire.database.sqlite import SqliteDatabase
from quire.ledger.documents import KnownDocuments
from quire.ledger.flow_rows import EffectRows, folder_file, open_phases, read_join
from quire.ledger.flow_values import Admission, CompleteJoin, Effects, ListedInput
from quire.ledger.rows import file_columns, read_file
from quire.ledger.sqlite.flow_settlement import advance, read_cursors, write_effects
from quire.ledger.sqlite.rows import SQL, load_batch, record_event
from quire.model.batch import Batch, Stage
from quire.model.errors import Missing, Stale
from quire.model.files import fold

Row = tuple[Any, ...]


class SqliteFlowStore:
    _database: SqliteDatabase
    _documents: KnownDocuments

    async def begin_flow(
        self,
        batch: Batch,
        *,
        phases: Sequence[str],
        waits_at: int | None,
        now: float,
        delays: Sequence[float] = (),
    ) -> Batch:
        def work(connection: sqlite3.Connection) -> Batch:
            if not connection.execute(SQL["flow_begin"], (waits_at, now, batch.no)).rowcount:
                raise Stale(f"batch {batch.id} has been begun by somebody else")
            connection.executemany(SQL["flow_open_phase"], open_phases(batch.no, phases, delays, now))
            record_event(connection, batch.no, now, "phase_started", {"phase": phases[0], "round": 1})
            return load_batch(connection, batch.no)

        return await self._database.write(work)

    async def get_plan(self, batch_no: int) -> str:
        rows = await self._rows("flow_plan", (batch_no,))
        if not rows:
            raise Missing(f"there is no batch {batch_no}", code="unknown_batch")
        return str(rows[0][0])

    async def admit_files(
        self,
        batch: Batch,
        admissions: Sequence[Admission],
        *,
        cursor: int,
        admitted: int,
        admissible: int,
        complete: bool,
        now: float,
    ) -> Batch:
        def work(connection: sqlite3.Connection) -> Batch:
            flow = batch.flow
            before = (batch.no, batch.position.cursor, 0 if flow is None else flow.admitted)
            values = (cursor, admitted, admissible, now, complete, *before)
            if not connection.execute(SQL["flow_admit"], values).rowcount:
                raise Stale(f"batch {batch.id} has moved on")
            last = connection.execute(SQL["flow_batch"], (batch.no,)).fetchone()[1]
            rows = EffectRows(batch.no, last, read_cursors(connection, batch.no))
            for one in admissions:
                if one.file is not None:
                    columns = file_columns(one.file)
                    rows.files.append((batch.no, one.no, one.no, 0, True, "input", *columns, None, ""))
                if one.first is not None:
                    rows.follow(one.first, one.no)
            write_effects(connection, batch.no, rows, settled=0, now=now)
            advance(connection, batch.no, now)
            return load_batch(connection, batch.no)

        changed = await self._database.write(work)
        self._documents.admit(batch.no, admissions)
        return changed

    async def rest_batch(self, batch_no: int, member: int, *, now: float) -> None:
        def work(connection: sqlite3.Connection) -> None:
            advance(connection, batch_no, now)
            connection.execute(SQL["flow_rest"], (batch_no, member))

        await self._database.write(work)

    async def find_listed(self, batch_no: int, paths: Collection[str]) -> dict[str, list[ListedInput]]:
        twins = {path for path in paths if path.startswith("twins:")}
        folders = {path for path in paths if path.endswith("/")} - twins
        files = set(paths) - folders - twins

        def work(connection: sqlite3.Connection) -> dict[str, list[ListedInput]]:
            found: dict[str, list[ListedInput]] = {}
            values = (batch_no, json.dumps(sorted(files)))
            for no, folded, born, root, *columns in connection.execute(SQL["flow_listed_inputs"], values):
                one = ListedInput(no, folded, read_file(tuple(columns)), born, root)
                found.setdefault(folded, []).append(one)
            values = (batch_no, json.dumps(sorted(folders)))
            for (folder,) in connection.execute(SQL["flow_listed_folders"], values) if folders else ():
                found[folder] = [ListedInput(0, folder, folder_file(folder))]
            for key in twins:
                folder = key.removeprefix("twins:")
                alike = (batch_no, fold(folder), folder)
                for (path,) in connection.execute(SQL["flow_twin_folder"], alike):
                    found[key] = [ListedInput(0, fold(path), folder_file(path))]
            return found

        return await self._database.read(work)

    async def list_complete_joins(self, batch_no: int, limit: int) -> list[CompleteJoin]:
        def work(connection: sqlite3.Connection) -> list[CompleteJoin]:
            rows = connection.execute(SQL["flow_complete_joins"], (batch_no, limit)).fetchall()
            return [_read_join(connection, batch_no, row) for row in rows]

        return await self._database.read(work)

    async def apply_joins(
        self, batch: Batch, joins: Sequence[tuple[Effects, Sequence[tuple[int, str, str]]]], *, now: float
    ) -> None:
        batch_no = batch.no

        def work(connection: sqlite3.Connection) -> None:
            stage, last_file, _, round_no = connection.execute(SQL["flow_batch"], (batch_no,)).fetchone()
            if stage != Stage.FLOWING:
                return  # it waits for the batch to be opened again
            if round_no != batch.position.round:
                raise Stale(f"batch {batch.id} has moved on")
            rows = EffectRows(batch_no, last_file, read_cursors(connection, batch_no))
            settled = 0
            for effects, doubts in joins:
                place = (batch_no, effects.phase, effects.parent_no)
                if not connection.execute(SQL["flow_resolve_join"], place).rowcount:
                    continue
                settled += 1
                rows.add([effects])
                fail_branches(connection, batch_no, effects, doubts)
            write_effects(connection, batch_no, rows, settled=settled, now=now)
            advance(connection, batch_no, now)

        await self._database.write(work)

    async def _rows(self, query: str, values: Row) -> list[Row]:
        return await self._database.read(lambda connection: connection.execute(SQL[query], values).fetchall())


def _read_join(connection: sqlite3.Connection, batch_no: int, row: Row) -> CompleteJoin:
    phase, file_no = row[:2]
    return read_join(row, connection.execute(SQL["flow_branches"], (batch_no, file_no, phase)))


def fail_branches(
    connection: sqlite3.Connection, batch_no: int, effects: Effects, doubts: Sequence[tuple[int, str, str]]
) -> None:
    """Results that turned out at the join not to fit together."""
    for branch, error_class, error in doubts:
        place = (batch_no, effects.parent_no, effects.phase, branch)
        connection.execute(SQL["flow_doubt_branch"], (error_class, error, *place))
        counts = (-1, 1, 0, 0.0, 0, 0, 0, 0, 0)
        connection.execute(SQL["flow_count_settled"], (*counts, batch_no, effects.phase))
        connection.execute(SQL["count_failures"], (batch_no, error_class, 1))
