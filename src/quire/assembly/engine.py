"""The engine from settings: the components of a process that moves batches and runs their tasks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path

from quire.assembly.blobs import open_blobs
from quire.assembly.components import Components, EngineComponents, build_components, field_values
from quire.assembly.ledger import Listen, Stores, open_stores
from quire.assembly.left_alone import Notice, watching_batches
from quire.assembly.local_workers import LOCAL, LocalWorkers
from quire.assembly.member_pipelines import MemberPipelines, find_own_pipelines
from quire.assembly.pipelines import build_phase_policy, build_retry_policy, build_shares
from quire.assembly.presence import HomeMember, join_home, lock_request
from quire.assembly.queues import queue_policies
from quire.assembly.redis_lists import elsewhere
from quire.assembly.resource_limits import SharedLimits
from quire.assembly.secrets import TokenIssuer
from quire.assembly.worker_steps import STEP_MODULES
from quire.blobs.local import LocalBlobs
from quire.blobs.port import Blobs
from quire.blobs.probe import probe
from quire.compute.router import ComputeRouter
from quire.engine.dispatcher import Dispatcher
from quire.engine.loop import EngineLoop
from quire.engine.membership import WITHOUT_TASKS, Membership
from quire.engine.outbox import Outbox
from quire.engine.scheduler import Scheduler
from quire.model.clock import Clock
from quire.model.errors import Misconfigured
from quire.model.ids import Ids
from quire.model.pipelines import Pipelines, list_computes, may_wait_for_answers, to_pipelines
from quire.model.plan import Plan
from quire.model.signal import Signal
from quire.model.work import Compute
from quire.settings import Settings
from quire.system import LoopSignal, SystemClock, SystemIds
from quire.tools.shares import this_machine

LEFTOVERS_AFTER_SECONDS = 3600.0

Trouble = Callable[[str | None], None]
# Starts computes beside the local one, by name; the folder is for files in the making.
StartRemote = Callable[[Components, Signal, Path], Mapping[str, Compute]]


@asynccontextmanager
async def open_engine(
    settings: Settings,
    *,
    pipelines: Mapping[str, Plan] | None = None,
    step_modules: tuple[str, ...] = STEP_MODULES,
    kind: str = "run",
    trouble: Trouble = lambda _: None,
    notice: Notice | None = None,
    start_remote: StartRemote | None = None,
    starts_ahead: bool = False,
) -> AsyncIterator[EngineComponents]:
    """Components with an engine. `trouble` is called with a reason when the ledger is away, and with None
    when it is back. `notice` is told once of every pipeline whose batches are left alone here, or whose code
    has changed; None: the process works only on a batch of its own. `start_remote` starts the computes whose
    workers call back. `starts_ahead`: the workers start at once, for an engine that will be started for sure.
    Raises Misconfigured when a pipeline of the settings cannot be loaded.
    """
    clock, ids = SystemClock(), SystemIds()
    known = find_own_pipelines(settings) if pipelines is None else to_pipelines(pipelines)
    this_machine().stall_seconds = settings.input_stall_seconds
    known.every()  # before anything starts: a pipeline that cannot be loaded is found here
    with join_home(settings.home, ids.ulid()) as presence:
        workers = LocalWorkers(settings, known, step_modules, presence.scratch, clock)
        if starts_ahead:
            workers.start_ahead()
        try:
            async with _open_stores(settings, clock, ids) as (blobs, stores):
                components = build_components(settings, stores, blobs, clock, ids, known)
                starter = EngineStarter(
                    settings,
                    components,
                    stores.listen,
                    presence,
                    workers,
                    kind,
                    trouble,
                    notice,
                    start_remote,
                )
                yield EngineComponents(
                    **field_values(components) | {"warnings": components.warnings + _list_warnings(known)},
                    start_engine=starter.start,
                    claim_request=partial(lock_request, settings.home),
                )
        finally:
            await workers.stop_ahead()


@asynccontextmanager
async def _open_stores(settings: Settings, clock: Clock, ids: Ids) -> AsyncIterator[tuple[Blobs, Stores]]:
    """Blobs and ledger: the blobs are tested while the ledger is opened."""
    blobs = open_blobs(settings)
    checking = asyncio.create_task(_check_blobs(blobs, clock, ids))
    try:
        async with open_stores(settings, ids, thorough=True) as stores:
            await checking
            yield blobs, stores
    finally:
        checking.cancel()
        await asyncio.wait({checking})
        await blobs.close()


async def _check_blobs(blobs: Blobs, clock: Clock, ids: Ids) -> None:
    # Every start: the folder may lie on a network file system whose locks and links do not hold.
    await probe(blobs, ids)
    if isinstance(blobs, LocalBlobs):
        await blobs.sweep(LEFTOVERS_AFTER_SECONDS, clock.now())


class EngineStarter:
    """Starts an engine loop: with workers, with a scheduler, or with both."""

    def __init__(
        self,
        settings: Settings,
        components: Components,
        listen: Listen,
        presence: HomeMember,
        workers: LocalWorkers,
        kind: str,
        trouble: Trouble,
        notice: Notice | None,
        start_remote: StartRemote | None,
    ) -> None:
        self._settings = settings
        self._components = components
        self._listen = listen
        self._presence = presence
        self._workers = workers
        self._kind = kind
        self._trouble = trouble
        self._notice = notice
        self._start_remote = start_remote

    @asynccontextmanager
    async def start(self, *, schedules: bool = True, workers: int | None = None) -> AsyncIterator[EngineLoop]:
        components, settings = self._components, self._settings
        count = settings.worker_count if workers is None else workers
        signal, limits = self._workers.find_terms()
        # On one machine a lock shows which processes live; elsewhere only heartbeats do.
        embedded = settings.ledger == "sqlite"
        membership = Membership(
            components.members,
            components.clock,
            name=self._presence.name,
            kind=self._kind if count else WITHOUT_TASKS,
            place=self._presence.place,
            beat_seconds=settings.crew.beat_seconds,
            stale_seconds=settings.crew.stale_seconds,
            **({"is_gone": self._presence.is_gone} if embedded else {}),
        )
        limits.count_members = lambda: membership.live_count
        compute = self._start_computes(count, signal, limits, schedules=schedules)
        loop = EngineLoop(
            batches=components.batches,
            tasks=components.tasks,
            flow=components.flow,
            membership=membership,
            scheduler=self._build_scheduler() if schedules else None,
            dispatcher=self._build_dispatcher(compute) if compute is not None else None,
            clock=components.clock,
            signal=signal,
            policy=build_retry_policy(settings),
            trouble=self._trouble,
        )
        try:
            await self._listen(loop.wake)
            async with (
                self._watch_batches(),
                self._consume_answers(loop, schedules=schedules),
                self._consume_results(loop, schedules=schedules),
            ):
                yield loop
        finally:
            if compute is not None:
                await compute.stop(0)

    def _watch_batches(self) -> AbstractAsyncContextManager[None]:
        if self._notice is None:
            return nullcontext()
        components = self._components
        return watching_batches(components.records, to_pipelines(components.pipelines), self._notice)

    def _consume_answers(self, loop: EngineLoop, *, schedules: bool) -> "AbstractAsyncContextManager[None]":
        """Only where a step may ask somebody outside."""
        if not schedules or not may_wait_for_answers(to_pipelines(self._components.pipelines)):
            return nullcontext()
        from quire.assembly.answers import consuming_answers

        return consuming_answers(self._settings, self._components, loop.wake, self._trouble)

    def _consume_results(self, loop: EngineLoop, *, schedules: bool) -> "AbstractAsyncContextManager[None]":
        """Only where recipes may be imported."""
        if not schedules or "recipe" not in self._components.pipelines:
            return nullcontext()
        from quire.assembly.recipes import build_recipe_context, consuming_results

        context = build_recipe_context(self._settings, self._components, wake=loop.wake)
        return consuming_results(self._settings, self._components, context, self._trouble)

    def _start_computes(
        self, workers: int, signal: LoopSignal, limits: SharedLimits, *, schedules: bool
    ) -> Compute | None:
        """What the phases run on: local workers, other computes, several behind one router, or nothing."""
        used = list_computes(to_pipelines(self._components.pipelines))
        here = used & LOCAL
        away = used - here - {"ray", "queue"}
        if away and workers and self._start_remote is None:
            raise Misconfigured(
                f"steps run on {', '.join(sorted(away))} (compute.tiff, compute.image or `runs_on`): "
                "such workers call back, and only `quire serve` answers; use that, or set local"
            )
        if used == {"queue"} and not schedules:
            raise Misconfigured(
                "all phases run on the queue, so there is nothing for workers of the ledger; run "
                "`quire worker --from-queue`"
            )
        computes: dict[str, Compute] = {}
        if self._start_remote is not None:
            computes |= self._start_remote(self._components, signal, self._presence.scratch)
        if "ray" in used and workers:
            from quire.assembly.ray import start_ray_compute

            clock, scratch = self._components.clock, self._presence.scratch
            computes["ray"] = start_ray_compute(
                self._settings,
                self._workers.encode_configuration(),
                scratch,
                limits,
                clock=clock,
                signal=signal,
            )
        if "queue" in used and schedules:
            from quire.assembly.queue_compute import start_queue_compute

            computes["queue"] = start_queue_compute(
                self._settings, self._components, self._presence.name, signal
            )
        local = self._workers.start(workers, signal, limits) if workers and here else None
        if not computes:
            return local
        return ComputeRouter(computes | (dict.fromkeys(here, local) if local is not None else {}))

    def _build_scheduler(self) -> Scheduler:
        components = self._components
        return Scheduler(
            batches=components.batches,
            flow=components.flow,
            blobs=components.blobs,
            outbox=Outbox(
                components.outbox,
                components.batches,
                components.records,
                components.control,
                components.queues,
                components.blobs,
                components.clock,
                policies=queue_policies(self._settings),
                fraction=components.ids.fraction,
                is_elsewhere=elsewhere(self._settings),
            ),
            pipelines=components.pipelines,
            clock=components.clock,
            policy=build_phase_policy(self._settings),
        )

    def _build_dispatcher(self, compute: Compute) -> Dispatcher:
        components = self._components
        return Dispatcher(
            batches=components.batches,
            tasks=components.tasks,
            flow=components.flow,
            blobs=components.blobs,
            compute=compute,
            pipelines=components.pipelines,
            clock=components.clock,
            ids=components.ids,
            policy=build_retry_policy(self._settings),
            shares=build_shares(self._settings),
            issue_token=TokenIssuer(self._settings),
        )


def _list_warnings(pipelines: Pipelines) -> tuple[str, ...]:
    return pipelines.warnings if isinstance(pipelines, MemberPipelines) else ()
