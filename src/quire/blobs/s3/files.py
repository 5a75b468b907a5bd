"""Streams a whole file into S3 in one conditional request; obstore would hold it in memory.

Promise: the object is created only if it does not exist, and whole or not at all. A request whose answer is
lost is sent again; if it then finds its own object, the caller is told that it existed. S3 accepts 5 GiB.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from quire.blobs.s3.errors import TRANSIENT, UNAVAILABLE
from quire.blobs.s3.requests import Pause
from quire.blobs.s3.signing import Signer
from quire.model.clock import Clock
from quire.model.errors import Misconfigured, Reject, Retry

MAX_BYTES = 5 << 30
_ATTEMPTS = 4
_PIECE_BYTES = 1 << 20
_SIGNED_SECONDS = 24 * 3600  # only the start of a request must be within it, however slow the line


class S3Files:
    def __init__(
        self, signer: Signer, clock: Clock, *, bucket: str, timeout_seconds: float, pause: Pause
    ) -> None:
        self._signer = signer
        self._clock = clock
        self._bucket = bucket
        self._pause = pause
        # For each read and write, not for the whole request: large files take their time.
        self._timeout = httpx.Timeout(timeout_seconds, connect=10.0)

    async def create(self, path: str, key: str, source: Path, *, content_type: str) -> bool:
        """False: it exists already. Raises Retry when the outcome is unknown, Reject for too large a file."""
        size = (await asyncio.to_thread(source.stat)).st_size
        if size > MAX_BYTES:
            raise Reject(
                f"{key!r} would have {size} bytes; S3 accepts {MAX_BYTES} in one request.", code="too_large"
            )
        headers = {
            "If-None-Match": "*",
            "Content-Type": content_type,
            "Content-Length": str(size),
            "User-Agent": "quire",
        }
        result = "no answer"
        for attempt in range(1, _ATTEMPTS + 1):
            now = self._clock.now()
            url = self._signer.url("PUT", path, query={}, seconds=_SIGNED_SECONDS, now=now)
            try:
                # A client of its own: large files are rare.
                async with httpx.AsyncClient(timeout=self._timeout) as client:
                    response = await client.put(url, content=_read_pieces(source), headers=headers)
            except httpx.TransportError as error:
                result = type(error).__name__
            else:
                if response.is_success:
                    return True
                if response.status_code == 412:
                    return False
                result = str(response.status_code)
                if response.status_code < 500 and response.status_code not in TRANSIENT:
                    raise Misconfigured(
                        f"Cannot store {key!r} in bucket {self._bucket!r} ({result}). "
                        "Check keys, region and rights on the bucket.",
                        code="storage_denied",
                    )
            await self._pause(0.1 * 2**attempt * (0.5 + secrets.randbelow(1000) / 1000))
        raise Retry(
            f"Cannot store {key!r} in bucket {self._bucket!r} ({result}). "
            "Is the endpoint right and the server up? It may work on the next try.",
            code=UNAVAILABLE,
        )


async def _read_pieces(source: Path) -> AsyncIterator[bytes]:
    with source.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece
