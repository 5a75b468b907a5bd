"""Uploads and downloads by presigned URLs, where the store has no address of its own."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from litestar.response import Stream

from quire.api.context import ApiContext, Caller
from quire.api.delivery import begin_answer
from quire.api.routing import ApiRequest, ApiResponse, Route, json_response
from quire.blobs import checked_reads
from quire.blobs.presigned_rules import attachment
from quire.blobs.presigned_uploads import UploadReceiver
from quire.ingest.file_upload import accept_bytes
from quire.model.errors import Missing, Reject

STALL_SECONDS = 60.0  # a client that sends nothing for this long is gone


async def receive_bytes(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    length = request.headers.get("content-length")
    etag = await _get_receiver(context).receive(
        str(request.path_params["token"]),
        _pieces(request),
        length=int(length) if length is not None and length.isdecimal() else None,
        guard=lambda key, upload_id: accept_bytes(context.ingest, key, upload_id),
    )
    return json_response({}, headers={"etag": f'"{etag}"'})


async def _pieces(request: ApiRequest) -> AsyncIterator[bytes]:
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


async def send_bytes(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    key, name = _get_receiver(context).read_download(str(request.path_params["token"]))
    stored = await context.batches.blobs.head(key)
    headers = {
        "content-length": str(stored.size),
        "etag": f'"{stored.version}"',
        # Always saved, never displayed: documents may come from anybody.
        "content-disposition": attachment(name),
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox; default-src 'none'",
    }
    pieces = checked_reads.stream(context.batches.blobs, key, stored.metadata.get("sha256", ""))
    checked = await begin_answer(pieces, stored.size)
    return Stream(checked, media_type="application/octet-stream", headers=headers)


def _get_receiver(context: ApiContext) -> UploadReceiver:
    presigned: Any = context.ingest.presigned
    if not isinstance(presigned, UploadReceiver):
        raise Missing("Not found")
    return presigned


_GROUP = "Bytes"
ROUTES = (
    Route(
        method="PUT",
        path="/blobs/{token:str}",
        serve=receive_bytes,
        scope=None,
        name="putBytes",
        about="Send the bytes of a file, or of a part of it, to a URL that files/start gave.",
        group=_GROUP,
        contract=True,
        pages=True,
        body=bytes,
        body_type="application/octet-stream",
        answers=dict[str, str],
        errors=(400, 403, 404, 408, 413, 429),
    ),
    Route(
        method="GET",
        path="/blobs/{token:str}",
        serve=send_bytes,
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
