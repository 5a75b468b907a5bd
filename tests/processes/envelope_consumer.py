"""A consumer of envelopes in a process of its own, for tests that kill it.

`python -m tests.processes.envelope_consumer REDIS_URL QUEUE LEASE_SECONDS NAME [hold]` prints `at work`, then
`began ID` when it starts to handle a message, and `done ID` when it is acknowledged. With `hold` it never
ends what it began.
"""

import asyncio
import signal
import sys

from quire.assembly.envelope_queues import open_envelope_queues
from quire.consumers.consumer import Consumer
from quire.consumers.deliveries import DeliveryEvent, DeliveryLogEntry
from quire.model.envelope_reading import read_envelope
from quire.model.envelopes import Envelope
from quire.model.queues import QueuePolicy
from quire.queues.port import LeasedMessage
from quire.settings import RedisSettings, Secret, Settings
from quire.system import LoopSignal, SystemClock, SystemIds


def _tell(word: str, name: str) -> None:
    print(word, name, flush=True)  # noqa: T201 - what the parent process reads


async def consume(url: str, queue: str, lease_seconds: float, name: str, *, hold: bool) -> None:
    job_ids: dict[str, str] = {}

    async def handle(envelope: Envelope, leased: LeasedMessage) -> None:
        job_ids[leased.id] = envelope.job_id
        _tell("began", envelope.job_id)
        if hold:
            await asyncio.Event().wait()

    def log(entry: DeliveryLogEntry) -> None:
        if entry.event == DeliveryEvent.DONE:
            _tell("done", job_ids[entry.id])

    settings = Settings(redis=RedisSettings(url=Secret(url)))
    async with open_envelope_queues(settings, SystemIds()) as queues:
        consumer: Consumer[Envelope] = Consumer(
            queues,
            QueuePolicy(name=queue, max_batch_size=1, lease_seconds=lease_seconds),
            handle,
            decode=read_envelope,
            clock=SystemClock(),
            ids=SystemIds(),
            signal=LoopSignal(),
            worker=name,
            log=log,
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.stop)
        print("at work", flush=True)  # noqa: T201 - the parent process waits for this
        await consumer.run(grace_seconds=0.1)


if __name__ == "__main__":
    asyncio.run(
        consume(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4], hold="hold" in sys.argv[5:])
    )
