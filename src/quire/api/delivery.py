"""Delivery of immutable blobs, with ranges, ETags and cache headers."""

import re
from collections.abc import AsyncIterator
from typing import Any

from litestar import Response
from litestar.exceptions import HTTPException
from litestar.response import Stream

from quire.api.context import ApiContext
from quire.api.routing import ApiRequest, ApiResponse
from quire.assets.registry import Delivery
from quire.blobs.presigned_rules import attachment

FOREVER = "public, max-age=31536000, immutable"
# Browsers may display these; anything else is saved, for it may be a page with scripts.
SHOWN = frozenset({"image/jpeg", "image/jpg", "image/png", "image/webp", "image/gif", "image/avif"})
CHECKED_FIRST_BYTES = 4 << 20
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


async def send_blob(context: ApiContext, given: Delivery, request: ApiRequest) -> ApiResponse:
    """The whole blob, the requested range, or 304. Raises HTTPException 416, and DamagedBlob."""
    etag = f'"{given.version}"'
    said = {**_build_headers(given), "etag": etag, "accept-ranges": "bytes"}
    if _is_match(request.headers.get("if-none-match"), etag):
        return _build_empty(304, said)
    part = _read_range(request, given.size, etag)
    if part == ():
        refusal = {"content-range": f"bytes */{given.size}", "cache-control": "no-store"}
        raise HTTPException("Range not satisfiable", status_code=416, headers=refusal)
    start, stop = part or (0, given.size)
    status = 206 if part else 200
    if part:
        said["content-range"] = f"bytes {start}-{stop - 1}/{given.size}"
    said["content-length"] = str(stop - start)
    if request.method == "HEAD":
        return _build_empty(status, said, given.content_type)
    blobs, now = context.batches.blobs, context.batches.clock.monotonic()
    if part or given.offset is not None:
        await context.checks.check(blobs, given.key, given.digest, now)
        begin = given.offset or 0
        pieces = blobs.stream(given.key, start=begin + start, stop=begin + stop)
    else:
        checked = context.checks.stream(blobs, given.key, given.digest, now)
        pieces = await begin_answer(checked, given.size)
    return Stream(pieces, status_code=status, media_type=given.content_type, headers=said)


async def begin_answer(pieces: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """The pieces, the first of them fetched before the status is sent. A blob of at most
    `CHECKED_FIRST_BYTES` has been checked as a whole by then, and damage becomes a status; the answer with a
    larger one ends before the length that was promised.
    """
    first: list[bytes] = []
    async for piece in pieces:
        first.append(piece)
        if size > CHECKED_FIRST_BYTES:
            break

    async def send() -> AsyncIterator[bytes]:
        for piece in first:
            yield piece
        async for piece in pieces:
            yield piece

    return send()


def _build_headers(given: Delivery) -> dict[str, str]:
    said = {
        "cache-control": FOREVER,
        "x-asset-id": given.asset.id,
        "x-variant": given.role,
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox; default-src 'none'",
        "cross-origin-resource-policy": "cross-origin",
    }
    if given.width:
        said["x-variant-dimensions"] = f"{given.width}x{given.height}"
    if given.asset.width:
        said["x-original-dimensions"] = f"{given.asset.width}x{given.asset.height}"
    if given.content_type not in SHOWN:
        said["content-disposition"] = attachment(given.asset.name or given.asset.id)
    return said


def _build_empty(status: int, headers: dict[str, str], content_type: str | None = None) -> ApiResponse:
    made: Response[Any] = Response(content=b"", status_code=status, headers=headers)
    if content_type is not None:
        made.media_type = content_type
    return made


def _is_match(said: str | None, etag: str) -> bool:
    if said is None:
        return False
    known = {one.strip().removeprefix("W/") for one in said.split(",")}
    return "*" in known or etag in known


def _read_range(request: ApiRequest, size: int, etag: str) -> tuple[int, int] | tuple[()] | None:
    """Start and stop; () when the range does not exist; None for the whole blob, also for several ranges."""
    found = _RANGE.fullmatch(request.headers.get("range", "").strip())
    meant = request.headers.get("if-range")
    if found is None or found[0] == "bytes=-" or (meant is not None and meant != etag):
        return None
    first, last = found.groups()
    if not first:
        length = min(int(last), size)
        return (size - length, size) if length else ()
    start, stop = int(first), min(int(last) + 1, size) if last else size
    if last and int(last) < start:
        return None
    return (start, stop) if start < size else ()
