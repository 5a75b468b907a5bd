"""Checksums that an S3 server keeps: ETags, and the SHA-256 of what was sent with one.

Promise: a checksum says what the server was sent, not what its disks hold today; nothing is said where the
server has none. Must not know: prefixes of batches, what is done about a difference.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from quire.blobs import keys
from quire.blobs.port import SourceFile
from quire.blobs.s3.requests import S3Requests
from quire.blobs.s3.signing import Signer
from quire.blobs.sources import open_source
from quire.model.clock import Clock

_SHA256 = "x-amz-checksum-sha256"


class S3Checksums:
    """Asks for the stored SHA-256 of objects: one HEAD request each. obstore does not return it."""

    def __init__(
        self,
        *,
        clock: Clock,
        bucket: str,
        endpoint: str | None = None,
        region: str = "us-east-1",
        access_key_id: str,
        secret_access_key: str,
        prefix: str = "",
        timeout_seconds: float = 60,
    ) -> None:
        """Connects to nothing yet."""
        signer = Signer(
            endpoint=endpoint or f"https://s3.{region}.amazonaws.com",
            region=region,
            access_key_id=access_key_id,
            secret_access_key=secret_access_key,
        )
        self._requests = S3Requests(signer, clock, bucket=bucket, timeout_seconds=timeout_seconds)
        self._bucket = bucket
        self._prefix = keys.folder(prefix)

    async def find_sha256(self, key: str) -> str | None:
        """See `StoredChecksums`. Of an object that was sent in parts there is none: its checksum is one of
        checksums.
        """
        about = ("look at", key)
        # In the query: a header of this kind would have to be signed.
        query = {"x-amz-checksum-mode": "ENABLED"}
        path = f"/{self._bucket}/{self._prefix}{keys.check(key)}"
        answer = await self._requests.send("HEAD", path, query=query, about=about)
        if not answer.is_success:
            raise self._requests.error_of(answer, about)
        if answer.headers.get("x-amz-checksum-type", "FULL_OBJECT") != "FULL_OBJECT":
            return None
        return _to_hexadecimal(answer.headers.get(_SHA256, ""))

    async def close(self) -> None:
        await self._requests.close()


def etag_of(source: bytes | Path | SourceFile, part_bytes: int, *, in_parts: bool) -> str:
    """The ETag that S3 gives to these bytes, sent in one piece or in parts of this size. Blocking."""
    if not in_parts:
        hashed = hashlib.md5(usedforsecurity=False)
        for piece in _read(source, part_bytes):
            hashed.update(piece)
        return hashed.hexdigest()
    parts = [hashlib.md5(piece, usedforsecurity=False).digest() for piece in _read(source, part_bytes)]
    return f"{hashlib.md5(b''.join(parts), usedforsecurity=False).hexdigest()}-{len(parts)}"


def _read(source: bytes | Path | SourceFile, part_bytes: int) -> Iterator[bytes]:
    with BytesIO(source) if isinstance(source, bytes) else open_source(source) as file:
        while piece := file.read(part_bytes):
            yield piece


def _to_hexadecimal(text: str) -> str | None:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw.hex() if len(raw) == hashlib.sha256().digest_size else None
