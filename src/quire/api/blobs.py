"""Bytes in and out by signed URLs, where the store has no address of its own."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from litestar.response import Stream

from quire.api.context import ApiContext, Caller
from quire.api.routing import Answer, Asked, Route, answer
from quire.blobs.presigned import Receives
from quire.blobs.presigned_rules import attachment
from quire.ingest.file_upload import expected
from quire.model.errors import Missing, Reject

STALL_SECONDS = 60.0  # a sender that is silent for so long is gone


async def put(desk: ApiContext, request: Asked, caller: Caller) -> Answer:  # noqa: ARG001
    length = request.headers.get("content-length")
    etag = await _landing(desk).receive(
        str(request.path_params["token"]),
        _pieces(request),
        length=int(length) if length is not None and length.isdecimal() else None,
        awaited=lambda key: expected(desk.front, key),
    )
    return answer({}, headers={"etag": f'"{etag}"'})


async def _pieces(request: Asked) -> AsyncIterator[bytes]:
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(STALL_SECONDS):
                piece = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            raise Reject("The body stopped arriving; send it again", code="slow_client") from error
        yield piece


async def get(desk: ApiContext, request: Asked, caller: Caller) -> Answer:  # noqa: ARG001
    key, name = _landing(desk).opened(str(request.path_params["token"]))
    stored = await desk.office.blobs.head(key)
    headers = {
        "content-length": str(stored.size),
        "etag": f'"{stored.version}"',
        # Whatever it is, it is saved and not shown: documents are anybody's.
        "content-disposition": attachment(name),
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox; default-src 'none'",
    }
    return Stream(desk.office.blobs.stream(key), media_type="application/octet-stream", headers=headers)


def _landing(desk: ApiContext) -> Receives:
    landing: Any = desk.front.landing
    if not isinstance(landing, Receives):
        raise Missing("Not found")
    return landing


_GROUP = "Bytes"
ROUTES = (
    Route(
        method="PUT",
        path="/blobs/{token:str}",
        serve=put,
        scope=None,
        name="putBytes",
        about="Send the bytes of a file, or of a part of it, to a URL that files/start gave.",
        group=_GROUP,
        contract=True,
        pages=True,
        body=bytes,
        body_type="application/octet-stream",
        answers=dict[str, str],
        errors=(400, 403, 404, 408, 413),
    ),
    Route(
        method="GET",
        path="/blobs/{token:str}",
        serve=get,
        scope=None,
        name="getBytes",
        about="Fetch a file by a URL that a download gave.",
        group=_GROUP,
        contract=True,
        pages=True,
        answers=bytes,
        answer_type="application/octet-stream",
        errors=(403, 404),
    ),
)
