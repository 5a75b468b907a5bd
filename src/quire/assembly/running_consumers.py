"""Runs a consumer of a queue beside everything else of a process, for as long as a block lasts."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from quire.consumers.consumer import Consumer

GRACE_SECONDS = 5.0
AGAIN_SECONDS = 5.0

T = TypeVar("T")


@asynccontextmanager
async def running(consumer: Consumer[T], log: logging.Logger, event: str) -> AsyncIterator[None]:
    """What goes wrong with messages must not end the process: it is logged as `event` and begun again."""
    task = asyncio.create_task(_keep_running(consumer, log, event))
    try:
        yield
    finally:
        consumer.stop()
        await asyncio.wait({task}, timeout=2 * GRACE_SECONDS)
        task.cancel()


async def _keep_running(consumer: Consumer[T], log: logging.Logger, event: str) -> None:
    while True:
        try:
            await consumer.run(grace_seconds=GRACE_SECONDS)
        except Exception:
            log.exception(event)
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return
