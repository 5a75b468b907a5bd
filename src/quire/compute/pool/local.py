"""Local compute: a pool of worker processes on this machine, one per core."""

from collections.abc import Mapping, Sequence

from quire.compute.pool.child import LocalProcess
from quire.compute.pool.memory_budget import limit_workers
from quire.compute.pool.pool import Pool
from quire.compute.pool.worker_handle import WorkerHandle
from quire.model.clock import Clock
from quire.model.signal import Signal


class LocalCompute(Pool):
    def __init__(
        self,
        *,
        command: Sequence[str],
        environment: Mapping[str, str],
        configuration: bytes,
        workers: int,
        clock: Clock,
        signal: Signal,
        memory_mb: int = 0,
        price_per_second: float = 0.0,
    ) -> None:
        """Fewer workers are started when `memory_mb` does not suffice for all of them."""
        super().__init__(
            workers=limit_workers(workers, memory_mb),
            clock=clock,
            signal=signal,
            memory_mb=memory_mb,
            price_per_second=price_per_second,
        )
        self._command = command
        self._environment = environment
        self._configuration = configuration

    async def _start_worker(self) -> WorkerHandle:
        return await WorkerHandle.start(
            await LocalProcess.start(self._command, self._environment), self._configuration, self._clock
        )
