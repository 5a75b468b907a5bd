"""Tasks of batches that flow go out and come back: new ones are claimed along the primary key from a cursor
for each phase, those that are due again from a small partial index. Who settles may claim in the same
transaction.
"""

from collections.abc import Collection, Sequence
from typing import Any

from msgspec import structs

from quire.database.postgres import Connection, PostgresDatabase
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
from quire.ledger.postgres.flow_settlement import settle
from quire.ledger.postgres.rows import SQL, all_rows, change, encode_batch_numbers, encode_pipelines, one_row
from quire.ledger.rows import Row, read_workable_batch


class PostgresFlowClaimStore:
    _database: PostgresDatabase
    _documents: KnownDocuments

    async def list_flowing(
        self, *, limit: int, now: float, only: Only = None, known: Known = None, ageing_seconds: float = 0.0
    ) -> list[WorkableBatch]:
        values = {"now": now, "only": encode_batch_numbers(only), "limit": limit, "ageing": ageing_seconds}
        values |= encode_pipelines(known)
        rows = await self._database.read(lambda connection: all_rows(connection, "flow_workable", values))
        return [_read_offers(row) for row in rows]

    async def claim_phase(
        self, batch_no: int, phase: int, *, member: int, limit: int, now: float, pace_seconds: float = 0.0
    ) -> list[Claim]:
        request = ClaimRequest(member, limit, (PhaseLimit(phase, limit, pace_seconds),))

        async def work(connection: Connection) -> ClaimedRows:
            rows = await hold_and_claim(connection, batch_no, request, now)
            return rows, *(await self._find_documents(connection, batch_no, rows))

        rows, known, read = await self._database.write(work)
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
        async def work(connection: Connection) -> tuple[SettleResult, ClaimedRows]:
            if claim is None:
                return await settle(connection, batch_no, settlements, now), NOTHING_CLAIMED
            # The member's row before the batch's: whoever dismisses a member takes them in the same order.
            enlisted = await connection.execute(SQL["hold_member"], (claim.member,))
            settled = await settle(connection, batch_no, settlements, now)
            if await _is_removed(connection, claim.member, enlisted):
                return settled, NOTHING_CLAIMED
            async with connection.pipeline():
                asked = await _ask(connection, batch_no, claim, now)
            rows = await _claim_phases(connection, batch_no, claim, asked, now)
            return settled, (rows, *(await self._find_documents(connection, batch_no, rows)))

        settled, (rows, known, read) = await self._database.write(work)
        if not rows:
            return settled
        self._documents.keep(batch_no, read)
        return structs.replace(settled, claims=tuple(read_claims(batch_no, rows, known | read)))

    async def _find_documents(
        self, connection: Connection, batch_no: int, rows: Sequence[Row]
    ) -> tuple[Documents, Documents]:
        """Of tasks that were claimed: those in memory, and those that had to be read."""
        wanted = {row[6] for row in rows}
        known = self._documents.find(batch_no, wanted)
        read: Documents = {}
        if len(known) < len(wanted):
            values = (batch_no, [number for number in wanted if number not in known])
            for number, *columns in await all_rows(connection, "flow_documents", values):
                read[number] = read_document(tuple(columns))
        return known, read

    async def load_claims(self, batch_no: int, task_nos: Collection[int]) -> dict[int, Claim]:
        values = (batch_no, list(task_nos))
        rows = await self._database.read(lambda connection: all_rows(connection, "flow_tasks", values))
        return {row[0]: read_flow_claim(batch_no, row) for row in rows}

    async def list_overdue(self, *, now: float, limit: int, only: Only = None) -> list[tuple[Claim, str]]:
        values = {"now": now, "limit": limit, "only": encode_batch_numbers(only)}
        rows = await self._database.read(lambda connection: all_rows(connection, "flow_overdue", values))
        return [(read_flow_claim(batch_no, tuple(claim)), said) for batch_no, said, *claim in rows]

    async def note_answer(self, batch_no: int, task_no: int, attempt: int, error: str) -> bool:
        async def work(connection: Connection) -> bool:
            await change(connection, "lock_batch", (batch_no,))
            return bool(await change(connection, "flow_note_answer", (error, batch_no, task_no, attempt)))

        return await self._database.write(work)

    async def reset_alarm(self, batch_no: int) -> None:
        async def work(connection: Connection) -> None:
            async with connection.pipeline():
                await change(connection, "lock_batch", (batch_no,))
                await _reset_alarm(connection, batch_no)

        await self._database.write(work)


async def hold_and_claim(
    connection: Connection, batch_no: int, request: ClaimRequest, now: float
) -> list[Row]:
    """The member's row is held, then the batch's, each by a statement of its own: whoever dismisses a member
    takes them in the same order.
    """
    async with connection.pipeline():
        enlisted = await connection.execute(SQL["hold_member"], (request.member,))
        await change(connection, "lock_batch", (batch_no,))
        asked = await _ask(connection, batch_no, request, now)
    if await _is_removed(connection, request.member, enlisted):
        return []
    return await _claim_phases(connection, batch_no, request, asked, now)


async def _claim_phases(
    connection: Connection, batch_no: int, request: ClaimRequest, asked: list[Any], now: float
) -> list[Row]:
    """The member's row and the batch's are held; `asked` are the answers of `_ask`."""
    values = {"no": batch_no, "member": request.member, "now": now}
    rows: list[Row] = []
    for one, answer in zip(request.phases, asked, strict=True):
        claimable = await answer.fetchone()
        most = min(one.most, request.most - len(rows))
        if claimable is not None and most > 0:
            rows += await _claim(connection, values | {"limit": most}, one, claimable)
    return rows


async def _claim(
    connection: Connection, values: dict[str, Any], wanted: PhaseLimit, claimable: Row
) -> list[Row]:
    pace_seconds = wanted.pace_seconds
    values |= {"phase": wanted.phase}
    values |= {"first": first_number(wanted.phase), "end": first_number(wanted.phase + 1)}
    no, now = values["no"], values["now"]
    following, last, alarm = claimable
    claimed: list[Row] = []
    if alarm is not None and alarm <= now:
        async with connection.pipeline():
            due = await connection.execute(SQL["flow_begin_waiting"], values)
            await _reset_alarm(connection, no)
        claimed += await due.fetchall()
    end = min(last + 1, following + values["limit"] - len(claimed))
    if end > following:
        base = values["first"]
        place = values | {"first": base + following, "end": base + end}
        # In one go with the cursor, unless a pace has to know whether there were any: superseded ones are
        # passed over.
        async with connection.pipeline():
            fresh = await connection.execute(SQL["flow_begin_fresh"], place)
            if not pace_seconds:
                await _record_claim(connection, values, end, 0.0)
        claimed += await fresh.fetchall()
        if pace_seconds:
            await _record_claim(connection, values, end, now + pace_seconds if claimed else 0.0)
    elif claimed:
        await _record_claim(connection, values, following, now + pace_seconds if pace_seconds else 0.0)
    return claimed


async def _ask(connection: Connection, batch_no: int, request: ClaimRequest, now: float) -> list[Any]:
    """What can be claimed of each phase; the answers are read after the pipeline in which they were sent."""
    values = {"no": batch_no, "now": now}
    return [
        await connection.execute(SQL["flow_claimable"], values | {"phase": one.phase})
        for one in request.phases
    ]


async def _is_removed(connection: Connection, member: int, enlisted: Any) -> bool:
    if await enlisted.fetchone() is not None:
        return False
    return await one_row(connection, "was_enlisted", (member,)) is not None


async def _record_claim(
    connection: Connection, values: dict[str, Any], following: int, dispatch_at: float
) -> None:
    no = values["no"]
    await change(connection, "flow_claimed", (following, dispatch_at, no, values["phase"]))
    await change(connection, "flow_served", (values["now"], no))


async def _reset_alarm(connection: Connection, batch_no: int) -> None:
    await change(connection, "clear_alarm", (batch_no,))
    await change(connection, "flow_due_alarm", (batch_no,))


def _read_offers(row: Row) -> WorkableBatch:
    *own, phases, counts, due = row
    found = read_workable_batch(tuple(own))
    offers = {
        phase: FlowOffer(phase, fresh, due=False)
        for phase, fresh in zip(phases or (), counts or (), strict=True)
    }
    for phase in due or ():
        offers[phase] = FlowOffer(phase, offers[phase].fresh if phase in offers else 0, due=True)
    ordered = tuple(offers[phase] for phase in sorted(offers, reverse=True))
    return WorkableBatch(batch=found.batch, served_at=found.served_at, offers=ordered)
