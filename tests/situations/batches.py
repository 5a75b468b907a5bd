"""Batches in any wanted state, walked there move by move on a real ledger: nothing runs, nothing waits."""

from collections.abc import Mapping, Sequence
from typing import Any

from quire.assembly.components import Components
from quire.batches.submission import build_file, close_batch
from quire.engine import moves
from quire.engine.flow import follow
from quire.engine.flow_moves import FlowMoves
from quire.engine.flow_settler import FlowSettler
from quire.ledger.flow_values import Admission
from quire.ledger.port import Claim, Settlement, Upload
from quire.model.batch import Batch, Stage, TaskState
from quire.model.cost import NO_COST, Cost
from quire.model.files import Change
from quire.model.output_rules import OutputRule
from quire.model.plan import Accepts, Plan, digest_of, encode_plan
from quire.model.work import Outcome, Report, StepResult
from quire.testing.factories import draft, phase, pipeline, product

MANY = 10_000
_JPEG = OutputRule(role="jpeg", name="jpg", change=Change.JOIN, tags=("made",))
_NOTHING = OutputRule(role="jpeg", is_file=False)

TWO_PHASES = pipeline(
    phase("ONE", accepts=Accepts(refuses=("tag:made",)), outputs=(_JPEG,), cached=False),
    phase("TWO", accepts=Accepts(needs=("tag:made",)), outputs=(_NOTHING,), task_prefix="u", cached=False),
)


async def opened(
    office: Components,
    names: Sequence[str],
    *,
    batch_id: str = "0" * 26,
    refused: Mapping[str, str] | None = None,
    through: Plan = TWO_PHASES,
    **changes: Any,
) -> Batch:
    """A batch with its files noted and its message on the way; `refused` are paths and their error class."""
    stored = {"plan": encode_plan(through), "plan_digest": digest_of(through)}
    known = {"pipeline": through.name, "now": office.clock.now()} | stored
    batch = await office.uploads.open_batch(draft(batch_id, **(known | changes)))
    uploads = [
        Upload(path=name, state="taken", size=10, key=f"cas/{name}", content_type="image/tiff")
        for name in names
    ]
    uploads += [
        Upload(path=path, state="failed", error_class=code, reason=f"refused: {code}")
        for path, code in (refused or {}).items()
    ]
    await office.uploads.record_uploads(batch.no, uploads)
    return await close_batch(batch, through, uploads=office.uploads, blobs=office.blobs, clock=office.clock)


async def walked(
    office: Components,
    batch: Batch,
    *,
    failing: Mapping[str, str] | None = None,
    until: Stage = Stage.DONE,
    phase_no: int = 1,
    cost: Cost = NO_COST,
    through: Plan = TWO_PHASES,
) -> Batch:
    """Move by move until it stands in stage `until`; among its tasks, until those before phase `phase_no` are
    settled. `failing` are paths and the error class of their tasks.
    """
    while not batch.ended and batch.position.stage is not until:
        now = office.clock.now()
        match batch.position.stage:
            case Stage.QUEUED:
                batch = await office.batches.apply_move(moves.begin(batch, now=now))
            case Stage.FILLING:
                batch = await _admitted(office, batch, through)
            case Stage.FLOWING:
                batch = await worked(office, batch, failing=failing, cost=cost)
            case Stage.ENDING:
                batch = await office.batches.apply_move(moves.end(batch, through, now=now))
    while until is Stage.FLOWING and await _first_phase(office, batch) < phase_no:
        batch = await worked(office, batch, failing=failing, cost=cost)
    return batch


async def _admitted(office: Components, batch: Batch, plan: Plan) -> Batch:
    """All of its files have their first tasks. Its manifest is not read: it would refuse hostile names."""
    batch = await FlowMoves(office.flow, office.blobs, office.clock).begin(batch, plan)
    uploads = await office.uploads.list_uploads(batch.no, limit=MANY)
    files = [build_file(upload) for upload in uploads if upload.state == "taken"]
    return await office.flow.admit_files(
        batch,
        [Admission(no, file, follow(plan, file, no, 0)) for no, file in enumerate(files, start=1)],
        cursor=len(files),
        admitted=len(files),
        admissible=len(files),
        complete=True,
        now=office.clock.now(),
    )


async def _first_phase(office: Components, batch: Batch) -> int:
    """The first phase with tasks that could start."""
    offered = await office.flow.list_flowing(limit=1, now=office.clock.now(), only=[batch.no])
    return min((offer.phase for one in offered for offer in one.offers), default=MANY)


async def worked(
    office: Components,
    batch: Batch,
    *,
    limit: int = MANY,
    failing: Mapping[str, str] | None = None,
    cost: Cost = NO_COST,
) -> Batch:
    """So many tasks of the first phase that has any are claimed and settled."""
    now = office.clock.now()
    member = await office.members.add_member("walker", "test", "here", now=now)
    number = await _first_phase(office, batch)
    claims = await office.flow.claim_phase(batch.no, number, member=member.no, limit=limit, now=now)
    assert claims, f"nothing to do in {batch.position}"
    decided = [(settlement(claim, failing or {}, cost, now), claim) for claim in claims]
    await FlowSettler(office.flow).settle(batch.no, decided, now=now)
    return await office.batches.get_batch(batch.id)


def settlement(
    claim: Claim, failing: Mapping[str, str], cost: Cost = NO_COST, now: float = 1.0
) -> Settlement:
    """What comes of an attempt: a JPEG, or the error class that is wanted for its path."""
    order = claim.order
    names = (order.batch_no, order.task_no, order.attempt)
    error_class = failing.get(order.file.path)
    if error_class is not None:
        words = (error_class, f"refused for its {error_class}")
        told = Report(*names, Outcome.REJECTED, now, 0.5, "w", None, *words, cost=cost)
        return Settlement(report=told, state=TaskState.FAILED, blame=True)
    result = StepResult(products=(product("jpeg", key=f"cas/{order.file.path}.jpg"),))
    told = Report(*names, Outcome.DONE, now, 0.5, "w", result, cost=cost)
    return Settlement(report=told, state=TaskState.DONE)
