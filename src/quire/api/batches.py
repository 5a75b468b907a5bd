"""Monitoring of batches: status, lists, files with their outcomes, downloads, live events."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from litestar import Response
from litestar.response import Stream
from msgspec import Struct

from quire.access.api_keys import Scope
from quire.api.context import ApiContext, Caller
from quire.api.routing import (
    ApiRequest,
    ApiResponse,
    Parameter,
    Route,
    get_batch_id,
    json_response,
    read_number,
)
from quire.batches import inspection
from quire.batches.lines import BatchEvent, BatchLine, InputHistory
from quire.batches.overview import (
    BatchLogs,
    FilePage,
    UnifiedStatus,
    find_blob_key,
    get_unified_status,
    list_file_page,
    list_logs,
    watch_batch,
)
from quire.batches.package import stream_package
from quire.ledger.port import BatchFilter
from quire.model.batch import BatchState, FileOutcome
from quire.model.clock import timestamp
from quire.model.errors import Reject, Retry

MAX_PAGE = 1000
LOOK_EVERY_SECONDS = 0.5
BEAT_EVERY_SECONDS = 15.0
MAX_STREAMS = 500
URL_SECONDS = 3600
_log = logging.getLogger("quire.api")
_encoder = msgspec.json.Encoder()


class BatchPage(Struct, frozen=True, kw_only=True):
    """A page, newest first; `next` is where the following one begins, None after the last."""

    batches: list[BatchLine]
    next: int | None


class DownloadUrl(Struct, frozen=True, kw_only=True):
    url: str
    expires_at: str


async def show_unified_status(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    found = await get_unified_status(context.batches, get_batch_id(request))
    if request.query_params.get("include_raw") != "true":
        return json_response(found)
    raw = msgspec.json.decode(_encoder.encode(found))
    return json_response(raw | {"raw": {name: raw[name] for name in ("status", "progress", "phases")}})


async def show_logs(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    return json_response(await list_logs(context.batches, get_batch_id(request)))


async def list_batches(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    limit = read_number(request, "limit", most=MAX_PAGE) or 100
    said = request.query_params
    if "status" in said:
        raise Reject("Batches are listed by state (?state=done) or by phase (?phase=…), not by status")
    ended, state = said.get("ended"), said.get("state")
    wanted = BatchFilter(
        ended=None if ended is None else _read_flag("ended", ended),
        state=None if state is None else inspection.read_state(state),
        phase=said.get("phase"),
        tenant=caller.tenant or said.get("tenant"),
        before=read_number(request, "before", most=2**62),
        limit=limit,
    )
    page = await inspection.list_batches(context.batches, wanted)
    return json_response(BatchPage(batches=page, next=page[-1].no if len(page) == limit else None))


async def list_files(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    said = request.query_params
    outcome = said.get("state")
    if outcome is not None and outcome not in {one.value for one in FileOutcome}:
        known = ", ".join(one.value for one in FileOutcome)
        raise Reject(f"There is no state {outcome[:80]!r}; known are {known}")
    page = await list_file_page(
        context.batches,
        get_batch_id(request),
        after=_check_text("after", said.get("after", "")),
        limit=read_number(request, "limit", most=MAX_PAGE) or 100,
        outcome=None if outcome is None else FileOutcome(outcome),
        error_class=said.get("error_class"),
    )
    return json_response(page)


async def show_file_history(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    return json_response(
        await inspection.get_file_history(context.batches, get_batch_id(request), _read_path(request))
    )


async def sign_download(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    path = _read_path(request)
    key = await find_blob_key(context.batches, get_batch_id(request), path)
    url = await context.ingest.presigned.sign_get(
        key, seconds=URL_SECONDS, base_url=context.base_url(request), name=path.rpartition("/")[2]
    )
    if request.query_params.get("redirect") == "true":
        return Response(content=None, status_code=307, headers={"location": url})
    until = timestamp(context.batches.clock.now() + URL_SECONDS)
    return json_response(DownloadUrl(url=url, expires_at=until))


async def send_archive(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    said = request.query_params
    form = said.get("format", "zip")
    if form not in {"zip", "bagit"}:
        raise Reject(f"There is no format {form[:80]!r}; known are zip and bagit")
    inputs = _read_flag("inputs", said.get("inputs", "false"))
    pieces = stream_package(context.batches, get_batch_id(request), bag=form == "bagit", inputs=inputs)
    await anext(pieces)
    name = f"{get_batch_id(request)}{'-bag' if form == 'bagit' else ''}.zip"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Stream(_skip_empty(pieces), media_type="application/zip", headers=headers)


async def _skip_empty(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        if piece:
            yield piece


async def stream_events(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    said = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
    after = int(said) if said.isdecimal() and len(said) < 19 else 0
    await get_unified_status(context.batches, get_batch_id(request))
    streams = context.streams
    if len(streams) >= MAX_STREAMS:
        raise Retry("too many clients follow batches at the moment; poll /status instead", delay_seconds=10)
    return Stream(_write_events(context, get_batch_id(request), after), media_type="text/event-stream")


async def _write_events(context: ApiContext, batch_id: str, after: int) -> AsyncIterator[bytes]:
    clock, me = context.batches.clock, object()
    beat_at = clock.monotonic() + BEAT_EVERY_SECONDS
    context.streams.add(id(me))
    try:
        yield b"retry: 2000\n\n"
        news = watch_batch(context.batches, batch_id, after=after, pause=_build_pause(context))
        async for one in news:
            if one is None and clock.monotonic() < beat_at:
                continue
            beat_at = clock.monotonic() + BEAT_EVERY_SECONDS
            if one is None:
                yield b": still here\n\n"  # so that no proxy takes the connection for dead
            elif isinstance(one, BatchEvent):
                yield _encode_event(one.kind, _encoder.encode(one), one.no)
            else:
                yield _encode_event("progress", _encoder.encode(one))
        if not context.stopping.is_set():
            yield _encode_event("end", b"{}")
    except Retry as error:
        # No end event: the client reconnects and continues after the last event it has seen.
        _log.warning("following_broken_off: %s", error)
    finally:
        context.streams.discard(id(me))


def _build_pause(context: ApiContext) -> Callable[[], Awaitable[bool]]:
    async def pause() -> bool:
        try:
            async with asyncio.timeout(LOOK_EVERY_SECONDS):
                await context.stopping.wait()
        except TimeoutError:
            return True
        return False

    return pause


def _encode_event(kind: str, data: bytes, no: int | None = None) -> bytes:
    number = b"" if no is None else b"id: %d\n" % no
    return number + b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def _read_path(request: ApiRequest) -> str:
    path = request.query_params.get("path", "")
    if not path:
        raise Reject("Say which file: ?path=…, as the list of files names it")
    return _check_text("path", path)


def _check_text(name: str, said: str) -> str:
    if "\x00" in said or any("\ud800" <= one <= "\udfff" for one in said):
        raise Reject(f"{name} is not text")
    return said


def _read_flag(name: str, said: str) -> bool:
    if said not in {"true", "false"}:
        raise Reject(f"{name} is true or false, not {said[:80]!r}")
    return said == "true"


_GROUP = "Monitor"
_AT = "/api/batches/{batch_id:str}"
_PATH = Parameter(
    name="path", about="The file's path, as the list of files names it.", example="/box-7/p1.jpg"
)
ROUTES = (
    Route(
        method="GET",
        path="/status/{batch_id:str}",
        serve=show_unified_status,
        scope=Scope.READ,
        name="unifiedStatus",
        about="The status of a batch across all stages, with the counters of its phases.",
        group=_GROUP,
        contract=True,
        pages=True,
        answers=UnifiedStatus,
        errors=(404,),
        parameters=(
            Parameter(name="include_raw", about="`true` adds the stage's own answer.", example="true"),
        ),
    ),
    Route(
        method="GET",
        path="/logs/{batch_id:str}",
        serve=show_logs,
        scope=Scope.READ,
        name="batchLogs",
        about="The log of a batch, in the shape of the unified status service.",
        group=_GROUP,
        contract=True,
        pages=True,
        answers=BatchLogs,
        errors=(404,),
    ),
    Route(
        method="GET",
        path="/api/batches",
        serve=list_batches,
        scope=Scope.READ,
        name="listBatches",
        about="Batches, newest first.",
        group=_GROUP,
        answers=BatchPage,
        errors=(400,),
        parameters=(
            Parameter(name="state", about=f"Only in this state: {', '.join(BatchState)}.", example="done"),
            Parameter(name="phase", about="Only those at work in this phase, such as IMAGE_PROCESSING."),
            Parameter(name="tenant", about="Only of this tenant."),
            Parameter(name="ended", about="`true`: only those that have ended; `false`: only the others."),
            Parameter(name="before", about="`next` of the page before.", kind=int),
            Parameter(name="limit", about=f"At most so many, up to {MAX_PAGE}.", kind=int, example=100),
        ),
    ),
    Route(
        method="GET",
        path=f"{_AT}/files",
        serve=list_files,
        scope=Scope.READ,
        name="listFiles",
        about="The files of a batch in order of path, each with its state and, if it failed, why.",
        group=_GROUP,
        answers=FilePage,
        errors=(400, 404),
        parameters=(
            Parameter(name="state", about="done, failed, skipped, cancelled or pending.", example="failed"),
            Parameter(name="error_class", about="Only with this error class."),
            Parameter(name="after", about="`next` of the page before."),
            Parameter(name="limit", about=f"At most so many, up to {MAX_PAGE}.", kind=int, example=100),
        ),
    ),
    Route(
        method="GET",
        path=f"{_AT}/files/history",
        serve=show_file_history,
        scope=Scope.READ,
        name="fileHistory",
        about="The history of one file: what was made of it, and every attempt.",
        group=_GROUP,
        answers=InputHistory,
        errors=(400, 404),
        parameters=(_PATH,),
    ),
    Route(
        method="GET",
        path=f"{_AT}/files/download",
        serve=sign_download,
        scope=Scope.READ,
        name="downloadFile",
        about="A presigned URL for one file, an input or a result.",
        group=_GROUP,
        answers=DownloadUrl,
        errors=(400, 404),
        parameters=(_PATH, Parameter(name="redirect", about="`true`: go there at once (307).")),
    ),
    Route(
        method="GET",
        path=f"{_AT}/archive",
        serve=send_archive,
        scope=Scope.READ,
        name="downloadArchive",
        about="All results of an ended batch as one ZIP, plain or as a bag (BagIt).",
        group=_GROUP,
        answers=bytes,
        answer_type="application/zip",
        errors=(400, 404, 409),
        parameters=(
            Parameter(name="format", about="zip or bagit.", example="bagit"),
            Parameter(name="inputs", about="`true`: include the input files.", example="true"),
        ),
    ),
    Route(
        method="GET",
        path=f"{_AT}/events",
        serve=stream_events,
        scope=Scope.READ,
        name="batchEvents",
        about="Events as server-sent events; continues after Last-Event-ID, ends with the batch.",
        group=_GROUP,
        answers=bytes,
        answer_type="text/event-stream",
        errors=(404,),
        parameters=(
            Parameter(name="Last-Event-ID", about="The last event that was seen.", place="header"),
            Parameter(name="after", about="The same, where headers cannot be set.", kind=int),
        ),
    ),
)
