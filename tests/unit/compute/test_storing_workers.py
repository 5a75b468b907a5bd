"""A worker that stores a result computes the next order meanwhile, also when there are few orders."""

import asyncio

from quire.compute.pool import frames
from quire.compute.pool.chunks import STORING_AT_ONCE
from quire.compute.pool.pool import Pool
from quire.compute.pool.worker_handle import WorkerHandle
from quire.model.work import Order, StepCall
from quire.system import LoopSignal, SystemClock
from quire.testing.factories import file, report

PATIENCE_SECONDS = 10
CALL = StepCall(step="s", version=1)
STARTED, COMPUTED = frames.STARTED_FRAME, frames.COMPUTED_FRAME


class ToldProcess:
    """Says what the test tells it to, and knows the orders that it was given."""

    name = "told"

    def __init__(self):
        self._output = asyncio.Queue()
        self._decoder = frames.FrameDecoder()
        self._is_given = asyncio.Event()
        self.given = []
        self.says(frames.encode_frame(frames.READY, frames.Ready(1)))

    def says(self, *said):
        self._output.put_nowait(b"".join(said))

    async def is_given(self, count):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.given) < count:
                self._is_given.clear()
                await self._is_given.wait()
        return self.given

    def write(self, data):
        for kind, payload in self._decoder.feed(data):
            if kind == frames.CHUNK:
                self.given += [order.task_no for order in frames.chunk_decoder.decode(payload).orders]
                self._is_given.set()

    async def read(self):
        return await self._output.get()

    def kill(self):
        self.says(b"")

    async def wait(self):
        return "told to"

    def read_stderr(self):
        return ""

    is_lost = False


class ToldPool(Pool):
    """Its workers are these processes."""

    def __init__(self, *processes):
        super().__init__(workers=len(processes), clock=SystemClock(), signal=LoopSignal())
        self._processes = list(processes)

    async def _start_worker(self):
        return await WorkerHandle.start(self._processes.pop(0), b"", self._clock)


def ended(task_no):
    return frames.encode_frame(frames.REPORT, report(task_no))


def orders(*numbers):
    return [Order(1, number, 1, file()) for number in numbers]


async def test_the_next_order_does_not_wait_until_the_last_one_is_stored():
    process = ToldProcess()
    pool = ToldPool(process)
    pool.start()
    await pool.submit(CALL, orders(1, 2))
    assert await process.is_given(1) == [1]
    process.says(STARTED, COMPUTED)
    assert await process.is_given(2) == [1, 2]
    assert pool.take_reports() == []
    await pool.stop(0)


async def test_a_worker_with_nothing_at_all_comes_first():
    storing, free = ToldProcess(), ToldProcess()
    pool = ToldPool(storing, free)
    pool.start()
    await pool.submit(CALL, orders(1))
    await asyncio.wait(
        [asyncio.create_task(one.is_given(1)) for one in (storing, free)], return_when="FIRST_COMPLETED"
    )
    if free.given:
        storing, free = free, storing
    storing.says(STARTED, COMPUTED)
    await pool.submit(CALL, orders(2))
    assert await free.is_given(1) == [2]
    assert storing.given == [1]
    await pool.stop(0)


async def test_a_worker_that_stores_as_much_as_it_may_gets_nothing_more():
    process = ToldProcess()
    pool = ToldPool(process)
    pool.start()
    most = STORING_AT_ONCE
    await pool.submit(CALL, orders(*range(1, most + 2)))
    for number in range(1, most + 1):
        await process.is_given(number)
        process.says(STARTED, COMPUTED)
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(process.given) == most
    process.says(ended(1))
    assert len(await process.is_given(most + 1)) == most + 1
    await pool.stop(0)
