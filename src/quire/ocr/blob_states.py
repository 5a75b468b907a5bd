"""States of OCR jobs in the blob store, for servers without Redis.

Promises: a state is forgotten when its time is over, although its blob may stay until it is swept. Must not
know: what a state says.
"""

import msgspec
from msgspec import Struct

from quire.blobs.port import Blobs
from quire.model.clock import Clock
from quire.model.errors import Missing

_FOLDER = "ocr/jobs/"


class _Entry(Struct, frozen=True):
    until: float
    state: msgspec.Raw


class BlobJobStates:
    def __init__(self, blobs: Blobs, clock: Clock) -> None:
        self._blobs = blobs
        self._clock = clock

    async def save(self, job_id: str, state: bytes, *, seconds: float) -> None:
        entry = _Entry(until=self._clock.now() + seconds, state=msgspec.Raw(state))
        await self._blobs.put(f"{_FOLDER}{job_id}", msgspec.json.encode(entry))

    async def load(self, job_id: str) -> bytes | None:
        try:
            entry = msgspec.json.decode(await self._blobs.get(f"{_FOLDER}{job_id}"), type=_Entry)
        except Missing:
            return None
        return bytes(entry.state) if entry.until > self._clock.now() else None

    async def sweep(self) -> int:
        """Delete what is forgotten; returns how many."""
        deleted = 0
        async for blob in self._blobs.list(_FOLDER):
            entry = msgspec.json.decode(await self._blobs.get(blob.key), type=_Entry)
            if entry.until <= self._clock.now():
                await self._blobs.delete(blob.key)
                deleted += 1
        return deleted
