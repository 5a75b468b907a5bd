"""Local compute: a pool of worker processes on this machine, one per core."""

from collections.abc import Mapping, Sequence

from quire.compute.pool.child import Child
from quire.compute.pool.memory_budget import crew_size
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
        greeting: bytes,
        workers: int,
        clock: Clock,
        signal: Signal,
        memory_mb: int = 0,
        price_per_second: float = 0.0,
    ) -> None:
        """Fewer workers than wanted are hired when `memory_mb` has no room for so many."""
        super().__init__(
            workers=crew_size(workers, memory_mb),
            clock=clock,
            signal=signal,
            memory_mb=memory_mb,
            price_per_second=price_per_second,
        )
        self._command = command
        self._environment = environment
        self._greeting = greeting

    async def _hire(self) -> WorkerHandle:
        return await WorkerHandle.hire(
            await Child.start(self._command, self._environment), self._greeting, self._clock
        )
