"""A batch that flows, on any ledger, without an engine: the test claims and settles by itself."""

from msgspec import Struct

from quire.engine import moves
from quire.engine.flow import follow
from quire.engine.flow_moves import FlowMoves
from quire.engine.flow_settler import FlowSettler
from quire.ledger.flow_values import Admission
from quire.ledger.port import OutboxMessage, Settlement, Upload
from quire.ledger.rows import decode_result
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import TaskState
from quire.model.plan import digest_of, encode_plan
from quire.model.work import StepResult
from quire.testing.factories import draft
from tests.suites.ledger_situations import ME


class TaskRow(Struct, frozen=True):
    """What the ledger has stored of a task."""

    state: TaskState
    result: StepResult
    error_class: str
    error: str


async def begin_flow(ledger, blobs, clock, plan, files, batch_id, **changes):
    """A batch of these files, which have been given their first tasks."""
    now = clock.now()
    stored = {"plan": encode_plan(plan), "plan_digest": digest_of(plan)}
    known = {"pipeline": plan.name, "pipeline_version": plan.version, "now": now}
    batch = await ledger.open_batch(draft(batch_id, **(known | stored | changes)))
    await ledger.record_uploads(batch.no, [Upload(path=file.path, state="taken") for file in files])
    message = OutboxMessage(queue="q", message_id=f"start-{batch_id}", body=b"{}")
    batch = await ledger.close_batch(
        batch.no,
        manifest_key=f"staging/{batch_id}/_manifest.json",
        total_files=len(files),
        message=message,
        now=now,
    )
    batch = await ledger.apply_move(moves.begin(batch, now=now))
    batch = await FlowMoves(ledger, blobs, clock).begin(batch, plan)
    admissions = [Admission(no, file, follow(plan, file, no, 0)) for no, file in enumerate(files, start=1)]
    return await ledger.admit_files(
        batch,
        admissions,
        cursor=len(files),
        admitted=len(files),
        admissible=len(files),
        complete=True,
        now=now,
    )


async def claim_all(ledger, batch_id, *, now, limit=99, phase=None):
    """Claim what can be claimed, in one phase or in every one; by the path of their documents."""
    batch = await ledger.get_batch(batch_id)
    found = {}
    for offered in await ledger.list_flowing(limit=9, now=now, only=[batch.no]):
        for offer in offered.offers:
            if phase not in {None, offer.phase}:
                continue
            for claim in await ledger.claim_phase(batch.no, offer.phase, member=ME, limit=limit, now=now):
                found[claim.order.file.path] = claim
    return found


async def settle_one(ledger, claim, report, *, state, now, **changes):
    """Settle a report with the effects that follow from it."""
    settlement = Settlement(report=report, state=state, **changes)
    settler = FlowSettler(ledger)
    return await settler.settle(claim.order.batch_no, [(settlement, claim)], now=now)


async def read_tasks(ledger, batch_no):
    """The tasks with a report, by the path of their documents; of several the one of the last phase."""
    query = (
        "SELECT t.batch_no, f.path, t.state, t.result, coalesce(t.error_class, ''), coalesce(t.error, '') "
        "FROM tasks t JOIN files f ON f.batch_no = t.batch_no AND f.file_no = t.file_no "
        "WHERE t.outcome IS NOT NULL ORDER BY t.phase"
    )
    return {
        path: TaskRow(TaskState(state), decode_result(result), *why)
        for of, path, state, result, *why in await _select(ledger, query)
        if of == batch_no
    }


async def _select(ledger, query):
    if isinstance(ledger, SqliteLedger):
        return await ledger._database.read(lambda connection: connection.execute(query).fetchall())

    async def work(connection):
        return await (await connection.execute(query)).fetchall()

    return await ledger._database.read(work)
