"""Tasks go out and come back: the floor's door. What a settlement writes is in `settling`.

Cost per task does not depend on the size of the batch: new tasks are claimed along the primary key from a
cursor, retries and ranks from small partial indexes, and counters are updated once per set of reports.
"""

from collections.abc import Collection, Sequence
from typing import Any

from quire.database.postgres import Connection, PostgresDatabase
from quire.ledger.flow_rows import read_any_claim
from quire.ledger.port import Claim, Known, Only, Settlement, SettleResult, StoredTask, WorkableBatch
from quire.ledger.postgres.rows import (
    SQL,
    all_rows,
    change,
    columns,
    encode_batch_numbers,
    encode_pipelines,
    is_removed,
    notify_listeners,
    one_row,
)
from quire.ledger.postgres.settlement import settle_reports
from quire.ledger.rows import Row, decode_result, read_claim, read_task, read_workable_batch
from quire.model.work import EarlierResult, Order, StepResult


class PostgresTaskStore:
    _database: PostgresDatabase

    async def list_workable(
        self, *, limit: int, now: float, only: Only = None, known: Known = None, ageing_seconds: float = 0.0
    ) -> list[WorkableBatch]:
        values = {"now": now, "only": encode_batch_numbers(only), "limit": limit, "ageing": ageing_seconds}
        values |= encode_pipelines(known)
        rows = await self._database.read(lambda connection: all_rows(connection, "workable", values))
        return [read_workable_batch(row) for row in rows]

    async def claim_tasks(
        self,
        batch_no: int,
        *,
        member: int,
        limit: int,
        now: float,
        pace_seconds: float = 0.0,
        phase: int | None = None,
        round_no: int | None = None,
    ) -> list[Claim]:
        values: dict[str, Any] = {"no": batch_no, "member": member, "limit": limit, "now": now}
        values |= {"phase": phase, "round": round_no}
        rows = await self._database.write(lambda connection: _claim(connection, values, pace_seconds))
        return [read_claim(batch_no, row) for row in rows]

    async def load_child_results(
        self, batch_no: int, task_nos: Collection[int]
    ) -> dict[int, tuple[EarlierResult, ...]]:
        values = (batch_no, list(task_nos))
        found: dict[int, list[EarlierResult]] = {task_no: [] for task_no in task_nos}
        for task_no, path, result in await self._database.read(
            lambda connection: all_rows(connection, "earlier", values)
        ):
            found[task_no].append(EarlierResult(path, decode_result(result)))
        return {task_no: tuple(told) for task_no, told in found.items()}

    async def settle_reports(
        self, batch_no: int, settlements: Sequence[Settlement], *, now: float
    ) -> SettleResult:
        return await self._database.write(
            lambda connection: settle_reports(connection, batch_no, settlements, now)
        )

    async def release_claims(self, orders: Sequence[Order]) -> None:
        if not orders:
            return
        values = columns((order.batch_no, order.task_no, order.attempt) for order in orders)

        async def work(connection: Connection) -> None:
            await all_rows(connection, "lock_batches", (values[0],))
            async with connection.pipeline():
                await change(connection, "give_back", tuple(values))
                await change(connection, "ring_now", (values[0],))
                await notify_listeners(connection)

        await self._database.write(work)

    async def get_task(self, batch_no: int, task_no: int) -> StoredTask:
        values = (batch_no, task_no)
        row = await self._database.read(lambda connection: one_row(connection, "task_state", values))
        return read_task(batch_no, row, task_no)

    async def list_running(self, member: int) -> list[Claim]:
        rows = await self._database.read(lambda connection: all_rows(connection, "running_tasks", (member,)))
        return [read_any_claim(batch_no, tuple(claim)) for batch_no, *claim in rows]

    async def load_cached(self, keys: Collection[str]) -> dict[str, StepResult]:
        values = (list(keys),)
        rows = await self._database.read(lambda connection: all_rows(connection, "cached_results", values))
        return {key: decode_result(blob or None) for key, blob in rows}

    async def evict_cached(self, keys: Collection[str]) -> None:
        values = (list(keys),)
        await self._database.write(lambda connection: change(connection, "evict_results", values))


async def _claim(connection: Connection, values: dict[str, Any], pace_seconds: float) -> list[Row]:
    no, now, limit = values["no"], values["now"], values["limit"]
    # Members before batches, as whoever dismisses one: otherwise two could wait for each other.
    if await is_removed(connection, values["member"]):
        return []
    claimable = await one_row(connection, "claimable", values)
    if claimable is None:
        return []
    following, last_task, rank, alarm = claimable
    claimed: list[Row] = []
    if alarm is not None and alarm <= now:
        claimed += await all_rows(connection, "begin_waiting", values | {"rank": rank})
        async with connection.pipeline():
            await change(connection, "clear_alarm", (no,))
            await change(connection, "set_alarm_to_next_due", (no,))
    room = limit - len(claimed)
    end = following
    if rank is None:
        end = min(last_task + 1, following + room)
    if end > following:
        # In one go with the cursor: only the rows are waited for.
        async with connection.pipeline():
            begun = await connection.execute(SQL["begin_fresh"], values | {"first": following, "end": end})
            await _record_claim(connection, no, end, now, pace_seconds)
        return claimed + await begun.fetchall()
    if rank is not None and room:
        claimed += await all_rows(connection, "begin_of_rank", values | {"rank": rank, "limit": room})
    if claimed:
        await _record_claim(connection, no, end, now, pace_seconds)
    return claimed


async def _record_claim(
    connection: Connection, no: int, following: int, now: float, pace_seconds: float
) -> None:
    await change(connection, "claimed", (following, now, now + pace_seconds if pace_seconds else 0.0, no))
