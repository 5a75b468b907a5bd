"""Batches whose documents move on by themselves: intake, claims, joins. Folders are in `flow_units`.

Every method is one transaction. Cost per task does not depend on the size of the batch: new tasks are
claimed along the primary key from a cursor for each phase, and status is read from counters.
"""

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

from quire.database.sqlite import SqliteDatabase
from quire.ledger.flow_rows import EffectRows, folder_file, open_phases, read_flow_claim, read_join
from quire.ledger.flow_values import Admission, CompleteJoin, Effects, FlowOffer, ListedInput, first_number
from quire.ledger.port import Claim, Known, ListedFile, Only, Settlement, SettleResult, WorkableBatch
from quire.ledger.rows import file_columns, read_file, read_listed_file, read_workable_batch
from quire.ledger.sqlite.flow_settlement import advance, read_cursors, settle, write_effects
from quire.ledger.sqlite.rows import (
    SQL,
    encode_batch_numbers,
    encode_pipelines,
    fetch_numbers,
    is_removed,
    load_batch,
    record_event,
)
from quire.model.batch import Batch, Stage
from quire.model.errors import Missing, Stale
from quire.model.files import fold

Row = tuple[Any, ...]


class SqliteFlowStore:
    _database: SqliteDatabase

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

    async def reset_alarm(self, batch_no: int) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute(SQL["clear_alarm"], (batch_no,))
            connection.execute(SQL["flow_due_alarm"], (batch_no,))

        await self._database.write(work)

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

        return await self._database.write(work)

    async def list_admissible(self, batch_no: int, *, after: int, to: int, limit: int) -> list[ListedFile]:
        rows = await self._rows("flow_to_admit", (batch_no, after, to, limit))
        return [read_listed_file(row) for row in rows]

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

    async def list_flowing(
        self, *, limit: int, now: float, only: Only = None, known: Known = None, ageing_seconds: float = 0.0
    ) -> list[WorkableBatch]:
        values = (now, encode_batch_numbers(only), limit, encode_pipelines(known), ageing_seconds)
        rows = await self._rows("flow_workable", values)
        return [_read_offer(row) for row in rows]

    async def claim_phase(
        self, batch_no: int, phase: int, *, member: int, limit: int, now: float, pace_seconds: float = 0.0
    ) -> list[Claim]:
        def work(connection: sqlite3.Connection) -> list[Row]:
            found = connection.execute(SQL["flow_claimable"], (batch_no, phase, now)).fetchone()
            if found is None or is_removed(connection, member):
                return []
            return _claim(connection, batch_no, phase, found, member, limit, now, pace_seconds)

        return [read_flow_claim(batch_no, row) for row in await self._database.write(work)]

    async def load_claims(self, batch_no: int, task_nos: Collection[int]) -> dict[int, Claim]:
        rows = await self._rows("flow_task", (batch_no, json.dumps(list(task_nos))))
        return {row[0]: read_flow_claim(batch_no, row) for row in rows}

    async def list_overdue(self, *, now: float, limit: int, only: Only = None) -> list[tuple[Claim, str]]:
        rows = await self._rows("flow_overdue", (now, limit, encode_batch_numbers(only)))
        return [(read_flow_claim(batch_no, tuple(claim)), said) for batch_no, said, *claim in rows]

    async def note_answer(self, batch_no: int, task_no: int, attempt: int, error: str) -> bool:
        values = (error, batch_no, task_no, attempt)
        return bool(
            await self._database.write(
                lambda connection: connection.execute(SQL["flow_note_answer"], values).rowcount
            )
        )

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

    async def settle_flow(
        self, batch_no: int, settlements: Sequence[Settlement], *, now: float
    ) -> SettleResult:
        return await self._database.write(lambda connection: settle(connection, batch_no, settlements, now))

    async def release_flow_claims(self, batch_no: int, attempts: Sequence[tuple[int, int]]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            rows = ((batch_no, task_no, attempt) for task_no, attempt in attempts)
            connection.executemany(SQL["flow_give_back"], rows)
            connection.execute(SQL["set_alarm"], (0, batch_no))

        await self._database.write(work)

    async def _rows(self, query: str, values: Row) -> list[Row]:
        return await self._database.read(lambda connection: connection.execute(SQL[query], values).fetchall())


def _claim(
    connection: sqlite3.Connection,
    batch_no: int,
    phase: int,
    claimable: Row,
    member: int,
    limit: int,
    now: float,
    pace_seconds: float,
) -> list[Row]:
    following, last, alarm = claimable
    base = first_number(phase)
    claimed: list[Row] = []
    if alarm is not None and alarm <= now:
        values = (batch_no, now, limit, base, first_number(phase + 1))
        for task_no in fetch_numbers(connection, "flow_due_tasks", values):
            connection.execute(SQL["keep_attempt"], (batch_no, task_no))
            connection.execute(SQL["begin_waiting"], (now, member, batch_no, task_no))
            place = (batch_no, task_no, task_no + 1)
            claimed += connection.execute(SQL["flow_claimed_range"], place).fetchall()
        connection.execute(SQL["clear_alarm"], (batch_no,))
        connection.execute(SQL["flow_due_alarm"], (batch_no,))
    end = min(last + 1, following + limit - len(claimed))
    if end > following:
        place = (batch_no, base + following, base + end)
        connection.execute(SQL["begin_fresh"], (now, member, *place))
        claimed += connection.execute(SQL["flow_claimed_range"], place).fetchall()
        following = end
    if claimed or following > claimable[0]:
        # The cursor passes superseded tasks, too.
        until = now + pace_seconds if pace_seconds and claimed else 0
        connection.execute(SQL["flow_claimed"], (following, until, batch_no, phase))
        connection.execute(SQL["flow_served"], (now, batch_no))
    return claimed


def _read_offer(row: Row) -> WorkableBatch:
    *columns, fresh, due = row
    found = read_workable_batch(tuple(columns))
    offers = {phase: FlowOffer(phase, count, due=False) for phase, count in json.loads(fresh)}
    for phase in json.loads(due):
        offers[phase] = FlowOffer(phase, offers[phase].fresh if phase in offers else 0, due=True)
    ordered = tuple(offers[phase] for phase in sorted(offers, reverse=True))
    return WorkableBatch(batch=found.batch, served_at=found.served_at, offers=ordered)


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
