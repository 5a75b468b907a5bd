"""Tasks of batches that flow go out and come back: new ones are claimed along the primary key from a cursor
for each phase, those that are due again from a small partial index. Who settles may claim in the same
transaction.
"""

import json
import sqlite3
from collections.abc import Collection, Sequence

from msgspec import structs

from quire.database.sqlite import SqliteDatabase
from quire.ledger.documents import (
    NOTHING_CLAIMED,
    ClaimedRows,
    Documents,
    KnownDocuments,
    read_claims,
    read_document,
)
from quire.ledger.flow_rows import read_flow_claim
from quire.ledger.flow_values import ClaimRequest, FlowOffer, PhaseLimit, first_number
from quire.ledger.port import Claim, Known, Only, Settlement, SettleResult, WorkableBatch
from quire.ledger.rows import Row, read_workable_batch
from quire.ledger.sqlite.flow_settlement import settle
from quire.ledger.sqlite.rows import SQL, encode_batch_numbers, encode_pipelines, fetch_numbers, is_removed


class SqliteFlowClaimStore:
    _database: SqliteDatabase
    _documents: KnownDocuments

    async def list_flowing(
        self, *, limit: int, now: float, only: Only = None, known: Known = None, ageing_seconds: float = 0.0
    ) -> list[WorkableBatch]:
        values = (now, encode_batch_numbers(only), limit, encode_pipelines(known), ageing_seconds)
        rows = await self._read("flow_workable", values)
        return [_read_offer(row) for row in rows]

    async def claim_phase(
        self, batch_no: int, phase: int, *, member: int, limit: int, now: float, pace_seconds: float = 0.0
    ) -> list[Claim]:
        request = ClaimRequest(member, limit, (PhaseLimit(phase, limit, pace_seconds),))
        rows, known, read = await self._database.write(
            lambda connection: self._claim(connection, batch_no, request, now)
        )
        self._documents.keep(batch_no, read)
        return read_claims(batch_no, rows, known | read)

    async def settle_flow(
        self,
        batch_no: int,
        settlements: Sequence[Settlement],
        *,
        now: float,
        claim: ClaimRequest | None = None,
    ) -> SettleResult:
        def work(connection: sqlite3.Connection) -> tuple[SettleResult, ClaimedRows]:
            settled = settle(connection, batch_no, settlements, now)
            return settled, self._claim(connection, batch_no, claim, now) if claim else NOTHING_CLAIMED

        settled, (rows, known, read) = await self._database.write(work)
        if not rows:
            return settled
        self._documents.keep(batch_no, read)
        return structs.replace(settled, claims=tuple(read_claims(batch_no, rows, known | read)))

    def _claim(
        self, connection: sqlite3.Connection, batch_no: int, request: ClaimRequest, now: float
    ) -> ClaimedRows:
        if is_removed(connection, request.member):
            return NOTHING_CLAIMED
        rows: list[Row] = []
        for one in request.phases:
            most = min(one.most, request.most - len(rows))
            if most > 0:
                rows += _claim(connection, batch_no, one, request.member, most, now)
        return rows, *self._find_documents(connection, batch_no, rows)

    def _find_documents(
        self, connection: sqlite3.Connection, batch_no: int, rows: Sequence[Row]
    ) -> tuple[Documents, Documents]:
        """Of tasks that were claimed: those in memory, and those that had to be read."""
        wanted = {row[6] for row in rows}
        known = self._documents.find(batch_no, wanted)
        read: Documents = {}
        if len(known) < len(wanted):
            values = (batch_no, json.dumps([number for number in wanted if number not in known]))
            for number, *columns in connection.execute(SQL["flow_documents"], values):
                read[number] = read_document(tuple(columns))
        return known, read

    async def load_claims(self, batch_no: int, task_nos: Collection[int]) -> dict[int, Claim]:
        rows = await self._read("flow_task", (batch_no, json.dumps(list(task_nos))))
        return {row[0]: read_flow_claim(batch_no, row) for row in rows}

    async def list_overdue(self, *, now: float, limit: int, only: Only = None) -> list[tuple[Claim, str]]:
        rows = await self._read("flow_overdue", (now, limit, encode_batch_numbers(only)))
        return [(read_flow_claim(batch_no, tuple(claim)), said) for batch_no, said, *claim in rows]

    async def note_answer(self, batch_no: int, task_no: int, attempt: int, error: str) -> bool:
        values = (error, batch_no, task_no, attempt)
        return bool(
            await self._database.write(
                lambda connection: connection.execute(SQL["flow_note_answer"], values).rowcount
            )
        )

    async def reset_alarm(self, batch_no: int) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute(SQL["clear_alarm"], (batch_no,))
            connection.execute(SQL["flow_due_alarm"], (batch_no,))

        await self._database.write(work)

    async def release_flow_claims(self, batch_no: int, attempts: Sequence[tuple[int, int]]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            rows = ((batch_no, task_no, attempt) for task_no, attempt in attempts)
            connection.executemany(SQL["flow_give_back"], rows)
            connection.execute(SQL["set_alarm"], (0, batch_no))

        await self._database.write(work)

    async def _read(self, query: str, values: Row) -> list[Row]:
        return await self._database.read(lambda connection: connection.execute(SQL[query], values).fetchall())


def _claim(
    connection: sqlite3.Connection, batch_no: int, wanted: PhaseLimit, member: int, limit: int, now: float
) -> list[Row]:
    phase = wanted.phase
    claimable = connection.execute(SQL["flow_claimable"], (batch_no, phase, now)).fetchone()
    if claimable is None:
        return []
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
        until = now + wanted.pace_seconds if wanted.pace_seconds and claimed else 0
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
