"""Houses: everything that batches are worked with, under one home folder or on shared servers."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from quire.assembly.blobs import greeting, open_blobs
from quire.assembly.ledger import Books, open_books
from quire.assembly.machine import usable_memory_mb
from quire.assembly.pipelines import budget, build_pipelines, phase_policy, retry_policy, shares
from quire.assembly.presence import Presence, claimed_request, make_home, present
from quire.assembly.queue_compute import hire_on_queue
from quire.assembly.queues import queue_policies
from quire.assembly.worker import WORKER_COMMAND
from quire.batches.context import BatchContext, Defaults, RunContext
from quire.blobs.local import LocalBlobs
from quire.blobs.probe import probe
from quire.compute.pool.local import LocalCompute
from quire.compute.router import ComputeRouter
from quire.engine.dispatcher import Dispatcher
from quire.engine.loop import EngineLoop
from quire.engine.membership import Membership
from quire.engine.outbox import Outbox
from quire.engine.scheduler import Scheduler
from quire.model.errors import Misconfigured
from quire.model.pipeline import Pipeline
from quire.model.signal import Signal
from quire.model.tiers import tier_number
from quire.model.work import Compute
from quire.settings import Settings, worker_environment
from quire.system import LoopSignal, SystemClock, SystemIds
from quire.tools.vips import WORKER_ENVIRONMENT

STEP_MODULES = ("quire.steps.registry",)
LEFTOVERS_AFTER_SECONDS = 3600.0

Trouble = Callable[[str | None], None]
# Hires computes beside the local one, by name; the folder is for what is being made.
Hire = Callable[[BatchContext, Signal, Path], Mapping[str, Compute]]


@asynccontextmanager
async def open_office(
    settings: Settings, *, pipelines: Mapping[str, Pipeline] | None = None
) -> AsyncIterator[BatchContext]:
    """Look at batches and intervene, also while others work on them."""
    make_home(settings.home)
    ids = SystemIds()
    blobs = open_blobs(settings)
    try:
        async with open_books(settings, ids) as books:
            yield BatchContext(
                ledger=books.ledger,
                queues=books.queues,
                warnings=books.warnings,
                blobs=blobs,
                clock=SystemClock(),
                ids=ids,
                pipelines=pipelines if pipelines is not None else build_pipelines(settings),
                defaults=_defaults(settings),
            )
    finally:
        await blobs.close()


@asynccontextmanager
async def open_house(
    settings: Settings,
    *,
    pipelines: Mapping[str, Pipeline] | None = None,
    step_modules: tuple[str, ...] = STEP_MODULES,
    kind: str = "run",
    trouble: Trouble = lambda _: None,
    hire: Hire | None = None,
) -> AsyncIterator[RunContext]:
    """A house with workers. `trouble` is told when the ledger is away, and with None when it is back. `hire`
    brings the computes whose work leaves the process.
    """
    clock, ids = SystemClock(), SystemIds()
    with present(settings.home, ids.ulid()) as presence:
        blobs = open_blobs(settings)
        # Every start: the folder may lie on a network file system whose locks and links do not hold.
        await probe(blobs, ids)
        if isinstance(blobs, LocalBlobs):
            await blobs.sweep(LEFTOVERS_AFTER_SECONDS, clock.now())
        try:
            async with open_books(settings, ids) as books:
                known = pipelines if pipelines is not None else build_pipelines(settings)
                office = BatchContext(
                    ledger=books.ledger,
                    queues=books.queues,
                    warnings=books.warnings,
                    blobs=blobs,
                    clock=clock,
                    ids=ids,
                    pipelines=known,
                    defaults=_defaults(settings),
                )
                wheels = _Wheels(settings, office, books, presence, step_modules, kind, trouble, hire)
                yield RunContext(
                    **msgspec.structs.asdict(office),
                    conducting=wheels.turning,
                    claiming=partial(claimed_request, settings.home),
                )
        finally:
            await blobs.close()


class _Wheels:
    """Builds a wheel when work begins: with workers, with a conductor, or with both."""

    def __init__(
        self,
        settings: Settings,
        office: BatchContext,
        books: Books,
        presence: Presence,
        step_modules: tuple[str, ...],
        kind: str,
        trouble: Trouble,
        hire: Hire | None,
    ) -> None:
        self._settings = settings
        self._office = office
        self._books = books
        self._presence = presence
        self._step_modules = step_modules
        self._kind = kind
        self._trouble = trouble
        self._hire_others = hire

    @asynccontextmanager
    async def turning(
        self, *, conducts: bool = True, workers: int | None = None
    ) -> AsyncIterator[EngineLoop]:
        office, settings, signal = self._office, self._settings, LoopSignal()
        hired = settings.worker_count if workers is None else workers
        compute = self._computes(hired, signal, conducts=conducts)
        # On one machine a lock says who lives; elsewhere only the beats do.
        embedded = settings.ledger == "sqlite"
        roster = Membership(
            office.ledger,
            office.clock,
            name=self._presence.name,
            kind=self._kind,
            place=self._presence.place,
            beat_seconds=settings.crew.beat_seconds,
            stale_seconds=settings.crew.stale_seconds,
            **({"gone": self._presence.gone} if embedded else {}),
        )
        wheel = EngineLoop(
            ledger=office.ledger,
            roster=roster,
            conductor=self._conductor() if conducts else None,
            foreman=self._foreman(compute) if compute is not None else None,
            clock=office.clock,
            signal=signal,
            policy=retry_policy(settings),
            trouble=self._trouble,
        )
        try:
            await self._books.listen(wheel.wake)
            yield wheel
        finally:
            if compute is not None:
                await compute.stop(0)

    def _computes(self, workers: int, signal: LoopSignal, *, conducts: bool) -> Compute | None:
        """What the phases run on: workers of ours, others, several on one switchboard, or nothing."""
        used = {phase.compute for one in self._office.pipelines.values() for phase in one.phases}
        here = used & {"", "local"}
        away = used - here - {"ray", "queue"}
        if away and workers and self._hire_others is None:
            raise Misconfigured(
                f"compute.tiff and compute.image say {', '.join(sorted(away))}: such workers call back, and "
                "only `quire serve` answers; use that, or set both to local"
            )
        if used == {"queue"} and not conducts:
            raise Misconfigured(
                "all phases run on the queue, so there is nothing for workers of the ledger; run "
                "`quire worker --from-queue`"
            )
        hired: dict[str, Compute] = {}
        if self._hire_others is not None:
            hired |= self._hire_others(self._office, signal, self._presence.scratch)
        if "ray" in used and workers:
            from quire.assembly.ray import hire_on_ray

            clock, scratch = self._office.clock, self._presence.scratch
            hired["ray"] = hire_on_ray(self._settings, self._greeting(), scratch, clock=clock, signal=signal)
        if "queue" in used and conducts:
            hired["queue"] = hire_on_queue(self._settings, self._office, self._presence.name, signal)
        local = self._hire(workers, signal) if workers and here else None
        if not hired:
            return local
        return ComputeRouter(hired | (dict.fromkeys(here, local) if local is not None else {}))

    def _hire(self, workers: int, signal: LoopSignal) -> LocalCompute:
        compute = LocalCompute(
            command=WORKER_COMMAND,
            environment=worker_environment() | WORKER_ENVIRONMENT,
            greeting=self._greeting(),
            workers=workers,
            clock=self._office.clock,
            signal=signal,
            memory_mb=self._settings.local.memory_mb or usable_memory_mb(),
            price_per_second=self._settings.local.price_per_second,
        )
        compute.start()
        return compute

    def _greeting(self) -> bytes:
        return greeting(self._settings, self._step_modules, self._presence.scratch)

    def _conductor(self) -> Scheduler:
        office = self._office
        return Scheduler(
            ledger=office.ledger,
            blobs=office.blobs,
            mail=Outbox(
                office.ledger,
                office.queues,
                office.blobs,
                office.clock,
                policies=queue_policies(self._settings),
                fraction=office.ids.fraction,
            ),
            pipelines=office.pipelines,
            clock=office.clock,
            policy=phase_policy(self._settings),
        )

    def _foreman(self, compute: Compute) -> Dispatcher:
        office = self._office
        return Dispatcher(
            ledger=office.ledger,
            blobs=office.blobs,
            compute=compute,
            pipelines=office.pipelines,
            clock=office.clock,
            ids=office.ids,
            policy=retry_policy(self._settings),
            shares=shares(self._settings),
        )


async def probe_store(settings: Settings) -> list[str]:
    """The promises the configured store keeps; raises Misconfigured naming the one it breaks."""
    folders = (*reversed(settings.home.parents), settings.home)
    first_made = next((folder for folder in folders if not folder.exists()), None)
    blobs = open_blobs(settings)
    try:
        return await probe(blobs, SystemIds())
    finally:
        await blobs.close()
        if first_made is not None:
            # Looking must leave no trace: the home is made, for its owner alone, by the first run.
            _remove_empty(first_made)


def _remove_empty(folder: Path) -> None:
    """It and what is in it, as far as it is empty: somebody may have begun to work there meanwhile."""
    for inner, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            Path(inner).rmdir()


def _defaults(settings: Settings) -> Defaults:
    return Defaults(tier=tier_number(settings.priority), tenant=settings.tenant, budget=budget(settings))
