"""The batch upload protocol, exactly as published clients speak it."""

from collections.abc import AsyncIterator
from typing import Any

from litestar.response import Stream
from msgspec import UNSET, Struct, UnsetType

from quire.access.api_keys import Scope
from quire.api.context import ApiContext, Caller
from quire.api.file_start import StartAnswer, StartBody, build_start_answer
from quire.api.routing import (
    JSON,
    ApiRequest,
    ApiResponse,
    Parameter,
    Route,
    get_batch_id,
    json_response,
    read_json,
)
from quire.ingest.context import PART_SIZE, get_protocol_status, staging_prefix
from quire.ingest.file_upload import complete_file, start_file, withdraw_file
from quire.ingest.finalization import ClosedBatch, finalize
from quire.ingest.new_batch import Submitter, open_batch
from quire.ingest.processed_batch import accept_processed
from quire.ingest.status import StatusFiles, SubmissionLine, UploadLine, stream_status
from quire.model.errors import Reject

PROCESSED_BYTES = 256 << 20
MAX_KEY = 255

_CONFIG = {"ocr": True, "describe": True, "pinax": True}
_BATCH = "01KA0000000000000000000000"
_KEY = f"staging/{_BATCH}/fonds/box-7/scans/page 001.tif"


class InitBody(Struct, frozen=True, kw_only=True):
    uploader: str
    root_path: str
    file_count: int
    total_size: int
    parent_pi: str | UnsetType | None = UNSET
    metadata: dict[str, Any] | UnsetType | None = UNSET
    custom_prompts: dict[str, str] | UnsetType | None = UNSET


class InitAnswer(Struct, frozen=True, kw_only=True):
    batch_id: str
    session_id: str


class PartDone(Struct, frozen=True, kw_only=True):
    part_number: int
    etag: str


class CompleteBody(Struct, frozen=True, kw_only=True):
    r2_key: str
    upload_id: str | UnsetType = UNSET
    parts: list[PartDone] | UnsetType = UNSET


class Success(Struct, frozen=True, kw_only=True):
    success: bool


class FinalizeBody(Struct, frozen=True, kw_only=True):
    """May be empty."""

    skip_incomplete: bool = False


class FinalizeAnswer(Struct, frozen=True, kw_only=True):
    batch_id: str
    status: str
    files_uploaded: int
    total_bytes: int
    r2_prefix: str
    warnings: list[str] | UnsetType = UNSET


class ProcessedFile(Struct, frozen=True, kw_only=True):
    r2_key: str
    logical_path: str
    file_name: str
    file_size: int
    content_type: str | UnsetType = UNSET
    cid: str | UnsetType | None = UNSET
    processing_config: dict[str, Any] | UnsetType = UNSET
    source_file: str | UnsetType | None = UNSET
    preprocessor_tags: list[str] | UnsetType = UNSET


class ProcessedBody(Struct, frozen=True, kw_only=True):
    files: list[ProcessedFile]


class ProcessedAnswer(Struct, frozen=True, kw_only=True):
    success: bool
    batch_id: str
    status: str
    total_files: int


class StatusAnswer(SubmissionLine, frozen=True, kw_only=True):
    files: list[UploadLine] | UnsetType = UNSET  # left out when that was asked for


async def init_batch(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    asker = Submitter(
        owner=caller.owner, tenant=caller.tenant, max_batches=caller.max_batches, quota=caller.quota
    )
    key = request.headers.get("idempotency-key") or None
    if key is not None and (len(key) > MAX_KEY or not key.isprintable()):
        raise Reject(f"Idempotency-Key must be printable and at most {MAX_KEY} characters long")
    opened = await open_batch(context.ingest, await read_json(request), asker, idempotency_key=key)
    return json_response(InitAnswer(batch_id=opened.batch.id, session_id=opened.session_id), status=201)


async def start_upload(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    said, base_url = await read_json(request), context.base_url(request)
    batch_id = get_batch_id(request)
    ticket = await start_file(context.ingest, batch_id, said, base_url=base_url, quota=caller.quota)
    return json_response(build_start_answer(ticket))


async def complete_upload(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    await complete_file(context.ingest, get_batch_id(request), await read_json(request))
    return json_response(Success(success=True))


async def withdraw_upload(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    said = await read_json(request, empty={})
    key = request.query_params.get("r2_key") or (said.get("r2_key") if isinstance(said, dict) else None)
    await withdraw_file(context.ingest, get_batch_id(request), key)
    return json_response(Success(success=True))


async def finalize_batch(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    said = await read_json(request, empty={})
    if not isinstance(said, dict):
        raise Reject("Invalid JSON body (must be an object)")
    closed = await finalize(
        context.ingest, get_batch_id(request), skip_incomplete=said.get("skip_incomplete") is True
    )
    context.wake()
    return json_response(_closed(closed))


def _closed(closed: ClosedBatch) -> FinalizeAnswer:
    submission = closed.submission
    return FinalizeAnswer(
        batch_id=submission.batch.id,
        status=get_protocol_status(submission),
        files_uploaded=closed.files,
        total_bytes=closed.size,
        r2_prefix=staging_prefix(submission.batch.id),
        warnings=closed.warnings or UNSET,
    )


async def enqueue_processed(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    said = await read_json(request, limit=PROCESSED_BYTES)
    total = await accept_processed(context.ingest, get_batch_id(request), said)
    context.wake()
    return json_response(
        ProcessedAnswer(success=True, batch_id=get_batch_id(request), status="enqueued", total_files=total)
    )


async def show_status(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    said = request.query_params.get("files", "")
    files = StatusFiles(said) if said in list(StatusFiles) else StatusFiles.PRESENT
    pieces = stream_status(context.ingest, get_batch_id(request), files=files)
    # The first piece before the status line: an unknown batch must become a 404.
    first = await anext(pieces)
    return Stream(_after(first, pieces), media_type=JSON)


async def _after(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


_GROUP = "Upload"
_AT = "/api/batches/{batch_id:str}"
ROUTES = (
    Route(
        method="POST",
        path="/api/batches/init",
        serve=init_batch,
        scope=Scope.SUBMIT,
        name="openBatch",
        about="Open a batch that takes uploads.",
        group=_GROUP,
        contract=True,
        pages=True,
        body=InitBody,
        body_example={
            "uploader": "ana@example.org",
            "root_path": "/fonds/box-7",
            "parent_pi": "",
            "file_count": 3,
            "total_size": 14680064,
            "metadata": {"shelf": "B7"},
            "custom_prompts": {"general": "Letters in Catalan"},
        },
        answers=InitAnswer,
        answer_example={"batch_id": _BATCH, "session_id": f"sess_{_BATCH}"},
        status=201,
        errors=(400, 413, 422, 429),
        parameters=(
            Parameter(
                name="Idempotency-Key",
                about="The same key again gives the same batch; another body under it is refused.",
                place="header",
            ),
        ),
    ),
    Route(
        method="POST",
        path=f"{_AT}/files/start",
        serve=start_upload,
        scope=Scope.SUBMIT,
        name="startFile",
        about="Announce a file and get the URL, or the URLs of its parts, to send its bytes to.",
        group=_GROUP,
        contract=True,
        pages=True,
        body=StartBody,
        body_example={
            "file_name": "page 001.tif",
            "file_size": 12000000,
            "logical_path": "/fonds/box-7/scans/page 001.tif",
            "content_type": "image/tiff",
            "processing_config": _CONFIG,
            "resume": True,
        },
        answers=StartAnswer,
        answer_example={
            "r2_key": _KEY,
            "upload_type": "multipart",
            "upload_id": "u-9",
            "part_size": PART_SIZE,
            "presigned_urls": [
                {"part_number": 1, "url": "https://store.example/1"},
                {"part_number": 2, "url": "https://store.example/2"},
            ],
            "parts": [{"part_number": 1, "etag": "9b2c", "size": PART_SIZE}],
        },
        errors=(400, 404, 413, 429),
    ),
    Route(
        method="POST",
        path=f"{_AT}/files/complete",
        serve=complete_upload,
        scope=Scope.SUBMIT,
        name="completeFile",
        about="Confirm that the bytes of a file have been sent. May be repeated.",
        group=_GROUP,
        contract=True,
        pages=True,
        body=CompleteBody,
        body_example={
            "r2_key": _KEY,
            "upload_id": "u-9",
            "parts": [{"part_number": 1, "etag": "9b2c"}, {"part_number": 2, "etag": "77aa"}],
        },
        answers=Success,
        answer_example={"success": True},
        errors=(400, 404, 413),
    ),
    Route(
        method="DELETE",
        path=f"{_AT}/files",
        serve=withdraw_upload,
        scope=Scope.SUBMIT,
        name="withdrawFile",
        about="Withdraw a file, so that the batch can be closed without it.",
        group=_GROUP,
        contract=True,
        pages=True,
        answers=Success,
        answer_example={"success": True},
        errors=(400, 404),
        parameters=(Parameter(name="r2_key", about="The key that files/start gave.", example=_KEY),),
    ),
    Route(
        method="POST",
        path=f"{_AT}/finalize",
        serve=finalize_batch,
        scope=Scope.SUBMIT,
        name="finalizeBatch",
        about="Close the batch: its manifest is written and its work begins. May be repeated.",
        group=_GROUP,
        contract=True,
        pages=True,
        body=FinalizeBody,
        body_example={},
        body_required=False,
        answers=FinalizeAnswer,
        answer_example={
            "batch_id": _BATCH,
            "status": "preprocessing",
            "files_uploaded": 3,
            "total_bytes": 14680064,
            "r2_prefix": f"staging/{_BATCH}/",
        },
        errors=(400, 404, 413, 503),
    ),
    Route(
        method="POST",
        path=f"{_AT}/enqueue-processed",
        serve=enqueue_processed,
        scope=Scope.OPERATE,
        name="enqueueProcessed",
        about="A foreign orchestrator has preprocessed the batch: its files are replaced by these.",
        group=_GROUP,
        contract=True,
        pages=True,
        body=ProcessedBody,
        body_example={
            "files": [
                {
                    "r2_key": f"staging/{_BATCH}/fonds/box-7/scans/p1.jpg.ref.json",
                    "logical_path": "/fonds/box-7/scans/p1.jpg.ref.json",
                    "file_name": "p1.jpg.ref.json",
                    "file_size": 212,
                    "content_type": JSON,
                    "processing_config": _CONFIG,
                    "source_file": "p1.jpg",
                    "preprocessor_tags": ["ImageProcessor"],
                }
            ]
        },
        answers=ProcessedAnswer,
        answer_example={"success": True, "batch_id": _BATCH, "status": "enqueued", "total_files": 1},
        errors=(400, 404, 413),
    ),
    Route(
        method="GET",
        path=f"{_AT}/status",
        serve=show_status,
        scope=Scope.SUBMIT,
        name="batchStatus",
        about="The batch as its sender described it, and the files that it has now.",
        group=_GROUP,
        contract=True,
        pages=True,
        answers=StatusAnswer,
        errors=(404,),
        parameters=(
            Parameter(
                name="files",
                about="`false` leaves the files out; `uploaded` lists them as they were sent.",
                example="false",
            ),
        ),
    ),
)
