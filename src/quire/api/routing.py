"""Routes as values: path, scope, description. The application and the OpenAPI document are built from one
table, so they cannot disagree.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from litestar import Request, Response
from msgspec import Struct

from quire.access.api_keys import Scope
from quire.model.errors import Reject

JSON = "application/json"
BODY_BYTES = 1 << 20
AT_ONCE_BYTES = 256 << 10  # decoded in one go: some ten milliseconds
BODY_SECONDS = 30.0

ApiRequest = Request[Any, Any, Any]
ApiResponse = Response[Any]


class Parameter(Struct, frozen=True, kw_only=True):
    """In the query, or in a header."""

    name: str
    about: str
    kind: type = str
    place: str = "query"
    example: Any = None


class Route(Struct, frozen=True, kw_only=True):
    """`contract`: of a published protocol, with its shape of errors. `pages`: pages of any origin may ask.
    `whole`: it concerns the whole server, and is closed to keys that are bound to a tenant. `app_key`: the
    key may also come in the header X-Jarvis-App-Key, as callers of the published OCR service send theirs.
    `users`: tokens of users are accepted, too. `invalid`: how a body that does not fit is
    answered, with status 422.
    """

    method: Literal["GET", "HEAD", "POST", "PUT", "DELETE"]
    path: str
    serve: Callable[..., Awaitable[ApiResponse]]
    scope: Scope | None  # what a key must allow; None: the URL itself permits it, or nothing is asked for
    name: str
    about: str
    group: str
    contract: bool = False
    pages: bool = False
    whole: bool = False
    users: bool = False
    invalid: Any = None
    app_key: bool = False
    body: Any = None
    body_example: Any = None
    body_type: str = JSON
    body_required: bool = True
    answers: Any = None
    answer_example: Any = None
    answer_type: str = JSON
    status: int = 200
    also: tuple[int, ...] = ()  # other answers that are no errors
    errors: tuple[int, ...] = ()
    parameters: tuple[Parameter, ...] = ()


_encoder = msgspec.json.Encoder()
_OPENING = ord("[")
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])


def json_response(
    content: object, *, status: int = 200, headers: dict[str, str] | None = None
) -> ApiResponse:
    return Response(
        content=_encoder.encode(content), status_code=status, media_type=JSON, headers=headers or {}
    )


async def read_body(request: ApiRequest, *, limit: int = BODY_BYTES) -> bytes:
    """The whole body. Raises Reject `too_large`, and `slow_client` when it does not come within the time."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limit:
        raise _too_large(limit)
    read = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                read += piece
                if len(read) > limit:
                    raise _too_large(limit)
    except TimeoutError as error:
        raise Reject(
            "The body did not arrive in time; send it faster or in parts", code="slow_client"
        ) from error
    return bytes(read)


async def read_json(request: ApiRequest, *, limit: int = BODY_BYTES, empty: Any = None) -> Any:
    """The body as decoded JSON; `empty` when there is none and that is allowed (not None)."""
    body = await read_body(request, limit=limit)
    if not body.strip() and empty is not None:
        return empty
    try:
        return await decode_large(body) if len(body) > AT_ONCE_BYTES else msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise Reject("Invalid JSON body", code="bad_json") from error


async def decode_large(body: bytes) -> Any:
    """Decode a large document without blocking the event loop for long. A thread would not help: the decoder
    holds the interpreter lock until it is done. Raises ValueError or RecursionError.
    """
    if not body.lstrip().startswith(b"{"):
        return msgspec.json.decode(body)
    return {name: await _decode_value(raw) for name, raw in _object.decode(body).items()}


async def _decode_value(raw: msgspec.Raw) -> Any:
    view = memoryview(raw)
    if len(view) <= AT_ONCE_BYTES or view[0] != _OPENING:
        return msgspec.json.decode(raw)
    made: list[Any] = []
    pending = 0
    for one in _list.decode(raw):
        made.append(msgspec.json.decode(one))
        pending += len(memoryview(one))
        if pending > AT_ONCE_BYTES:
            pending = 0
            await asyncio.sleep(0)
    return made


def _too_large(limit: int) -> Reject:
    return Reject(f"The body is larger than {limit} bytes, which is the limit here", code="too_large")


def get_batch_id(request: ApiRequest) -> str:
    return str(request.path_params["batch_id"])


def read_number(request: ApiRequest, name: str, *, most: int) -> int | None:
    """A whole number of the query, from 1 on; None when it is not there."""
    said = request.query_params.get(name)
    if said is None:
        return None
    if not said.isascii() or not said.isdecimal() or len(said) > 19 or not 1 <= int(said) <= most:
        raise Reject(f"{name} is a whole number from 1 to {most}, not {said[:80]!r}")
    return int(said)
