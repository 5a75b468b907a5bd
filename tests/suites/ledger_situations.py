"""Batches in wanted situations on a real ledger, by the engine's own moves: where its suites begin."""

from collections.abc import Collection, Mapping
from typing import Any

from quire.engine import moves
from quire.ledger.port import Claim, OperatorAction, Settlement, UnitContent, Upload
from quire.model.batch import Batch, Stage, TaskState
from quire.model.files import File
from quire.model.pipeline import AddedFile, KeptFile, ListChange, Pipeline, Unit
from quire.model.work import Outcome, StepResult
from quire.testing.factories import draft, file, outbox_message, report
from quire.testing.factories import former_phase as phase
from quire.testing.factories import former_pipeline as pipeline
from tests.suites.ledger_adapter import LedgerAdapter

ME = 1
Fails = Mapping[tuple[str, str], str]  # (status, path) → the error class a task fails with
NO_FAILS: Fails = {}

ONE = pipeline(phase("ONE"))


def adds(suffix: str, *, listed: bool = True) -> Any:
    """The file stays, and one is added beside it."""

    def becomes(one: File, _result: StepResult, _taken: object) -> ListChange:
        made = file(one.path + suffix, content_type="text/plain")
        return ListChange(KeptFile(one.tags), (AddedFile(made, suffix.lstrip("."), listed),))

    return becomes


# Of each input ONE makes another file; TWO makes an asset of all of them.
TWO = pipeline(
    phase("ONE", finds=lambda one: one.path.endswith(".tif"), becomes=adds(".one")),
    phase("TWO", becomes=adds(".two", listed=False)),
)


def _sheet(one: File, _result: StepResult, _taken: object) -> ListChange:
    return ListChange(None, (AddedFile(file(f"{one.path}/sheet.pdf"), "sheet"),))


# Files, then one sheet for each directory, the deepest first.
DIRECTORIES = pipeline(
    phase("ONE"),
    phase(
        "DIRS",
        unit=Unit.DIRECTORY,
        finds=lambda one: one.path.endswith(".tif"),
        rank=lambda one: -one.path.count("/"),
        becomes=_sheet,
    ),
)


def act(now: float = 50.0) -> OperatorAction:
    return OperatorAction(actor="ann", reason="because", now=now)


def done(claim: Claim, **changes: Any) -> Settlement:
    order = claim.order
    told = report(order.task_no, order.attempt, batch_no=order.batch_no, **changes)
    return Settlement(report=told, state=TaskState.DONE)


def erred(
    claim: Claim,
    *,
    due_at: float | None,
    blame: bool = True,
    outcome: Outcome | None = None,
    error_class: str = "busy",
    **changes: Any,
) -> Settlement:
    order = claim.order
    told = report(
        order.task_no,
        order.attempt,
        outcome or (Outcome.ERRED if blame else Outcome.INTERRUPTED),
        batch_no=order.batch_no,
        error_class=error_class,
        error=error_class,
        **changes,
    )
    state = TaskState.FAILED if due_at is None else TaskState.WAITING
    return Settlement(report=told, state=state, due_at=due_at, blame=blame)


async def finalized(
    ledger: LedgerAdapter, paths: Collection[str] = (), batch_id: str = "01B", **drafted: Any
) -> Batch:
    """Closed, its letter in the outbox."""
    batch = await ledger.open_batch(draft(batch_id, **drafted))
    await ledger.record_uploads(batch.no, [Upload(path=path, state="taken", size=10) for path in paths])
    return await ledger.close_batch(
        batch.no, manifest_key="m", total_files=len(paths), message=outbox_message(batch_id), now=2.0
    )


async def filled(
    ledger: LedgerAdapter, paths: Collection[str], plan: Pipeline, batch_id: str = "01B", **drafted: Any
) -> Batch:
    """At the door of its first phase."""
    batch = await finalized(ledger, paths, batch_id, **drafted)
    batch = await ledger.apply_move(moves.begin(batch, now=3.0))
    return await ledger.apply_move(
        moves.fill(batch, plan, [file(path) for path in paths], complete=True, now=4.0)
    )


async def started(
    ledger: LedgerAdapter, files: int = 3, batch_id: str = "01B", plan: Pipeline = ONE, **drafted: Any
) -> Batch:
    """In its first phase with one task per file."""
    paths = [f"d/f{number}.tif" for number in range(files)]
    return await entered(ledger, await filled(ledger, paths, plan, batch_id, **drafted), plan)


async def entered(ledger: LedgerAdapter, batch: Batch, plan: Pipeline) -> Batch:
    """From the door of a phase to its work."""
    while batch.position.stage in {Stage.GATHERING, Stage.DISCOVERING}:
        current = moves.current_phase(batch, plan)
        if batch.position.stage is Stage.GATHERING:
            whole = current.unit is Unit.BATCH
            files = await ledger.list_unit_candidates(batch, whole=whole, after=0, limit=1000)
            known = await ledger.find_units(batch, {moves.unit_path(current, one.file) for one in files})
            move = moves.gather(batch, plan, files, known, complete=True, now=5.0)
        elif current.unit is Unit.FILE:
            files = await ledger.list_files(batch, after=0, limit=1000)
            move = moves.discover(batch, plan, files, complete=True, now=5.0)
        else:
            files = await ledger.list_units(batch, after=0, limit=1000)
            contents = [UnitContent(one.no, f"members/{one.no}", 7, "f" * 64) for one in files]
            move = moves.discover(batch, plan, files, complete=True, now=5.0, contents=contents)
        batch = await ledger.apply_move(move)
    return batch


async def worked(
    ledger: LedgerAdapter, batch: Batch, fails: Fails = NO_FAILS, seen: list[tuple[str, str]] | None = None
) -> Batch:
    """Every task of the phase is tried once; `seen` gets (status, path) in the order of claims."""
    while claims := await ledger.claim_tasks(batch.no, member=ME, limit=1000, now=10.0):
        settlements = []
        for claim in claims:
            name = (batch.status, claim.order.file.path)
            if seen is not None:
                seen.append(name)
            kind = fails.get(name)
            settlements.append(done(claim) if kind is None else erred(claim, due_at=None, error_class=kind))
        await ledger.settle_reports(batch.no, settlements, now=11.0)
    return await ledger.get_batch(batch.id)


async def folded(ledger: LedgerAdapter, batch: Batch, plan: Pipeline) -> Batch:
    """From the end of a phase's work to the door of the next phase, or the end."""
    tasks = await ledger.list_settled_tasks(batch, after=0, limit=1000)
    taken = await ledger.count_paths(batch.no, moves.rival_paths(moves.current_phase(batch, plan), tasks))
    return await ledger.apply_move(moves.transform(batch, plan, tasks, taken, complete=True, now=12.0))


async def walked(
    ledger: LedgerAdapter,
    batch: Batch,
    plan: Pipeline,
    fails: Fails = NO_FAILS,
    seen: list[tuple[str, str]] | None = None,
) -> Batch:
    """To the end."""
    while not batch.ended:
        batch = await entered(ledger, batch, plan)
        if batch.position.stage is Stage.WORKING:
            batch = await worked(ledger, batch, fails, seen)
        batch = await folded(ledger, batch, plan)
    return batch
