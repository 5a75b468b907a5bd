"""Workers whose machine dies or cannot be reached, without any machine: nothing waits for them for ever."""

import asyncio
import types

import pytest

from quire.compute.pool import frames
from quire.compute.pool.pool import Pool
from quire.compute.pool.worker_handle import WorkerHandle
from quire.compute.ray.remote_process import ActorProcess
from quire.model.errors import Misconfigured
from quire.model.work import Order, Outcome, StepCall
from quire.system import LoopSignal, SystemClock
from quire.testing.factories import file

PATIENCE_SECONDS = 10


class SilentProcess:
    """Is ready for work and then silent until it is killed."""

    name = "silent"

    def __init__(self):
        self._output = asyncio.Queue()
        self._output.put_nowait(frames.encode_frame(frames.READY, frames.Ready(1)))

    def write(self, data):
        pass

    async def read(self):
        return await self._output.get()

    def kill(self):
        self._output.put_nowait(b"")

    async def wait(self):
        return "its machine is gone"

    def read_stderr(self):
        return ""

    is_lost = False


class FullPool(Pool):
    """Has a place for these processes, and none for a process that is to replace one of them."""

    def __init__(self, *processes, signal):
        super().__init__(workers=len(processes), clock=SystemClock(), signal=signal)
        self._processes = list(processes)

    async def _start_worker(self):
        if self._processes:
            return await WorkerHandle.start(self._processes.pop(), b"", self._clock)
        await self._stopping.wait()
        raise Misconfigured("stopped before there was a place")


async def test_an_order_of_a_lost_worker_goes_to_an_idle_one_though_no_new_one_can_be_started():
    signal = LoopSignal()
    pool = FullPool(SilentProcess(), SilentProcess(), signal=signal)
    pool.start()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(pool._handles) < 2:
            await signal.wait()
        await pool.submit(StepCall(step="noop", version=1), [Order(1, 1, 1, file("a.tif"))])
        lost, idle = sorted(pool._handles, key=lambda handle: -handle.orders_out)
        assert (lost.orders_out, idle.orders_out) == (1, 0)
        lost.kill()
        while lost in pool._handles:
            await signal.wait()
        assert [order.task_no for _, order in idle.unstarted] == [1]
        assert [order.task_no for order in await pool.stop(0)] == [1]


class EndingProcess(SilentProcess):
    """Begins its first order, and is gone."""

    def __init__(self, is_lost):
        super().__init__()
        self.is_lost = is_lost

    def write(self, data):
        if any(kind == frames.CHUNK for kind, _ in frames.FrameDecoder().feed(data)):
            self._output.put_nowait(frames.encode_frame(frames.STARTED))
            self.kill()


@pytest.mark.parametrize(("is_lost", "outcome"), [(True, Outcome.INTERRUPTED), (False, Outcome.CRASHED)])
async def test_a_step_is_not_blamed_for_the_loss_of_its_machine(is_lost, outcome):
    signal = LoopSignal()
    pool = FullPool(EndingProcess(is_lost), signal=signal)
    pool.start()
    reports = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not pool.capacity():
            await signal.wait()
        await pool.submit(StepCall(step="noop", version=1), [Order(1, 1, 1, file("a.tif"))])
        while not reports:
            await signal.wait()
            reports += pool.take_reports()
        await pool.stop(0)
    assert [report.outcome for report in reports] == [outcome]


class UnavailableError(Exception):
    pass


class UnreachableSlot:
    """An actor that cannot be reached by calls of one name, while others wait for its process."""

    def __init__(self, unreachable):
        self._unreachable = unreachable
        self.called = asyncio.Queue()

    def __getattr__(self, name):
        return types.SimpleNamespace(remote=lambda *_: asyncio.ensure_future(self._call(name)))

    async def _call(self, name):
        self.called.put_nowait(name)
        if name == self._unreachable:
            raise UnavailableError("the actor is temporarily unavailable")
        await asyncio.Event().wait()


@pytest.mark.parametrize("unreachable", ["write", "kill"])
async def test_an_actor_that_cannot_be_reached_for_one_call_has_lost_its_process(unreachable):
    slot, usable = UnreachableSlot(unreachable), []
    process = ActorProcess(
        slot, 1, "far-1", lost=UnavailableError, on_end=lambda _, is_usable: usable.append(is_usable)
    )
    reading, waiting = asyncio.create_task(process.read()), asyncio.create_task(process.wait())
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert {await slot.called.get(), await slot.called.get()} == {"read", "wait"}
        if unreachable == "write":
            process.write(b"an order")
        else:
            process.kill()
        assert await reading == b""
        assert await waiting == "its machine or its actor is gone: the actor is temporarily unavailable"
    assert usable == [False], "so that Ray ends the actor, and with it the process"
