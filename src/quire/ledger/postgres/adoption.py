"""Batches of the former form go on as batches that flow."""

from collections.abc import Collection, Sequence

from quire.database.postgres import Connection, PostgresDatabase
from quire.database.postgres_queries import clean_text
from quire.ledger.adoption_port import AdoptedDocument, FormerDocument
from quire.ledger.adoption_rows import read_former
from quire.ledger.flow_rows import EffectRows
from quire.ledger.port import Only
from quire.ledger.postgres.flow import fail_branches, move_and_hold
from quire.ledger.postgres.flow_effects import write_effects
from quire.ledger.postgres.flow_progress import hold_flow
from quire.ledger.postgres.rows import (
    all_rows,
    change,
    encode_batch_numbers,
    is_removed,
    load_batch,
    notify_listeners,
    numbers,
    one_row,
    record_event,
)
from quire.ledger.rows import Row, read_batch
from quire.model.batch import Batch, Stage
from quire.model.errors import Stale


class PostgresAdoptionStore:
    _database: PostgresDatabase

    async def take_former(
        self, member: int, *, pipelines: Collection[str], limit: int, now: float, only: Only = None
    ) -> list[Batch]:
        values = {
            "member": member,
            "now": now,
            "only": encode_batch_numbers(only),
            "limit": limit,
            "pipelines": sorted(pipelines),
        }

        async def work(connection: Connection) -> list[Row]:
            if await is_removed(connection, member):
                return []
            taken = await numbers(connection, "adoption_take", values)
            return await all_rows(connection, "batches_by_no", (taken,)) if taken else []

        return [read_batch(row, row[0]) for row in await self._database.write(work)]

    async def adopt_batch(
        self, batch: Batch, *, plan: str, digest: str, phases: Sequence[str], waits_at: int | None, now: float
    ) -> Batch | None:
        at = batch.position
        values = {
            "plan": plan,
            "digest": digest,
            "waits_at": waits_at,
            "now": now,
            "no": batch.no,
            "at_stage": at.stage.value,
            "at_phase": at.phase,
            "at_cursor": at.cursor,
            "at_round": at.round,
        }

        async def work(connection: Connection) -> Batch | None:
            if await one_row(connection, "adoption_older_members", ()) is not None:
                return None
            if not await change(connection, "adoption_begin", values):
                raise Stale(f"batch {batch.id} has moved on from {at}")
            await change(connection, "adoption_interrupt", (batch.no,))
            await _merge_rounds(connection, batch, phases)
            if at.stage is Stage.FILLING:
                await record_event(
                    connection, batch.no, now, "phase_started", {"phase": phases[0], "round": 1}
                )
            await change(connection, "set_alarm", (0.0, batch.no))
            return await load_batch(connection, batch.no)

        return await self._database.write(work)

    async def list_former(self, batch: Batch, *, limit: int) -> list[FormerDocument]:
        at = batch.position
        values = {"no": batch.no, "after": at.cursor, "limit": limit, "phase": at.phase}
        rows = await self._database.read(
            lambda connection: all_rows(connection, "adoption_documents", values)
        )
        return [read_former(row) for row in rows]

    async def adopt_documents(
        self, batch: Batch, adopted: Sequence[AdoptedDocument], *, cursor: int, complete: bool, now: float
    ) -> Batch:
        no, before, phase = batch.no, batch.position.cursor, batch.position.phase
        moved = {"cursor": cursor, "now": now, "no": no, "at_cursor": before}

        async def work(connection: Connection) -> Batch:
            held = await move_and_hold(connection, batch, "adoption_move", moved)
            rows = EffectRows(no, held.last_file, held.cursors)
            rows.spread += [(one.root_no, 1) for one in adopted]
            rows.add(one.effects for one in adopted if one.effects is not None)
            held.add_rows(rows)
            open_tasks = [one.open_task for one in adopted if one.open_task is not None]
            async with connection.pipeline():
                await change(connection, "adoption_reset_inputs", (no, before, cursor))
                await change(connection, "adoption_add_lineage", (no, before, cursor))
                await write_effects(connection, no, rows)
                await fail_branches(connection, no, _list_doubts(adopted))
                if open_tasks:
                    await change(connection, "adoption_renumber_attempts", (phase, no, open_tasks))
                    await change(connection, "adoption_renumber", (no, open_tasks))
                await change(connection, "set_alarm", (0.0, no))
                await held.write(connection, now)
                await notify_listeners(connection)
            if complete:
                await change(connection, "adoption_end", (no,))
                last = await hold_flow(connection, no)
                if last is not None:
                    await last.write(connection, now)
            return await load_batch(connection, no)

        return await self._database.write(work)

    async def adopt_ended(self, batch: Batch, *, plan: str, digest: str, phases: Sequence[str]) -> Batch:
        async def work(connection: Connection) -> Batch:
            values = (plan, digest, batch.no, batch.position.round)
            if not await change(connection, "adoption_end_of_former", values):
                raise Stale(f"batch {batch.id} has moved on", code="wrong_state")
            await _merge_rounds(connection, batch, phases)
            await change(connection, "adoption_reset_all_inputs", (batch.no,))
            await change(connection, "adoption_add_lineage", (batch.no, 0, batch.last_file))
            return await load_batch(connection, batch.no)

        return await self._database.write(work)

    async def find_adopted(self, batch_no: int, task_no: int) -> int | None:
        values = {"no": batch_no, "task_no": task_no}
        row = await self._database.read(lambda connection: one_row(connection, "adoption_find", values))
        return None if row is None else int(row[0])


async def _merge_rounds(connection: Connection, batch: Batch, phases: Sequence[str]) -> None:
    """One round has all counters, and every phase counts on above the former numbers."""
    if batch.position.round > 1:
        for query in ("adoption_rounds", "adoption_drop_rounds", "adoption_one_round"):
            await change(connection, query, (batch.no,))
    places = list(range(1, len(phases) + 1))
    await change(connection, "flow_open_phases", (batch.no, places, list(phases), [0.0] * len(phases)))
    await change(connection, "adoption_cursors", (batch.no,))
    await change(connection, "flow_recount_open", {"no": batch.no})


def _list_doubts(adopted: Sequence[AdoptedDocument]) -> list[Row]:
    return [
        (one.effects.phase, one.effects.parent_no, branch, kind, clean_text(error))
        for one in adopted
        if one.effects is not None
        for branch, kind, error in one.doubts
    ]
