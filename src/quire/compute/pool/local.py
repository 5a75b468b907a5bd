"""Local compute: a pool of worker processes on this machine, one per core, and a host for coroutines."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from quire.compute.hosts.handle import HostHandle
from quire.compute.pool.child import LocalProcess
from quire.compute.pool.memory_budget import limit_workers
from quire.compute.pool.pool import Pool
from quire.compute.pool.worker_handle import OnProgress, WorkerHandle
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
        on_progress: OnProgress | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
        folder: Path | None = None,
        resources: Mapping[str, int] | None = None,
    ) -> None:
        """Fewer workers are started when `memory_mb` does not suffice for all of them. `on_stderr` is called
        with each piece of what they write to their standard error; they work in `folder`, if it is given.
        """
        super().__init__(
            workers=limit_workers(workers, memory_mb),
            clock=clock,
            signal=signal,
            memory_mb=memory_mb,
            price_per_second=price_per_second,
            on_progress=on_progress,
            resources=resources,
        )
        self._command = command
        self._on_stderr = on_stderr
        self._folder = folder
        self._environment = environment
        self._configuration = configuration

    async def _start_worker(self) -> WorkerHandle:
        return await WorkerHandle.start(await self._start_process(), self._configuration, self._clock)

    async def _start_host(self, is_alone: bool) -> HostHandle:
        process = await self._start_process()
        return await HostHandle.start(process, self._configuration, self._clock, is_alone=is_alone)

    async def _start_process(self) -> LocalProcess:
        return await LocalProcess.start(
            self._command, self._environment, folder=self._folder, on_stderr=self._on_stderr
        )
