"""Batches in any wanted state, walked there move by move on a real ledger: nothing runs, nothing waits."""

from collections.abc import Mapping, Sequence
from typing import Any

from quire.assembly.components import Components
from quire.batches.submission import close_batch
from quire.engine import moves
from quire.ledger.port import Claim, Settlement, Upload
from quire.model.batch import Batch, Stage, TaskState
from quire.model.cost import NO_COST, Cost
from quire.model.pipeline import AddedFile, KeptFile, ListChange, Pipeline, from_product
from quire.model.work import Outcome, Report, StepResult
from quire.testing.factories import draft, file, product
from quire.testing.factories import former_phase as phase
from quire.testing.factories import former_pipeline as pipeline

MANY = 10_000


def _one_jpeg(one: Any, result: StepResult, _taken: object) -> ListChange:
    made = (
        AddedFile(from_product(each, path=f"{one.path}.jpg", source=one, tags=("made",)), each.role)
        for each in result.products
    )
    return ListChange(KeptFile(one.tags), tuple(made))


TWO_PHASES = pipeline(
    phase("ONE", becomes=_one_jpeg, cached=False, finds=lambda one: "made" not in one.tags),
    phase("TWO", task_prefix="u", finds=lambda one: "made" in one.tags, cached=False),
)


async def opened(
    office: Components,
    names: Sequence[str],
    *,
    batch_id: str = "0" * 26,
    refused: Mapping[str, str] | None = None,
    through: Pipeline = TWO_PHASES,
    **changes: Any,
) -> Batch:
    """A batch with its files noted and its message on the way; `refused` are paths and their error class."""
    known = {"pipeline": through.name, "now": office.clock.now()} | changes
    batch = await office.uploads.open_batch(draft(batch_id, **known))
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
    names: Sequence[str] = (),
    *,
    failing: Mapping[str, str] | None = None,
    until: Stage = Stage.DONE,
    phase_no: int = 0,
    cost: Cost = NO_COST,
    through: Pipeline = TWO_PHASES,
) -> Batch:
    """Move by move until it stands in stage `until` (of that phase, or the first to have it). `failing` are
    paths and the error class of their tasks.
    """
    member = await office.members.add_member("walker", "test", "here", now=office.clock.now())
    while not batch.ended and not (batch.position.stage is until and phase_no in {0, batch.position.phase}):
        batch = await _step(office, batch, names, failing or {}, member.no, cost, through)
    return batch


async def _step(
    office: Components,
    batch: Batch,
    names: Sequence[str],
    failing: Mapping[str, str],
    member: int,
    cost: Cost,
    through: Pipeline,
) -> Batch:
    now = office.clock.now()
    match batch.position.stage:
        case Stage.QUEUED:
            return await office.batches.apply_move(moves.begin(batch, now=now))
        case Stage.FILLING:
            files = [file(name) for name in names]
            return await office.batches.apply_move(moves.fill(batch, through, files, complete=True, now=now))
        case Stage.DISCOVERING:
            listed = await office.files.list_files(batch, after=0, limit=MANY)
            return await office.batches.apply_move(
                moves.discover(batch, through, listed, complete=True, now=now)
            )
        case Stage.TRANSFORMING:
            tasks = await office.files.list_settled_tasks(batch, after=0, limit=MANY)
            return await office.batches.apply_move(
                moves.transform(batch, through, tasks, {}, complete=True, now=now)
            )
    claims = await office.tasks.claim_tasks(batch.no, member=member, limit=MANY, now=now)
    assert claims, f"nothing to do in {batch.position}"
    await office.tasks.settle_reports(
        batch.no, [settlement(claim, failing, cost, now) for claim in claims], now=now
    )
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
