"""A consumer that runs beside everything else."""

import asyncio
import logging

from quire.assembly import running_consumers
from quire.assembly.running_consumers import running

LOG = logging.getLogger("quire.test")


class Breaking:
    """A consumer that fails once, and then runs until it is stopped."""

    def __init__(self) -> None:
        self.runs = 0
        self.going = asyncio.Event()
        self.stopped = asyncio.Event()

    async def run(self, *, grace_seconds: float) -> None:  # noqa: ARG002 - as the port has it
        self.runs += 1
        if self.runs == 1:
            raise OSError("the queue is gone")
        self.going.set()
        await self.stopped.wait()

    def stop(self) -> None:
        self.stopped.set()


async def test_a_consumer_that_fails_is_logged_and_begun_again(monkeypatch, caplog):
    monkeypatch.setattr(running_consumers, "AGAIN_SECONDS", 0.0)
    consumer = Breaking()
    async with running(consumer, LOG, "messages_not_consumed"), asyncio.timeout(30):
        await consumer.going.wait()
    assert consumer.runs == 2
    assert consumer.stopped.is_set()
    assert [one.message for one in caplog.records] == ["messages_not_consumed"]
