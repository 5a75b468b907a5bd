"""The processes of a simulated house: conductors and foremen on their wheels, and an operator."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import Struct

from quire.engine.dispatcher import Dispatcher
from quire.engine.loop import EngineLoop
from quire.engine.membership import IsGone, Membership
from quire.engine.outbox import Outbox
from quire.engine.retry import PhasePolicy, RetryPolicy
from quire.engine.scheduler import Scheduler
from quire.engine.sharing import Shares
from quire.ledger.port import OperatorAction, TaskSelection
from quire.model.batch import Batch, Stage
from quire.model.clock import Clock
from quire.model.errors import Missing, Retry, Stale, Unavailable
from quire.model.plan import Plan, decode_plan
from tests.simulation.shared.compute import SimCompute
from tests.simulation.shared.kernel import Kernel, SimIds, SimProcess, SimSignal, pause

BEAT_SECONDS = 2.0
STALE_SECONDS = 8.0
POLICY = RetryPolicy(first_delay_seconds=0.2, longest_delay_seconds=2.0)


class Outside(Struct, frozen=True, kw_only=True):
    """What a process reaches through its doors."""

    ledger: Any
    queues: Any
    blobs: Any
    clock: Clock
    ids: SimIds
    pipelines: dict[str, Plan]


class House:
    """One life of one process. `conducts`, `works`: which of conductor and foreman it has."""

    def __init__(
        self,
        name: str,
        outside: Outside,
        signal: SimSignal,
        compute: SimCompute,
        *,
        conducts: bool,
        works: bool,
        gone: IsGone,
    ) -> None:
        self.name = name
        self.compute = compute
        self.works = works
        self.conducts = conducts
        self.stopping = False
        self.process: SimProcess | None = None
        clock = outside.clock
        conductor = Scheduler(
            batches=outside.ledger,
            flow=outside.ledger,
            blobs=outside.blobs,
            outbox=Outbox(
                outside.ledger,
                outside.ledger,
                outside.ledger,
                outside.ledger,
                outside.queues,
                outside.blobs,
                clock,
            ),
            pipelines=outside.pipelines,
            clock=clock,
            policy=PhasePolicy(),
        )
        foreman = Dispatcher(
            batches=outside.ledger,
            tasks=outside.ledger,
            flow=outside.ledger,
            blobs=outside.blobs,
            compute=compute,
            pipelines=outside.pipelines,
            clock=clock,
            ids=outside.ids,
            policy=POLICY,
            shares=Shares(),
        )
        self.wheel = EngineLoop(
            batches=outside.ledger,
            tasks=outside.ledger,
            flow=outside.ledger,
            membership=Membership(
                outside.ledger,
                clock,
                name=name,
                kind="simulated",
                place="here",
                is_gone=gone,
                beat_seconds=BEAT_SECONDS,
                stale_seconds=STALE_SECONDS,
            ),
            scheduler=conductor if conducts else None,
            dispatcher=foreman if works else None,
            clock=clock,
            signal=signal,
        )

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.alive

    async def life(self) -> None:
        try:
            await self.wheel.run()
            await self.wheel.shut_down(1.0)
        except Unavailable:
            # On its way out it does not wait for the ledger; others find what it leaves behind.
            if not self.stopping:
                raise

    def stop(self) -> None:
        """Like SIGTERM."""
        self.stopping = True
        self.wheel.stop()


async def operator(
    ids: list[str], outside: Outside, kernel: Kernel, per_second: float, active: Callable[[], bool]
) -> None:
    """Does anything at any moment; what makes no sense is refused."""
    chance = kernel.chance
    names = (
        "pause",
        "resume",
        "resume",
        "cancel",
        "reopen",
        "reopen",
        "reset",
        "prioritise",
        "again",
        "again",
        "some again",
    )
    while active():
        await pause(kernel, chance.expovariate(per_second))
        with suppress(Stale, Missing, Retry):
            await intervene(outside, chance.choice(ids), chance.choice(names), tier=chance.randint(1, 5))


async def intervene(outside: Outside, batch_id: str, name: str, *, tier: int = 3) -> None:
    batch = await outside.ledger.get_batch(batch_id)
    act = OperatorAction(actor="operator", reason=f"simulated {name}", now=outside.clock.now())
    match name:
        case "again":
            await _retry(outside, batch, TaskSelection(), act)
        case "some again":
            failed = await outside.ledger.list_failed_tasks(batch.no, limit=tier)
            if failed:
                one = failed[-1]
                chosen = {"error_class": one.error_class} if tier % 2 else {"path": one.path}
                await _retry(outside, batch, TaskSelection(**chosen), act)
        case "reopen":
            plan = decode_plan(batch.plan)
            status = plan.phases[max(1, batch.position.phase) - 1].name
            await outside.ledger.reopen(batch.no, act, status=status)
        case "prioritise":
            await outside.ledger.set_priority(batch.no, tier, act)
        case _:
            await getattr(outside.ledger, name)(batch.no, act)


async def _retry(outside: Outside, batch: Batch, selection: TaskSelection, act: OperatorAction) -> None:
    """A new round of an ended batch, when something of it has failed."""
    if batch.position.stage is not Stage.DONE:
        return
    chosen = await outside.ledger.preview_retry(batch.no, selection)
    if not chosen.failed:
        return
    plan = decode_plan(batch.plan)
    names = [phase.name for phase in plan.phases]
    waiting = [number for number, phase in enumerate(plan.phases, start=1) if phase.waits]
    await outside.ledger.retry_flow(batch, selection, act, waiting=waiting, names=names)
