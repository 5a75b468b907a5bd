"""Quire: the Consumer with a handler that does nothing; every acknowledgement is on disk when it counts.

Run with the project's own Python. The drain counts from before the first lease.
"""

import asyncio
import signal
from contextlib import AsyncExitStack

import msgspec
from queue_peer import Peer, arguments, board, main, sets

from quire.assembly.queues import open_queues_at
from quire.consumers.bodies import json_decoder
from quire.consumers.consumer import Consumer
from quire.model.queues import QueuePolicy
from quire.queues.port import LeasedMessage, Message
from quire.system import LoopSignal, SystemClock, SystemIds

QUEUE = "noop"


class Job(msgspec.Struct, forbid_unknown_fields=True):
    number: int


def message(number: int) -> Message:
    return Message(id=f"message-{number}", body=msgspec.json.encode(Job(number)))


async def noop(_job: Job, _leased: LeasedMessage) -> None:
    board.started()


class Quire(Peer):
    can_bulk = True

    def __init__(self, backend, url, given) -> None:
        super().__init__(backend, url, given)
        self._clock = SystemClock()
        self._address = f"sqlite:///{url}" if backend == "sqlite" else url

    def open(self) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        opening = self._stack.enter_async_context(open_queues_at(self._address, SystemIds()))
        self._queues = self._runner.run(opening).queues

    def close(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()

    def send(self, numbers: range) -> None:
        async def work() -> None:
            for number in numbers:
                await self._queues.send(QUEUE, [message(number)], now=self._clock.now())

        self._runner.run(work())

    def bulk(self, numbers: range) -> None:
        async def work() -> None:
            for part in sets(numbers):
                await self._queues.send(QUEUE, [message(number) for number in part], now=self._clock.now())

        self._runner.run(work())

    def left(self) -> int:
        depth = self._runner.run(self._queues.depth(QUEUE, now=self._clock.now()))
        return depth.waiting + depth.leased

    def work(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        policy = QueuePolicy(name=QUEUE, max_batch_size=self.given.batch, concurrency=self.given.concurrency)
        async with open_queues_at(self._address, SystemIds()) as opened:
            consumer = Consumer(
                opened.queues,
                policy,
                noop,
                decode=json_decoder(Job),
                clock=self._clock,
                ids=SystemIds(),
                signal=LoopSignal(),
                worker="bench",
            )
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.stop)
            board.begin()
            await consumer.run()


if __name__ == "__main__":
    parser = arguments()
    plain = QueuePolicy(name=QUEUE)
    parser.add_argument("--batch", type=int, default=plain.max_batch_size)
    parser.add_argument("--concurrency", type=int, default=plain.concurrency)
    main(Quire, parser)
