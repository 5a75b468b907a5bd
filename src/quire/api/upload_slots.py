"""How many forms with files a server receives at once.

Promises: those beyond the limit wait without their body being read, and are told to come again when that
takes too long: slow senders cannot hold up everybody for ever.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from quire.model.errors import Retry

AGAIN_SECONDS = 5.0


class UploadSlots:
    def __init__(self, at_once: int, wait_seconds: float) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._wait_seconds = wait_seconds

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Raises Retry `too_busy` when none becomes free in time."""
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._free.acquire()
        except TimeoutError as error:
            raise Retry(
                "Too many uploads are under way; send it again after Retry-After",
                code="too_busy",
                delay_seconds=AGAIN_SECONDS,
            ) from error
        try:
            yield
        finally:
            self._free.release()
