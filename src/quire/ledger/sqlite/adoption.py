"""Batches of the former form go on as batches that flow."""

import json
import sqlite3
from collections.abc import Collection, Sequence

from quire.database.sqlite import SqliteDatabase
from quire.ledger.adoption_port import AdoptedDocument, FormerDocument
from quire.ledger.adoption_rows import read_former
from quire.ledger.flow_rows import EffectRows
from quire.ledger.port import Only
from quire.ledger.sqlite.flow import fail_branches
from quire.ledger.sqlite.flow_settlement import advance, read_cursors, write_effects
from quire.ledger.sqlite.rows import (
    SQL,
    encode_batch_numbers,
    fetch_numbers,
    is_removed,
    load_batch,
    record_event,
)
from quire.model.batch import Batch, Stage
from quire.model.errors import Stale


class SqliteAdoptionStore:
    _database: SqliteDatabase

    async def take_former(
        self, member: int, *, pipelines: Collection[str], limit: int, now: float, only: Only = None
    ) -> list[Batch]:
        def work(connection: sqlite3.Connection) -> list[Batch]:
            if is_removed(connection, member):
                return []
            values = (member, now, encode_batch_numbers(only), limit, json.dumps(sorted(pipelines)))
            taken = fetch_numbers(connection, "adoption_take", values)
            return [load_batch(connection, no) for no in taken]

        return await self._database.write(work)

    async def adopt_batch(
        self, batch: Batch, *, plan: str, digest: str, phases: Sequence[str], waits_at: int | None, now: float
    ) -> Batch | None:
        def work(connection: sqlite3.Connection) -> Batch | None:
            if connection.execute(SQL["adoption_older_members"]).fetchone():
                return None
            at = batch.position
            place = (batch.no, at.stage, at.phase, at.cursor, at.round)
            values = (plan, digest, waits_at, now, *place)
            if not connection.execute(SQL["adoption_begin"], values).rowcount:
                raise Stale(f"batch {batch.id} has moved on from {at}")
            connection.execute(SQL["adoption_interrupt"], (batch.no,))
            _merge_rounds(connection, batch, phases)
            if at.stage is Stage.FILLING:
                record_event(connection, batch.no, now, "phase_started", {"phase": phases[0], "round": 1})
            connection.execute(SQL["set_alarm"], (0, batch.no))
            return load_batch(connection, batch.no)

        return await self._database.write(work)

    async def list_former(self, batch: Batch, *, limit: int) -> list[FormerDocument]:
        values = (batch.no, batch.position.cursor, limit, batch.position.phase)
        rows = await self._database.read(
            lambda connection: connection.execute(SQL["adoption_documents"], values).fetchall()
        )
        return [read_former(row) for row in rows]

    async def adopt_documents(
        self, batch: Batch, adopted: Sequence[AdoptedDocument], *, cursor: int, complete: bool, now: float
    ) -> Batch:
        def work(connection: sqlite3.Connection) -> Batch:
            no, before, phase = batch.no, batch.position.cursor, batch.position.phase
            if not connection.execute(SQL["adoption_move"], (cursor, now, no, before)).rowcount:
                raise Stale(f"batch {batch.id} has moved on")
            for query in ("adoption_reset_inputs", "adoption_add_lineage"):
                connection.execute(SQL[query], (no, before, cursor))
            last = connection.execute(SQL["flow_batch"], (no,)).fetchone()[1]
            rows = EffectRows(no, last, read_cursors(connection, no))
            rows.spread += [(one.root_no, 1) for one in adopted]
            for one in adopted:
                if one.effects is not None:
                    rows.add([one.effects])
                    fail_branches(connection, no, one.effects, one.doubts)
                if one.open_task is not None:
                    connection.execute(SQL["adoption_renumber_attempts"], (no, one.open_task, phase))
                    connection.execute(SQL["adoption_renumber"], (no, one.open_task))
            write_effects(connection, no, rows, settled=0, now=now)
            connection.execute(SQL["set_alarm"], (0, no))
            if complete:
                connection.execute(SQL["adoption_end"], (no,))
            advance(connection, no, now)
            return load_batch(connection, no)

        return await self._database.write(work)

    async def adopt_ended(self, batch: Batch, *, plan: str, digest: str, phases: Sequence[str]) -> Batch:
        def work(connection: sqlite3.Connection) -> Batch:
            values = (plan, digest, batch.no, batch.position.round)
            if not connection.execute(SQL["adoption_end_of_former"], values).rowcount:
                raise Stale(f"batch {batch.id} has moved on", code="wrong_state")
            _merge_rounds(connection, batch, phases)
            connection.execute(SQL["adoption_reset_all_inputs"], (batch.no,))
            connection.execute(SQL["adoption_add_lineage"], (batch.no, 0, batch.last_file))
            return load_batch(connection, batch.no)

        return await self._database.write(work)

    async def find_adopted(self, batch_no: int, task_no: int) -> int | None:
        row = await self._database.read(
            lambda connection: connection.execute(SQL["adoption_find"], (batch_no, task_no)).fetchone()
        )
        return None if row is None else int(row[0])


def _merge_rounds(connection: sqlite3.Connection, batch: Batch, phases: Sequence[str]) -> None:
    """One round has all counters, and every phase counts on above the former numbers."""
    if batch.position.round > 1:
        for query in ("adoption_rounds", "adoption_drop_rounds", "adoption_one_round"):
            connection.execute(SQL[query], (batch.no,))
    rows = ((batch.no, number, name, 0.0) for number, name in enumerate(phases, start=1))
    connection.executemany(SQL["flow_open_phase"], rows)
    connection.execute(SQL["adoption_cursors"], (batch.no,))
    connection.execute(SQL["flow_recount_open"], (batch.no,))
