"""The worker processes of this machine: started by an engine, or before there is one, while the ledger is
opened and the first folder is listed.
"""

from pathlib import Path
from typing import NamedTuple

from quire.assembly.blobs import encode_worker_configuration
from quire.assembly.machine import usable_memory_mb
from quire.assembly.member_pipelines import MemberPipelines
from quire.assembly.resource_limits import SharedLimits
from quire.assembly.worker import WORKER_COMMAND
from quire.compute.pool.local import LocalCompute
from quire.model.clock import Clock
from quire.model.pipelines import Pipelines, list_computes
from quire.settings import Settings, worker_environment
from quire.system import LoopSignal
from quire.tools.sandbox import check_mode
from quire.tools.vips import WORKER_ENVIRONMENT

LOCAL = frozenset({"", "local"})  # how phases name the workers of this machine


class StartedWorkers(NamedTuple):
    """Workers, with the signal that they set and the limits that they keep to."""

    compute: LocalCompute
    signal: LoopSignal
    limits: SharedLimits


class LocalWorkers:
    """Starts the workers of one process. Whoever starts them has to stop them."""

    def __init__(
        self,
        settings: Settings,
        pipelines: Pipelines,
        step_modules: tuple[str, ...],
        scratch: Path,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._pipelines = pipelines
        self._step_modules = step_modules
        self._scratch = scratch
        self._clock = clock
        self._ahead: StartedWorkers | None = None

    def encode_configuration(self) -> bytes:
        """What a worker is told when it starts, here or elsewhere."""
        known = self._pipelines
        own = known.for_workers() if isinstance(known, MemberPipelines) else ()
        return encode_worker_configuration(self._settings, self._step_modules, self._scratch, own)

    def find_terms(self) -> tuple[LoopSignal, SharedLimits]:
        """What the next workers set when they have something to say, and the limits that they keep to."""
        if self._ahead is not None:
            return self._ahead.signal, self._ahead.limits
        return LoopSignal(), SharedLimits(self._settings.resources)

    def start_ahead(self) -> None:
        """Start as many as the settings say, for the first engine that asks for as many."""
        if self._settings.worker_count and list_computes(self._pipelines) & LOCAL:
            signal, limits = self.find_terms()
            compute = self.start(self._settings.worker_count, signal, limits)
            self._ahead = StartedWorkers(compute, signal, limits)

    def start(self, workers: int, signal: LoopSignal, limits: SharedLimits) -> LocalCompute:
        """Those that were started ahead, if they were asked for their terms and there are as many."""
        ahead = self._ahead
        if ahead is not None and ahead.signal is signal and workers == self._settings.worker_count:
            self._ahead = None
            return ahead.compute
        check_mode(self._settings.sandbox)
        compute = LocalCompute(
            command=WORKER_COMMAND,
            environment=worker_environment() | WORKER_ENVIRONMENT,
            configuration=self.encode_configuration(),
            workers=workers,
            clock=self._clock,
            signal=signal,
            memory_mb=self._settings.local.memory_mb or usable_memory_mb(),
            price_per_second=self._settings.local.price_per_second,
            resources=limits,
        )
        compute.start()
        return compute

    async def stop_ahead(self) -> None:
        """Stop those that no engine has asked for."""
        if self._ahead is not None:
            await self._ahead.compute.stop(0)
