"""`quire ocr worker` from settings: the queue of requests, where answers go, and processes that read.

Needs no database of its own where envelopes travel on Redis lists.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct, structs

from quire.assembly.blobs import open_blobs
from quire.assembly.envelope_queues import max_envelope_bytes, open_envelope_queues, travels_on_lists
from quire.assembly.picture_reading import build_reading, list_providers, open_reader, picture_workers
from quire.assembly.presence import join_home
from quire.assembly.queues import apply_table
from quire.consumers.consumer import Consumer
from quire.consumers.deliveries import DeliveryLogEntry
from quire.model.envelopes import OCR_QUEUE, BadEnvelope, OcrRequest
from quire.model.queues import QueuePolicy, policy_for
from quire.ocr.answering import (
    AnsweringRules,
    IsCancelled,
    OcrAnswerer,
    OcrEvent,
    never_cancelled,
    read_message,
)
from quire.settings import Settings
from quire.system import LoopSignal, SystemClock, SystemIds

Trouble = Callable[[str | None], None]


class OpenOcrWorker(Struct, frozen=True):
    """`place` is where requests come from, for people; `providers` are the engines. `reading` ends only when
    no process can be started that reads pictures.
    """

    consumer: "Consumer[OcrRequest | BadEnvelope]"
    reading: "asyncio.Task[None]"
    place: str
    workers: int
    providers: Mapping[str, bool]

    async def run(self, *, grace_seconds: float, until_empty: bool) -> None:
        """Until the consumer is stopped. Raises Misconfigured when no process can be started."""
        consuming = asyncio.create_task(
            self.consumer.run(grace_seconds=grace_seconds, until_empty=until_empty)
        )
        await asyncio.wait({consuming, self.reading}, return_when=asyncio.FIRST_COMPLETED)
        self.consumer.stop()
        await consuming
        if self.reading.done():
            self.reading.result()


def ocr_policy(settings: Settings) -> QueuePolicy:
    """A request is not leased ahead: it takes long, and other workers may be free."""
    at_once = settings.ocr.jobs_at_once or picture_workers(settings)
    return structs.replace(apply_table(policy_for(OCR_QUEUE), OCR_QUEUE, settings), concurrency=at_once)


def answering_rules(settings: Settings) -> AnsweringRules:
    return AnsweringRules(
        queue=OCR_QUEUE,
        max_deliveries=ocr_policy(settings).max_deliveries,
        max_attempts=settings.ocr.max_attempts,
        first_delay_seconds=settings.ocr.retry_seconds,
        max_bytes=max_envelope_bytes(settings),
    )


@asynccontextmanager
async def open_ocr_worker(
    settings: Settings,
    *,
    report: Callable[[OcrEvent], None],
    log: Callable[[DeliveryLogEntry], None] | None = None,
    trouble: Trouble = lambda _: None,
) -> AsyncIterator[OpenOcrWorker]:
    """Processes and connections end with the context. Raises Misconfigured."""
    clock, ids = SystemClock(), SystemIds()
    async with AsyncExitStack() as stack:
        scratch = stack.enter_context(join_home(settings.home, ids.ulid())).scratch
        blobs = open_blobs(settings)
        stack.push_async_callback(blobs.close)
        queues = await stack.enter_async_context(open_envelope_queues(settings, ids))
        is_cancelled: IsCancelled = never_cancelled
        if travels_on_lists(settings):
            from quire.ocr.redis_states import RedisJobStates

            states = RedisJobStates(settings.redis.url.reveal())
            stack.push_async_callback(states.close)
            is_cancelled = states.is_cancelled
        opened = await stack.enter_async_context(open_reader(settings, scratch))
        answerer = OcrAnswerer(
            queues,
            build_reading(settings, opened.reader, scratch, blobs, ids),
            answering_rules(settings),
            clock=clock,
            fraction=ids.fraction,
            is_cancelled=is_cancelled,
            report=report,
        )
        policy = ocr_policy(settings)
        consumer = Consumer(
            queues,
            # Once more than the policy says: the last delivery is for the answer that nobody could give.
            structs.replace(policy, max_retries=policy.max_retries + 1),
            answerer.handle,
            decode=read_message,
            clock=clock,
            ids=ids,
            signal=LoopSignal(),
            worker=f"{socket.gethostname()}-{ids.ulid()}",
            log=log,
            trouble=trouble,
        )
        place = "Redis" if travels_on_lists(settings) else "Quire's own queues"
        yield OpenOcrWorker(
            consumer, opened.running, place, picture_workers(settings), list_providers(settings)
        )
