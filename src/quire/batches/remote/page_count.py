"""How many pages a TIFF in the store has.

Promises: a limited number of small reads, whatever the size and the content of the file; nothing is decoded.
"""

import asyncio
import io
from collections.abc import Callable
from typing import BinaryIO, cast

from quire.blobs.port import Blobs
from quire.model.errors import Reject, Retry
from quire.tools import sniff, tiff

BLOCK_BYTES = 64 * 1024
MAX_READS = 500
READ_SECONDS = 60.0


class _BlobFile(io.RawIOBase):
    """A blob as a file with random access; unbuffered."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read = read
        self._size = size
        self._at = 0
        self._reads = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._reads += 1
        if self._reads > MAX_READS:
            raise Reject(
                "the directories of the TIFF lie too far apart to be counted, and it may have several pages; "
                "set compute.tiff to local, or preprocess.all_pages to false",
                code="many_pages",
            )
        data = self._read(self._at, min(self._at + len(buffer), self._size)) if self._at < self._size else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


async def has_several_pages(blobs: Blobs, key: str) -> bool:
    """Raises what `count_pages` raises."""
    return await count_pages(blobs, key, most=2) > 1


async def count_pages(blobs: Blobs, key: str, *, most: int) -> int:
    """How many, up to `most`; 0 for what is no TIFF. Raises Missing, Reject for a TIFF that is damaged after
    its first page or whose directories lie too far apart (`many_pages`), Retry without the store.
    """
    size = (await blobs.head(key)).size
    loop = asyncio.get_running_loop()

    async def part(start: int, stop: int) -> bytes:
        return b"".join([piece async for piece in blobs.stream(key, start=start, stop=stop)])

    def read(start: int, stop: int) -> bytes:
        try:
            return asyncio.run_coroutine_threadsafe(part(start, stop), loop).result(READ_SECONDS)
        except TimeoutError as error:
            raise Retry("the store does not answer", code="no_answer") from error

    def look() -> int:
        stream = cast(BinaryIO, io.BufferedReader(_BlobFile(read, size), BLOCK_BYTES))
        if sniff.signature(stream.read(sniff.HEAD_BYTES)) != "image/tiff":
            return 0  # a picture of another format under the name of a TIFF has one page
        return tiff.count_pages(stream, size, most=most)

    return await asyncio.to_thread(look)
