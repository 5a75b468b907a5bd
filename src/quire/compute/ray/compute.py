"""Ray compute: a pool of worker processes on the machines of a Ray cluster.

Each worker runs in an actor, which only passes bytes on; so a step that crashes, hangs or exceeds its
memory is handled as on this machine. A machine that dies takes its workers with it: their current orders
were interrupted, orders that they had not started go to the others, and new workers are started. Results go
from the worker to the blob store, never through Ray. Must not know: settings.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from quire.compute.hosts.handle import HostHandle
from quire.compute.pool.pool import Pool
from quire.compute.pool.worker_handle import WorkerHandle
from quire.compute.ray.remote_process import ActorProcess, RemoteSlot, WorkerSetup, summarize_error
from quire.model.clock import Clock
from quire.model.errors import Misconfigured
from quire.model.signal import Signal
from quire.model.work import Order, StepCall

# Chunks and reports are small; what is large is in the blob store.
OBJECT_STORE_BYTES = 100_000_000
CLOSE_SECONDS = 5.0
REACH_SECONDS = 10.0


class RayOptions(Struct, frozen=True, kw_only=True):
    """`address` of the cluster, empty: start one on this machine; `workers` 0: as many as fit on the cluster.
    `cpus` and `memory_mb` are what Ray reserves for each; `max_out` 0: enough to keep the workers busy.
    """

    address: str = ""
    workers: int = 0
    cpus: float = 1.0
    memory_mb: int = 0
    max_out: int = 0
    price_per_second: float = 0.0  # of a worker, in the operator's currency


class RayCompute(Pool):
    def __init__(
        self,
        *,
        options: RayOptions,
        set_up: Callable[[], WorkerSetup],
        configuration: bytes,
        local_cpus: int,
        clock: Clock,
        signal: Signal,
        resources: Mapping[str, int] | None = None,
    ) -> None:
        """`set_up` is called on the machines of the cluster, which must be able to import it."""
        super().__init__(
            workers=0,
            clock=clock,
            signal=signal,
            price_per_second=options.price_per_second,
            resources=resources,
        )
        self._options = options
        self._set_up = set_up
        self._configuration = configuration
        self._local_cpus = local_cpus
        self._ray: Any = None
        self._is_connected = False  # by this object
        self._can_start = asyncio.Event()  # workers, once there is a cluster
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of a cluster that was started here
        self._slots: list[Any] = []
        self._free: list[Any] = []
        self._free_for_hosts: list[Any] = []

    def start(self) -> None:
        self._track(asyncio.create_task(self._open(), name="worker"))
        self._track(asyncio.create_task(self._watch()))

    def capacity(self, compute: str = "", call: StepCall | None = None) -> int:
        room = super().capacity(compute, call)
        return max(0, min(room, self._options.max_out - self._out())) if self._options.max_out else room

    async def stop(self, grace_seconds: float) -> list[Order]:
        unstarted = await super().stop(grace_seconds)
        slots, self._slots = self._slots, []
        if slots:
            closing = [asyncio.ensure_future(self._close(slot)) for slot in slots]
            await asyncio.wait(closing, timeout=CLOSE_SECONDS)
            for slot in slots:
                self._ray.kill(slot)
        await asyncio.to_thread(self._disconnect)
        return unstarted

    async def _open(self) -> None:
        """Connect, then start the workers; `take_reports` raises what prevents it."""
        workers = await asyncio.to_thread(self._connect)
        self._workers = workers
        self._can_start.set()
        for _ in range(workers):
            self._track(asyncio.create_task(self._start_one(), name="worker"))
        self._signal.set()

    async def _start_worker(self) -> WorkerHandle:
        process = await self._start_process(self._free, self._options.cpus)
        return await WorkerHandle.start(process, self._configuration, self._clock)

    async def _start_host(self, is_alone: bool) -> HostHandle:
        (await self._unless_stopping(self._can_start.wait())).cancel()
        if not self._can_start.is_set():
            raise Misconfigured("stopped before there was a Ray cluster")
        # Coroutines mostly wait: a host must not wait for a processor that the workers have.
        process = await self._start_process(self._free_for_hosts, 0.0)
        return await HostHandle.start(process, self._configuration, self._clock, is_alone=is_alone)

    async def _start_process(self, free: list[Any], cpus: float) -> ActorProcess:
        """Start a process in a free slot, or in a new one for which Ray reserves so many processors."""
        slot = free.pop() if free else await asyncio.to_thread(self._create_slot, cpus)
        # A full cluster may not have a place for hours.
        started = await self._unless_stopping(slot.start.remote())
        if not started.done():
            started.cancel()
            self._drop_slot(slot)
            raise Misconfigured("stopped before the Ray cluster had a place for a worker")
        try:
            pid, name = started.result()
        except self._ray.exceptions.RayError as error:
            self._drop_slot(slot)
            raise Misconfigured(
                f"Ray could not start a worker: {summarize_error(error)}; is the same quire installed on all "
                "machines of the cluster?"
            ) from error
        if not pid:
            free.append(slot)
            raise Misconfigured(f"Ray could not start a worker: {name}")

        def release(slot: Any, usable: bool) -> None:
            if usable:
                free.append(slot)
            else:
                self._drop_slot(slot)

        return ActorProcess(slot, pid, name, lost=self._ray.exceptions.RayError, on_end=release)

    async def _unless_stopping(self, work: Awaitable[Any]) -> "asyncio.Future[Any]":
        """The work when it has ended, or when the pool stops before."""
        ending, stopping = asyncio.ensure_future(work), asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        return ending

    def _drop_slot(self, slot: Any) -> None:
        if slot in self._slots:
            self._slots.remove(slot)
            self._ray.kill(slot)

    async def _close(self, slot: Any) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            await slot.close.remote()

    def _create_slot(self, cpus: float) -> Any:
        chosen = self._options
        options: dict[str, Any] = {"num_cpus": cpus, "scheduling_strategy": "SPREAD"}
        if chosen.memory_mb:
            options["memory"] = chosen.memory_mb << 20
        slot = self._ray.remote(RemoteSlot).options(**options).remote(self._set_up)
        self._slots.append(slot)
        return slot

    def _connect(self) -> int:
        """Connect; the number of workers to start. Raises Misconfigured. Blocks, so it is called in a thread;
        there Ray leaves the signal handlers of the process alone, too.
        """
        options = self._options
        _prepare_environment(alone=not options.address)
        ray = self._ray = _import_ray()
        if not ray.is_initialized():
            if options.address:
                _check_reachable(options.address)
            try:
                ray.init(**self._init_arguments())
            except Exception as error:
                which = options.address or "on this machine"
                raise Misconfigured(
                    f"the Ray cluster {which} cannot be used: {summarize_error(error)}; look at ray.address, "
                    "and whether this machine is a node of it (`ray status`)"
                ) from error
            self._is_connected = True
        fitting = sum(_count_fitting(node["Resources"], options) for node in ray.nodes() if node["Alive"])
        if not fitting:
            raise Misconfigured(
                f"no machine of the Ray cluster has {options.cpus:g} processors and {options.memory_mb} MB "
                "for one worker; lower ray.cpus and ray.memory_mb"
            )
        return options.workers or fitting

    def _disconnect(self) -> None:
        if self._is_connected:
            self._is_connected = False
            self._ray.shutdown()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _init_arguments(self) -> dict[str, Any]:
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "include_dashboard": None}
        if self._options.address:
            return quiet | {"address": self._options.address}
        self._folder = tempfile.TemporaryDirectory(prefix="quire-cluster-", ignore_cleanup_errors=True)
        wanted = self._options.workers * self._options.cpus or self._local_cpus
        return quiet | {
            "address": "local",
            "num_cpus": max(1, round(wanted)),
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "_node_ip_address": "127.0.0.1",
            # For its logs and sockets, which Ray would put where all users can read them.
            "_temp_dir": self._folder.name,
        }


def _prepare_environment(*, alone: bool) -> None:
    """Ray reads these variables when it is imported. Variables that are set already stay."""
    variables = {"RAY_USAGE_STATS_ENABLED": "0"}
    if alone:
        # On loopback; other users of this machine, who could run anything through Ray, do not know the token.
        variables |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
        variables["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    for name, value in variables.items():
        os.environ.setdefault(name, value)  # noqa: TID251 sets variables for Ray, reads no settings


def _check_reachable(address: str) -> None:
    """Ray itself would try for many minutes and cannot be interrupted. Raises Misconfigured."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise Misconfigured(f"ray.address must be host:port of a Ray cluster, not {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise Misconfigured(
            f"no Ray cluster answers at {address}: {error}; correct ray.address, or start it (`ray start`)"
        ) from error


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise Misconfigured(
            "a phase is to run on Ray, which is not installed: pip install 'quire[ray]'"
        ) from error
    logging.getLogger("ray").setLevel(logging.ERROR)
    return ray


def _count_fitting(resources: dict[str, float], options: RayOptions) -> int:
    """How many workers fit on one machine."""
    by_cpus = resources.get("CPU", 0.0) / options.cpus
    by_memory = resources.get("memory", 0.0) / (options.memory_mb << 20) if options.memory_mb else by_cpus
    return int(min(by_cpus, by_memory))
