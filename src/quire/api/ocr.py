"""The OCR service over HTTP: read pictures now, send a job and ask for it later, engines and queue.

In the shapes of the published service; what it does not have (references, results of several pictures, error
codes) comes beside them. Pictures come as base64 or as references, which are resolved by the service's rules.
"""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from quire.access.api_keys import Scope
from quire.api.context import ApiContext, Caller
from quire.api.routing import ApiRequest, ApiResponse, Route, json_response, read_json
from quire.api.upload_slots import UploadSlots
from quire.model.envelopes import MAX_IMAGES, ImageRef, ImageText
from quire.model.errors import Misconfigured, Reject
from quire.model.page_text import TextLine, Tier
from quire.ocr.image_jobs import InlineImage
from quire.ocr.image_refs import MAX_IMAGE_BYTES, is_web_address
from quire.ocr.port import PictureWish
from quire.ocr.service import COMPLETED, MAX_BATCH_IMAGES, OcrJob, OcrService

# Pictures as base64 within JSON: one of the largest, or many of the usual size.
MAX_BODY_BYTES = 64 << 20
SUBMISSIONS_AT_ONCE = 8  # bodies in memory
SUBMISSION_WAIT_SECONDS = 5.0
_submissions = UploadSlots(SUBMISSIONS_AT_ONCE, SUBMISSION_WAIT_SECONDS)
_GROUP = "OCR"
AUTO = "auto"  # whichever engine reads it
_LONGEST_LANGUAGE = 40
# Engines as the published service calls them, where it does not call them like the tier.
_PROVIDERS = {Tier.LLM_LOCAL: "llm_proxy_vision", Tier.LLM_CLOUD: "llm_proxy_cloud"}

Words = Annotated[str, Meta(max_length=_LONGEST_LANGUAGE)]


class OcrImage(Struct, kw_only=True):
    """`base64`, or `kind` and `value` of a reference."""

    base64: str | None = None
    content_type: str = ""
    kind: Literal["local_path", "s3", "minio", "db"] | None = None
    value: str = ""


class OcrBodyOptions(Struct, kw_only=True):
    """Without a language the first hint counts. `return_boxes` concerns pictures that are read now, `mode`
    nothing.
    """

    language: Words | None = None
    language_hints: list[Words] | None = None
    return_boxes: bool = True
    mode: str = "document"


class OcrBody(Struct, kw_only=True):
    """One `image`, or several `images` or `image_refs`. A `provider` can be chosen for pictures read now."""

    image: OcrImage | None = None
    images: list[OcrImage] | None = None
    image_refs: list[OcrImage] | None = None
    provider: str = AUTO
    document_id: str | None = None
    options: OcrBodyOptions | None = None


class OcrTextMeta(Struct, frozen=True, kw_only=True):
    index: int
    language: str
    confidence: float
    is_valid: bool
    text_len: int
    truncated: bool
    tier: str


class OcrBlock(Struct, frozen=True, kw_only=True):
    """A line. `bbox` is left, top, width and height, in pixels of the upright picture."""

    text: str
    bbox: list[float]
    confidence: float


class OcrText(Struct, frozen=True, kw_only=True):
    """The text of a picture; empty with an error. `blocks` are there for pictures that are read now."""

    provider_used: str
    text: str
    blocks: list[OcrBlock]
    meta: OcrTextMeta
    error: str | None = None
    error_code: str | None = None


class OcrBatchMeta(Struct, frozen=True, kw_only=True):
    total_images: int
    valid_images: int
    total_duration_ms: float
    provider_used: str


class OcrBatchTexts(Struct, frozen=True, kw_only=True):
    results: list[OcrText]
    meta: OcrBatchMeta


class OcrJobReceipt(Struct, frozen=True, kw_only=True):
    job_id: str
    status: str
    created_at: str


class OcrJobDescription(Struct, frozen=True, kw_only=True):
    """`result` is the text of all pictures together, `results` has each."""

    job_id: str
    status: str
    created_at: str
    updated_at: str | None = None
    result: OcrText | None = None
    results: list[OcrText] = []
    error: str | None = None
    error_code: str | None = None


class OcrProviders(Struct, frozen=True):
    """Which engines are there."""

    providers: dict[str, bool]


class OcrQueueStatus(Struct, frozen=True, kw_only=True):
    """`redis_connected` means: the queue can be reached, whatever it is kept in."""

    redis_connected: bool
    queue: str
    queue_length: int
    delayed: int
    processing: int
    dead: int


async def show_providers(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    found = await _service(context).list_providers()
    return json_response(OcrProviders({_provider(tier): is_there for tier, is_there in found.items()}))


async def show_queue(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    service = _service(context)
    depth = await service.count_queued()
    return json_response(
        OcrQueueStatus(
            redis_connected=True,
            queue=service.rules.queue,
            queue_length=depth.waiting,
            delayed=depth.delayed,
            processing=depth.leased,
            dead=depth.dead,
        )
    )


async def submit_job(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    service = _service(context)
    async with _submissions.take():
        images, wish = await _read_images(request, caller, most=MAX_IMAGES)
        if wish.tiers:
            raise _bad_request(
                "provider: only `auto` for pictures that are read later; their worker has its engines"
            )
        correlation = request.headers.get("x-correlation-id", "")[:200] or None
        job = await service.submit(images, language=wish.language, owner=caller.owner, request_id=correlation)
    receipt = OcrJobReceipt(job_id=job.job_id, status=job.status, created_at=job.created_at)
    return json_response(receipt, status=202)


async def show_job(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    job = await _service(context).find(str(request.path_params["job_id"]), owner=caller.owner)
    return json_response(_describe_job(job))


async def read_batch(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    service, clock = _service(context), context.ingest.clock
    async with service.admitting():
        images, wish = await _read_images(request, caller, most=MAX_BATCH_IMAGES)
        began = clock.monotonic()
        found = await service.read_now(images, wish)
        texts = [_describe_text(one.text, one.lines) for one in found]
    used = {one.provider_used for one in texts if one.meta.is_valid}
    meta = OcrBatchMeta(
        total_images=len(texts),
        valid_images=sum(one.meta.is_valid for one in texts),
        total_duration_ms=round((clock.monotonic() - began) * 1000, 2),
        provider_used=used.pop() if len(used) == 1 else AUTO,
    )
    return json_response(OcrBatchTexts(results=texts, meta=meta))


def _service(context: ApiContext) -> OcrService:
    if context.ocr is None:
        raise Misconfigured("this server has no OCR service", code="misconfigured")
    return context.ocr


async def _read_images(
    request: ApiRequest, caller: Caller, *, most: int
) -> tuple[list[ImageRef | InlineImage], PictureWish]:
    """The pictures, numbered in their order, and how they are to be read; the body is not kept. Raises
    Reject.
    """
    try:
        body = msgspec.convert(await read_json(request, limit=MAX_BODY_BYTES), OcrBody)
    except msgspec.ValidationError as error:
        raise _bad_request(str(error)) from error
    listed = [[body.image] if body.image is not None else None, body.images, body.image_refs]
    given = [one for one in listed if one is not None]
    if len(given) != 1:
        raise _bad_request("give exactly one of image, images and image_refs")
    if not 1 <= len(given[0]) <= most:
        raise _bad_request(f"give 1 to {most} pictures")
    images = [await _read_image(one, index) for index, one in enumerate(given[0])]
    if caller.tenant and any(isinstance(one, ImageRef) and not is_web_address(one) for one in images):
        # Folder, buckets and database of pictures are the whole server's: nothing there tells tenants apart.
        raise Reject(
            "A key that is bound to a tenant may send pictures and web addresses, no other references",
            code="forbidden",
        )
    return images, _wish_of(body)


def _wish_of(body: OcrBody) -> PictureWish:
    options = body.options or OcrBodyOptions()
    tiers = {name: tier.value for tier, name in _PROVIDERS.items()} | {"rapidocr": Tier.PADDLEOCR.value}
    return PictureWish(
        language=options.language or next(iter(options.language_hints or ()), "") or "en",
        places=options.return_boxes,
        tiers=() if body.provider == AUTO else (tiers.get(body.provider, body.provider),),
    )


async def _read_image(image: OcrImage, index: int) -> ImageRef | InlineImage:
    if (image.base64 is None) == (image.kind is None):
        raise _bad_request(f"picture {index}: give either base64, or kind and value")
    if image.kind is not None:
        if not image.value:
            raise _bad_request(f"picture {index}: the value of the reference is empty")
        return ImageRef(kind=image.kind, value=image.value, index=index)
    text = image.base64 or ""
    if len(text) > MAX_IMAGE_BYTES * 4 // 3 + 4:
        raise Reject(f"picture {index} is larger than {MAX_IMAGE_BYTES} bytes", code="too_large")
    try:
        data = await asyncio.to_thread(base64.b64decode, text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _bad_request(f"picture {index}: this is no base64") from error
    if not data:
        raise _bad_request(f"picture {index} is empty")
    return InlineImage(data=data, index=index)


def _bad_request(why: str) -> Reject:
    return Reject(why, code="bad_ocr_request")


def _provider(tier: str) -> str:
    return _PROVIDERS.get(Tier(tier), tier) if tier in set(Tier) else tier


def _describe_line(line: TextLine) -> OcrBlock:
    box, sure = line.box, [word.confidence for word in line.words]
    return OcrBlock(
        text=" ".join(word.text for word in line.words),
        bbox=[box.left, box.top, box.right - box.left, box.bottom - box.top],
        confidence=round(sum(sure) / len(sure), 4) if sure else 0.0,
    )


def _describe_text(text: ImageText, lines: Sequence[TextLine] = ()) -> OcrText:
    meta = text.meta
    return OcrText(
        provider_used=_provider(meta.tier),
        text=text.ocr_text,
        blocks=[_describe_line(line) for line in lines],
        meta=OcrTextMeta(
            index=text.index,
            language=meta.language,
            confidence=round(meta.confidence, 4),
            is_valid=meta.is_valid,
            text_len=meta.text_len,
            truncated=text.truncated,
            tier=meta.tier,
        ),
        error=text.error.message if text.error is not None else None,
        error_code=text.error.code if text.error is not None else None,
    )


def _describe_job(job: OcrJob) -> OcrJobDescription:
    texts = [_describe_text(one) for one in job.results]
    valid = [one for one in texts if one.meta.is_valid]
    result = None
    if job.status == COMPLETED and valid:
        joined = "\n\n".join(one.text for one in valid)
        result = msgspec.structs.replace(valid[0], text=joined)
    return OcrJobDescription(
        job_id=job.job_id,
        status=job.status,
        created_at=job.created_at,
        updated_at=job.updated_at,
        result=result,
        results=texts,
        error=job.error.message if job.error is not None else None,
        error_code=job.error.code if job.error is not None else None,
    )


_EXAMPLE = {"image": {"content_type": "image/png", "base64": "iVBORw0KGgo…"}, "options": {"language": "en"}}
_REFS = {"image_refs": [{"kind": "s3", "value": "s3://recipes/7/0.jpg"}], "options": {"language": "en"}}
ROUTES = (
    Route(
        method="GET",
        path="/v1/providers",
        serve=show_providers,
        scope=Scope.SUBMIT,
        name="listOcrProviders",
        about="The OCR engines, and whether each is there.",
        group=_GROUP,
        app_key=True,
        answers=OcrProviders,
        answer_example={"providers": {"tesseract": True, "easyocr": False}},
        errors=(401, 403, 429, 500),
    ),
    Route(
        method="GET",
        path="/v1/queue/status",
        serve=show_queue,
        scope=Scope.READ,
        name="showOcrQueue",
        about="How many requests for OCR wait, and how many are being worked on.",
        group=_GROUP,
        app_key=True,
        whole=True,
        answers=OcrQueueStatus,
        errors=(401, 403, 429, 503),
    ),
    Route(
        method="POST",
        path="/v1/ocr",
        serve=submit_job,
        scope=Scope.SUBMIT,
        name="submitOcrJob",
        about=f"Send a job of 1 to {MAX_IMAGES} pictures; workers read them (`quire ocr worker`).",
        group=_GROUP,
        app_key=True,
        body=OcrBody,
        body_example=_REFS,
        answers=OcrJobReceipt,
        status=202,
        errors=(400, 401, 403, 408, 413, 422, 429, 503),
    ),
    Route(
        method="GET",
        path="/v1/ocr/jobs/{job_id:str}",
        serve=show_job,
        scope=Scope.SUBMIT,
        name="showOcrJob",
        about="A job that the caller has sent within the last day, with its texts once it is completed.",
        group=_GROUP,
        app_key=True,
        answers=OcrJobDescription,
        errors=(401, 403, 404, 429, 503),
    ),
    Route(
        method="POST",
        path="/v1/ocr/batch",
        serve=read_batch,
        scope=Scope.SUBMIT,
        name="readOcrBatch",
        about=f"Read 1 to {MAX_BATCH_IMAGES} pictures now and wait for their texts.",
        group=_GROUP,
        app_key=True,
        body=OcrBody,
        body_example=_EXAMPLE,
        answers=OcrBatchTexts,
        errors=(400, 401, 403, 408, 413, 422, 429, 503),
    ),
)
