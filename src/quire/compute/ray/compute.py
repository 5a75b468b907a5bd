"""Ray compute: a pool of worker processes on the machines of a Ray cluster.

Each worker lives in an actor, which only passes on its bytes; so a step that crashes, hangs or eats its
memory is judged as on this machine. A machine that dies takes its workers with it: the orders they were on
have crashed, what they had not started goes to the others, and other workers are asked for. The step's
results go from there to the blob store, never through Ray. Must not know: settings.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import tempfile
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from quire.compute.pool.pool import Pool
from quire.compute.pool.worker_handle import WorkerHandle
from quire.compute.ray.remote_process import (
    FarChild,
    Outfit,
    RemoteSlot,
    in_short,
)
from quire.model.clock import Clock
from quire.model.errors import Misconfigured
from quire.model.signal import Signal
from quire.model.work import Order

# Chunks and reports are small; what is large is in the blob store.
OBJECT_STORE_BYTES = 100_000_000
CLOSE_SECONDS = 5.0
REACH_SECONDS = 10.0


class Terms(Struct, frozen=True, kw_only=True):
    """`address` of the cluster, empty: start one on this machine; `workers` 0: as many as fit on the cluster.
    `cpus` and `memory_mb` are what Ray sets aside for each; `max_out` 0: what keeps the workers busy.
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
        terms: Terms,
        fit_out: Callable[[], Outfit],
        greeting: bytes,
        local_cpus: int,
        clock: Clock,
        signal: Signal,
    ) -> None:
        """`fit_out` is called on the machines of the cluster; it must be known there by its name."""
        super().__init__(workers=0, clock=clock, signal=signal, price_per_second=terms.price_per_second)
        self._terms = terms
        self._fit_out = fit_out
        self._greeting = greeting
        self._local_cpus = local_cpus
        self._ray: Any = None
        self._ours = False  # the connection to the cluster
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of a cluster that is ours
        self._berths: list[Any] = []
        self._free: list[Any] = []

    def start(self) -> None:
        self._keep(asyncio.create_task(self._open(), name="minder"))
        self._keep(asyncio.create_task(self._watch()))

    def room(self, compute: str = "") -> int:
        room = super().room(compute)
        return max(0, min(room, self._terms.max_out - self._out())) if self._terms.max_out else room

    async def stop(self, grace_seconds: float) -> list[Order]:
        unstarted = await super().stop(grace_seconds)
        berths, self._berths = self._berths, []
        if berths:
            closing = [asyncio.ensure_future(self._close(berth)) for berth in berths]
            await asyncio.wait(closing, timeout=CLOSE_SECONDS)
            for berth in berths:
                self._ray.kill(berth)
        await asyncio.to_thread(self._disconnect)
        return unstarted

    async def _open(self) -> None:
        """Connect, then hire; what stands in the way is raised by `reports`."""
        workers = await asyncio.to_thread(self._connect)
        self._workers = workers
        for _ in range(workers):
            self._keep(asyncio.create_task(self._hire_one(), name="minder"))
        self._signal.set()

    async def _hire(self) -> WorkerHandle:
        berth = self._free.pop() if self._free else await asyncio.to_thread(self._build)
        started = asyncio.ensure_future(berth.start.remote())
        stopping = asyncio.ensure_future(self._stopping.wait())
        # A full cluster may leave us waiting for hours.
        await asyncio.wait({started, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not started.done():
            started.cancel()
            self._back(berth, usable=False)
            raise Misconfigured("stopped before the Ray cluster had a place for a worker")
        try:
            pid, name = started.result()
        except self._ray.exceptions.RayError as error:
            self._back(berth, usable=False)
            raise Misconfigured(
                f"Ray could not start a worker: {in_short(error)}; is the same quire installed on all "
                "machines of the cluster?"
            ) from error
        if not pid:
            self._back(berth, usable=True)
            raise Misconfigured(f"Ray could not start a worker: {name}")
        child = FarChild(berth, pid, name, lost=self._ray.exceptions.RayError, back=self._back)
        return await WorkerHandle.hire(child, self._greeting, self._clock)

    def _back(self, berth: Any, usable: bool) -> None:
        if usable:
            self._free.append(berth)
        elif berth in self._berths:
            self._berths.remove(berth)
            self._ray.kill(berth)

    async def _close(self, berth: Any) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            await berth.close.remote()

    def _build(self) -> Any:
        terms = self._terms
        options: dict[str, Any] = {"num_cpus": terms.cpus, "scheduling_strategy": "SPREAD"}
        if terms.memory_mb:
            options["memory"] = terms.memory_mb << 20
        berth = self._ray.remote(RemoteSlot).options(**options).remote(self._fit_out)
        self._berths.append(berth)
        return berth

    def _connect(self) -> int:
        """How many workers to hire. Raises Misconfigured. Waits, so it is called in a thread; there Ray
        leaves the process's signals alone, too.
        """
        terms = self._terms
        _prepare_environment(alone=not terms.address)
        ray = self._ray = _ray()
        if not ray.is_initialized():
            if terms.address:
                _reach(terms.address)
            try:
                ray.init(**self._init())
            except Exception as error:
                which = terms.address or "on this machine"
                raise Misconfigured(
                    f"the Ray cluster {which} cannot be used: {in_short(error)}; look at ray.address, and "
                    "whether this machine is a node of it (`ray status`)"
                ) from error
            self._ours = True
        fitting = sum(_fitting(node["Resources"], terms) for node in ray.nodes() if node["Alive"])
        if not fitting:
            raise Misconfigured(
                f"no machine of the Ray cluster has {terms.cpus:g} processors and {terms.memory_mb} MB for "
                "one worker; lower ray.cpus and ray.memory_mb"
            )
        return terms.workers or fitting

    def _disconnect(self) -> None:
        if self._ours:
            self._ours = False
            self._ray.shutdown()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _init(self) -> dict[str, Any]:
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "include_dashboard": None}
        if self._terms.address:
            return quiet | {"address": self._terms.address}
        self._folder = tempfile.TemporaryDirectory(prefix="quire-cluster-", ignore_cleanup_errors=True)
        wanted = self._terms.workers * self._terms.cpus or self._local_cpus
        return quiet | {
            "address": "local",
            "num_cpus": max(1, round(wanted)),
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "_node_ip_address": "127.0.0.1",
            # Its logs and sockets, which it would leave where everybody can read them.
            "_temp_dir": self._folder.name,
        }


def _prepare_environment(*, alone: bool) -> None:
    """Ray is told these by variables alone, when it is imported. What somebody has set stays."""
    told = {"RAY_USAGE_STATS_ENABLED": "0"}
    if alone:
        # On loopback; and others on this machine, who could run anything as us, do not know the token.
        told |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
        told["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    for name, value in told.items():
        os.environ.setdefault(name, value)  # noqa: TID251 not to read settings, but to give Ray its own


def _reach(address: str) -> None:
    """Ray itself tries for many minutes, and cannot be interrupted. Raises Misconfigured."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise Misconfigured(f"ray.address must be host:port of a Ray cluster, not {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise Misconfigured(
            f"no Ray cluster answers at {address}: {error}; correct ray.address, or start it (`ray start`)"
        ) from error


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise Misconfigured(
            "a phase is to run on Ray, which is not installed: pip install 'quire[ray]'"
        ) from error
    logging.getLogger("ray").setLevel(logging.ERROR)
    return ray


def _fitting(resources: dict[str, float], terms: Terms) -> int:
    """How many workers one machine takes."""
    by_cpus = resources.get("CPU", 0.0) / terms.cpus
    by_memory = resources.get("memory", 0.0) / (terms.memory_mb << 20) if terms.memory_mb else by_cpus
    return int(min(by_cpus, by_memory))
