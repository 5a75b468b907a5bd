"""Request bodies for S3: streams that are counted, or bytes in memory where S3 allows nothing else.

Must not know: the client, conditions, keys.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from quire.model.errors import Missing, Reject

MAX_CONDITIONAL_BYTES = 64 << 20


class CountingStream:
    """A stream that counts its bytes and keeps the exception that the caller's iterator raised."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self.size = 0
        self.failure: Exception | None = None

    def __aiter__(self) -> "CountingStream":
        return self

    async def __anext__(self) -> bytes:
        try:
            piece = await anext(self._pieces)
        except StopAsyncIteration:
            raise
        except Exception as error:
            self.failure = error
            raise
        self.size += len(piece)
        return piece


async def size_of(data: bytes | Path) -> int:
    if isinstance(data, bytes):
        return len(data)
    try:
        return (await asyncio.to_thread(data.stat)).st_size
    except FileNotFoundError as error:
        raise Missing(f"The file {data.name!r} does not exist, so it cannot be stored.") from error


async def read_whole(data: bytes | Path | AsyncIterator[bytes]) -> bytes:
    """All bytes. Raises Reject when there are too many for one conditional request."""
    if isinstance(data, bytes | Path):
        _check_size(await size_of(data))
        return data if isinstance(data, bytes) else await asyncio.to_thread(data.read_bytes)
    gathered = bytearray()
    async for piece in data:
        _check_size(len(gathered) + len(piece))
        gathered += piece
    return bytes(gathered)


def _check_size(size: int) -> None:
    if size > MAX_CONDITIONAL_BYTES:
        raise Reject(
            f"A conditional write to S3 is one request held in memory, {MAX_CONDITIONAL_BYTES >> 20} MiB at "
            "most. Store large blobs without a condition, under a key that only one writer can have.",
            code="too_large",
        )
