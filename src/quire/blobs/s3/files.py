"""A whole file into S3 in one conditional request, streamed: what obstore would hold in memory.

Promise: created only where there is none, and whole or not at all. A request whose answer is lost is sent
again, and finds its own object then: to the caller that is one that was there. S3 takes 5 GiB so.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from quire.blobs.s3.errors import UNAVAILABLE
from quire.blobs.s3.requests import Pause
from quire.blobs.s3.signing import Signer
from quire.model.clock import Clock
from quire.model.errors import Misconfigured, Reject, Retry

MAX_BYTES = 5 << 30
_ATTEMPTS = 4
_PIECE_BYTES = 1 << 20
_SIGNED_SECONDS = 24 * 3600  # a slow line may take long; only the beginning of a request is judged by it
_PASSING = frozenset({408, 409, 425, 429})


class S3Files:
    def __init__(
        self, signer: Signer, clock: Clock, *, bucket: str, timeout_seconds: float, pause: Pause
    ) -> None:
        self._signer = signer
        self._clock = clock
        self._bucket = bucket
        self._pause = pause
        # Of reading and writing, not of the whole: large files take what they take.
        self._timeout = httpx.Timeout(timeout_seconds, connect=10.0)

    async def create(self, path: str, key: str, source: Path, *, content_type: str) -> bool:
        """False: there is one. Raises Retry when it cannot be told, Reject for a file that is too large."""
        size = (await asyncio.to_thread(source.stat)).st_size
        if size > MAX_BYTES:
            raise Reject(f"{key!r} would have {size} bytes; S3 takes {MAX_BYTES} at once.", code="too_large")
        headers = {
            "If-None-Match": "*",
            "Content-Type": content_type,
            "Content-Length": str(size),
            "User-Agent": "quire",
        }
        said = "no answer"
        for attempt in range(1, _ATTEMPTS + 1):
            now = self._clock.now()
            url = self._signer.url("PUT", path, query={}, seconds=_SIGNED_SECONDS, now=now)
            try:
                # A connection of its own: it is for large files, which come seldom.
                async with httpx.AsyncClient(timeout=self._timeout) as client:
                    response = await client.put(url, content=_read_pieces(source), headers=headers)
            except httpx.TransportError as error:
                said = type(error).__name__
            else:
                if response.is_success:
                    return True
                if response.status_code == 412:
                    return False
                said = str(response.status_code)
                if response.status_code < 500 and response.status_code not in _PASSING:
                    raise Misconfigured(
                        f"Cannot store {key!r} in bucket {self._bucket!r} ({said}). "
                        "Check keys, region and rights on the bucket.",
                        code="storage_denied",
                    )
            await self._pause(0.1 * 2**attempt * (0.5 + secrets.randbelow(1000) / 1000))
        raise Retry(
            f"Cannot store {key!r} in bucket {self._bucket!r} ({said}). "
            "Is the endpoint right and the server up? It may work at the next try.",
            code=UNAVAILABLE,
        )


async def _read_pieces(source: Path) -> AsyncIterator[bytes]:
    with source.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece
