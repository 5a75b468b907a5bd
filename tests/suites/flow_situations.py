"""Batches that flow in wanted situations on a real ledger: what their suites begin with, and what must hold
of their tables at any moment.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec import structs

from quire.engine import moves
from quire.ledger.flow_values import (
    Admission,
    Effects,
    Follower,
    JoinPart,
    NewDocument,
    RootFailure,
    phase_of,
)
from quire.ledger.port import Claim, Settlement, TaskSelection
from quire.model.batch import Batch, Stage, TaskState
from quire.model.plan import Plan, PlanPhase, PlanStep
from quire.model.work import Outcome
from quire.testing.factories import file, report
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import ME, act, finalized

Select = Callable[[str], Awaitable[list[tuple[Any, ...]]]]  # runs a query without values

Fails = Mapping[tuple[str, str], str]  # (phase, path) → the error class its task fails with
Makes = Mapping[str, tuple[str, bool]]  # phase → what each of its tasks adds beside its file: suffix, listed
NO_FAILS: Fails = {}
NO_MAKES: Makes = {}

NAMES = ("ONE", "TWO", "THREE")
PLAN = Plan(
    name="plan",
    version=1,
    phases=tuple(
        PlanPhase(name=name, steps=(PlanStep(name=name.lower(), step=f"plan.{name}", version=1),))
        for name in NAMES
    ),
    queue="plan",
)


async def begun(
    ledger: LedgerAdapter,
    files: int = 3,
    *,
    paths: Sequence[str] | None = None,
    phases: Sequence[str] = NAMES,
    waits_at: int | None = None,
    batch_id: str = "01B",
    delays: Sequence[float] = (),
    **drafted: Any,
) -> Batch:
    """Its intake is open and nothing was read yet."""
    batch = await finalized(ledger, paths_of(files) if paths is None else paths, batch_id, **drafted)
    batch = await ledger.apply_move(moves.begin(batch, now=3.0))
    return await ledger.begin_flow(batch, phases=phases, waits_at=waits_at, now=4.0, delays=delays)


def paths_of(files: int) -> list[str]:
    return [f"d/f{number}.tif" for number in range(1, files + 1)]


def first(no: int, branches: tuple[int, ...] = (0,), phase: int = 1) -> Follower:
    return Follower(phase, branches, no, 0)


async def admitted(
    ledger: LedgerAdapter,
    files: int = 3,
    *,
    branches: tuple[int, ...] = (0,),
    paths: Sequence[str] | None = None,
    **options: Any,
) -> Batch:
    """All of its inputs have their tasks in the first phase, and the intake is closed."""
    paths = paths_of(files) if paths is None else paths
    return await admit_all(ledger, await begun(ledger, paths=paths, **options), paths, branches)


async def admit_all(
    ledger: LedgerAdapter, batch: Batch, paths: Sequence[str], branches: tuple[int, ...] = (0,)
) -> Batch:
    """Its inputs get their tasks, and its intake is closed."""
    return await ledger.admit_files(
        batch,
        [Admission(no, file(path), first(no, branches)) for no, path in enumerate(paths, start=1)],
        cursor=len(paths),
        admitted=len(paths),
        admissible=len(paths),
        complete=True,
        now=5.0,
    )


async def claimed(
    ledger: LedgerAdapter, batch: Batch, phase: int = 1, *, limit: int = 100, now: float = 10.0
) -> list[Claim]:
    return await ledger.claim_phase(batch.no, phase, member=ME, limit=limit, now=now)


def effects_of(claim: Claim, **changes: Any) -> Effects:
    place = claim.place
    assert place is not None
    known: dict[str, Any] = {"phase": place.phase, "root_no": place.root_no, "parent_no": place.file_no}
    return Effects(**(known | changes))


def follows(claim: Claim, phase: int | None = None, branches: tuple[int, ...] = (0,)) -> Effects:
    """The document walks on."""
    place = claim.place
    assert place is not None
    tries = place.tries + claim.order.attempt
    follower = Follower(phase or place.phase + 1, branches, place.file_no, tries)
    return effects_of(claim, followers=(follower,), walking=1)


def ends(claim: Claim, **changes: Any) -> Effects:
    """Its walk ends."""
    place = claim.place
    assert place is not None
    return effects_of(claim, **({"tries": place.tries + claim.order.attempt} | changes))


def parts(claim: Claim) -> JoinPart:
    """One of several steps side by side."""
    place = claim.place
    assert place is not None
    return JoinPart(place.phase, place.file_no)


def fails(claim: Claim, place: str = "", error_class: str = "busy") -> RootFailure:
    path = claim.order.file.path
    return RootFailure(place or f"{phase_of(claim.order.task_no):06d}\n{path}\n000000", error_class, "why")


def made(path: str, *, role: str = "page", listed: bool = True, **changes: Any) -> NewDocument:
    return NewDocument(file(path, **changes), role, listed, "made")


def done(claim: Claim, effects: Effects | JoinPart | None = None, **changes: Any) -> Settlement:
    options = {name: changes.pop(name) for name in ("cache_key", "cached") if name in changes}
    order = claim.order
    told = report(order.task_no, order.attempt, batch_no=order.batch_no, **changes)
    told = structs.replace(told, started_at=claim.started_at)
    return Settlement(report=told, state=TaskState.DONE, effects=effects or ends(claim), **options)


def failed(
    claim: Claim,
    effects: Effects | JoinPart | None = None,
    *,
    due_at: float | None = None,
    outcome: Outcome = Outcome.ERRED,
    error_class: str = "busy",
    blame: bool = True,
    **changes: Any,
) -> Settlement:
    """For good, or until it is due again. Without `blame` the attempt was interrupted."""
    order = claim.order
    told = report(
        *(order.task_no, order.attempt, outcome if blame else Outcome.INTERRUPTED),
        batch_no=order.batch_no,
        error_class=error_class,
        error=f"{error_class}!",
        **changes,
    )
    told = structs.replace(told, started_at=claim.started_at)
    if due_at is not None:
        return Settlement(report=told, state=TaskState.WAITING, due_at=due_at, blame=blame)
    effects = effects or ends(claim, failure=fails(claim, error_class=error_class))
    return Settlement(report=told, state=TaskState.FAILED, blame=True, effects=effects)


async def worked(
    ledger: LedgerAdapter,
    batch: Batch,
    failing: Fails = NO_FAILS,
    *,
    makes: Makes = NO_MAKES,
    phases: Sequence[str] = NAMES,
    only: Sequence[str] | None = None,
    seen: list[tuple[str, str]] | None = None,
    now: float = 10.0,
) -> Batch:
    """Every task is tried once, phase after phase (of `only` some of them); what has failed passes. `seen`
    gets (phase, path) in the order of claims.
    """
    for number, name in enumerate(phases, start=1):
        while name in (only or phases) and (claims := await claimed(ledger, batch, number, now=now)):
            told = []
            for claim in claims:
                path = claim.order.file.path
                if seen is not None:
                    seen.append((name, path))
                last, kind = number == len(phases), failing.get((name, path))
                if kind is None:
                    told.append(done(claim, _made_beside(claim, makes.get(name), last=last)))
                else:
                    passes = ends(claim) if last else follows(claim)
                    passes = structs.replace(passes, failure=fails(claim, error_class=kind))
                    told.append(failed(claim, passes, error_class=kind))
            await ledger.settle_flow(batch.no, told, now=now + 1)
    return await ledger.get_batch(batch.id)


async def walked(ledger: LedgerAdapter, batch: Batch, failing: Fails = NO_FAILS, **options: Any) -> Batch:
    """To the end, as `worked` has it."""
    return await finished(ledger, await worked(ledger, batch, failing, **options))


def _made_beside(claim: Claim, making: tuple[str, bool] | None, *, last: bool) -> Effects:
    """The document walks on, and one that is added beside it too, if it is listed."""
    goes_on = ends(claim) if last else follows(claim)
    if making is None:
        return goes_on
    suffix, listed = making
    new = made(claim.order.file.path + suffix, role=suffix.lstrip("."), listed=listed)
    goes_on = structs.replace(goes_on, new_files=(new,))
    if last or not listed:
        return goes_on
    beside = Follower(goes_on.followers[0].phase, (0,), -1, 0)
    return structs.replace(goes_on, followers=(*goes_on.followers, beside), walking=2)


async def retried(
    ledger: LedgerAdapter,
    batch: Batch,
    selection: TaskSelection | None = None,
    *,
    waiting: Sequence[int] = (),
    names: Sequence[str] = NAMES,
) -> Batch:
    """A new round has begun."""
    selection = selection or TaskSelection()
    return await ledger.retry_flow(batch, selection, act(50.0), waiting=waiting, names=names)


async def finished(ledger: LedgerAdapter, batch: Batch, plan: Plan = PLAN) -> Batch:
    """From the end of its last task to its own."""
    batch = await ledger.get_batch(batch.id)
    assert batch.position.stage is Stage.ENDING
    return await ledger.apply_move(moves.end(batch, plan, now=40.0))


async def check_counters(select: Select, batch: Batch) -> None:
    """The counters say what the rows say."""
    flow = await _of_batch(select, batch, "SELECT no, open_tasks, last_file FROM batches")
    states = await _of_batch(select, batch, "SELECT batch_no, phase, state, error_class FROM tasks")
    unresolved = await _of_batch(select, batch, "SELECT batch_no, file_no FROM joins WHERE NOT resolved")
    settled = {"done", "failed", "superseded"}
    assert flow[0][0] == sum(state not in settled for _, state, _ in states) + len(unresolved)
    for phase, total, good, bad in await _of_batch(
        select, batch, "SELECT batch_no, phase, total, done, failed FROM rounds"
    ):
        own = [state for at, state, _ in states if at == phase and state != "superseded"]
        assert (total, good, bad) == (len(own), own.count("done"), own.count("failed"))
    kinds = await _of_batch(
        select, batch, "SELECT batch_no, error_class, tasks FROM failures WHERE tasks <> 0"
    )
    classes = [kind for _, state, kind in states if state == "failed"]
    assert dict(kinds) == {kind: classes.count(kind) for kind in classes}
    numbers = await _of_batch(select, batch, "SELECT batch_no, file_no FROM files")
    assert max((no for (no,) in numbers), default=0) <= flow[0][1]


async def _of_batch(select: Select, batch: Batch, query: str) -> list[tuple[Any, ...]]:
    """The rows whose first column is the batch's number, without it."""
    return [row[1:] for row in await select(query) if row[0] == batch.no]


async def states_of(select: Select, batch: Batch) -> dict[tuple[int, int, int], str]:
    """By phase, file and branch: the states of tasks that count."""
    query = "SELECT batch_no, phase, file_no, branch, state FROM tasks WHERE state <> 'superseded'"
    return {row[:3]: row[3] for row in await _of_batch(select, batch, query)}


async def outcomes(ledger: LedgerAdapter, batch: Batch) -> dict[str, tuple[str, int]]:
    """By path: how the inputs stand, after how many tries."""
    return {
        one.path: (one.outcome.value, one.attempts) for one in await ledger.list_inputs(batch.no, limit=1000)
    }


async def kinds_of(ledger: LedgerAdapter, batch: Batch) -> list[str]:
    return [kind for _, _, kind, _ in await ledger.list_events(batch.no, limit=1000)]


def by_file(claims: Collection[Claim]) -> dict[int, Claim]:
    return {claim.place.file_no: claim for claim in claims if claim.place is not None}
