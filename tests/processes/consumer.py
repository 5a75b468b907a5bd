"""A consumer in a process of its own that logs what happens to each message.

    python -m tests.processes.consumer '{"url": "…", "log": "…", "queue": "…", "worker": "…"}'

For tests that kill and replace real consumers. All of them write to one file, a line at a time, in the
order of events. Ends on SIGTERM.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable

import msgspec
from msgspec import Struct

from quire.assembly.queues import open_queues_at
from quire.consumers.consumer import Consumer
from quire.consumers.deliveries import DeliveryLogEntry
from quire.model.queues import QueuePolicy
from quire.queues.port import LeasedMessage
from quire.system import LoopSignal, SystemClock, SystemIds

HANDLED = "handled"


class Plan(Struct, frozen=True, kw_only=True):
    url: str
    log: str
    queue: str
    worker: str = ""
    lease_seconds: float = 1.0
    concurrency: int = 10
    max_batch_size: int = 20
    work_seconds: float = 0.0  # how long a handler pretends to work

    @property
    def policy(self) -> QueuePolicy:
        """No message is given up, however often its consumers die."""
        return QueuePolicy(
            name=self.queue,
            lease_seconds=self.lease_seconds,
            concurrency=self.concurrency,
            max_batch_size=self.max_batch_size,
            max_retries=1000,
        )

    @property
    def most_held(self) -> int:
        """How many messages the consumer has at once."""
        return self.concurrency + self.max_batch_size - 1


class Line(Struct, frozen=True, array_like=True):
    """`event` is HANDLED or a `DeliveryEvent`. `after_seconds` of a received message is the time from its
    sending to its lease.
    """

    event: str
    id: str
    delivery: int
    worker: str
    after_seconds: float = 0.0


def lines_in(data: bytes) -> list[Line]:
    decoder = msgspec.json.Decoder(Line)
    return [decoder.decode(line) for line in data.splitlines()]


async def consume(plan: Plan) -> None:
    write = _writer(plan.log)

    async def handle(_: bytes, leased: LeasedMessage) -> None:
        write(Line(HANDLED, leased.id, leased.deliveries, plan.worker))
        await asyncio.sleep(plan.work_seconds)

    def log(entry: DeliveryLogEntry) -> None:
        # A message is logged as done after its acknowledgement was answered.
        write(Line(entry.event, entry.id, entry.delivery, entry.worker, entry.seconds))

    async with open_queues_at(plan.url, SystemIds()) as opened:
        consumer = Consumer(
            opened.queues,
            plan.policy,
            handle,
            decode=bytes,
            clock=SystemClock(),
            ids=SystemIds(),
            signal=LoopSignal(),
            worker=plan.worker,
            log=log,
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.stop)
        print("at work", flush=True)  # noqa: T201 - the parent process waits for this
        await consumer.run()


def _writer(path: str) -> Callable[[Line], None]:
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    encoder = msgspec.json.Encoder()

    def write(line: Line) -> None:
        os.write(
            log, encoder.encode(line) + b"\n"
        )  # in one call, so that lines of several processes stay whole

    return write


if __name__ == "__main__":
    asyncio.run(consume(msgspec.json.decode(sys.argv[1], type=Plan)))
