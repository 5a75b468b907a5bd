"""The OCR service of `quire serve`, from settings: jobs, their states, and the queue of answers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Protocol

from quire.assembly.components import Components
from quire.assembly.envelope_queues import max_envelope_bytes, open_envelope_queues, travels_on_lists
from quire.assembly.picture_reading import LateReader, build_reading, list_providers
from quire.assembly.presence import join_home
from quire.assembly.queues import apply_table
from quire.consumers.consumer import Consumer
from quire.model.envelopes import OCR_QUEUE, OcrCompleted
from quire.model.queues import QueuePolicy
from quire.ocr.blob_states import BlobJobStates
from quire.ocr.port import JobStates
from quire.ocr.service import OcrService, OcrServiceRules, read_answer
from quire.ocr.stored_pictures import StoredPictures
from quire.settings import Settings
from quire.system import LoopSignal

AT_ONCE = 16
GRACE_SECONDS = 5.0
SWEEP_SECONDS = 3600.0
AGAIN_SECONDS = 5.0

_log = logging.getLogger("quire.ocr")


@asynccontextmanager
async def open_ocr_service(settings: Settings, components: Components) -> AsyncIterator[OcrService]:
    """While it is entered, answers are taken from the queue. Raises Misconfigured."""
    clock, ids = components.clock, components.ids
    async with AsyncExitStack() as stack:
        queues = await stack.enter_async_context(
            open_envelope_queues(settings, ids, queues=components.queues)
        )
        states: JobStates = BlobJobStates(components.blobs, clock)
        if travels_on_lists(settings):
            from quire.ocr.redis_states import RedisJobStates

            on_redis = RedisJobStates(settings.redis.url.reveal())
            stack.push_async_callback(on_redis.close)
            states = on_redis
        scratch = stack.enter_context(join_home(settings.home, ids.ulid())).scratch
        reader = LateReader(settings, scratch)
        stack.push_async_callback(reader.close)
        service = OcrService(
            queues,
            states,
            StoredPictures(components.blobs),
            build_reading(settings, reader, scratch, components.blobs, ids),
            OcrServiceRules(
                queue=OCR_QUEUE, reply_queue=settings.ocr.reply_queue, max_bytes=max_envelope_bytes(settings)
            ),
            providers=partial(list_providers, settings),
            clock=clock,
            ids=ids,
        )
        name = settings.ocr.reply_queue
        plain = QueuePolicy(name=name, concurrency=AT_ONCE, dead_letter=f"{name}:dead")
        consumer: Consumer[OcrCompleted] = Consumer(
            queues,
            apply_table(plain, name, settings),
            service.take_answer,
            decode=read_answer,
            clock=clock,
            ids=ids,
            signal=LoopSignal(),
            trouble=_note_outage,
        )
        consuming = asyncio.create_task(_keep_going(lambda: consumer.run(grace_seconds=GRACE_SECONDS)))
        swept = (service, states) if isinstance(states, BlobJobStates) else (service,)
        sweeping = asyncio.create_task(_keep_going(lambda: _sweep_regularly(swept)))
        try:
            yield service
        finally:
            consumer.stop()
            sweeping.cancel()
            await asyncio.wait({consuming, sweeping}, timeout=2 * GRACE_SECONDS)
            consuming.cancel()


def _note_outage(reason: str | None) -> None:
    """In the log alone: batches do not wait for it, and jobs sent meanwhile are refused by themselves."""
    if reason is None:
        _log.warning("ocr_answers_back")
    else:
        _log.warning("ocr_answers_away: %s", reason)


class _Sweepable(Protocol):
    async def sweep(self) -> int: ...


async def _sweep_regularly(swept: Collection[_Sweepable]) -> None:
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        for one in swept:
            await one.sweep()


async def _keep_going(work: Callable[[], Awaitable[None]]) -> None:
    """What goes wrong with answers must not end the server: it is told to the operator and begun again."""
    while True:
        try:
            await work()
        except Exception:  # noqa: BLE001 whatever it is
            _log.exception("ocr_answers_not_taken")
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return
