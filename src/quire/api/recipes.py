"""Recipe import over HTTP, as the published API has it: send photos, a page or parts of it, poll, save.

An import is accepted when everything that it needs is stored; the rest happens afterwards. Users are those of
the tokens, or the owners of API keys; what another user has does not exist.
"""

import asyncio
import functools
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from quire.api.context import ApiContext, Caller
from quire.api.form_parts import read_form
from quire.api.routing import ApiRequest, ApiResponse, json_response, read_json, read_number
from quire.api.upload_slots import UploadSlots
from quire.model.clock import timestamp
from quire.model.envelopes import MAX_IMAGES
from quire.model.errors import Reject
from quire.model.recipe import FieldProblem
from quire.recipes import lines, requests, saving
from quire.recipes.bodies import InvalidRecipe, convert_body, read_recipe
from quire.recipes.lines import JobView
from quire.recipes.photos import prepare_photos
from quire.recipes.port import JobStatus, RecipeJob, SavedRecipe
from quire.recipes.requests import ClientPayload, ImportAccepted, Requester
from quire.recipes.states import is_open

PAYLOAD_BYTES = 8 << 20
UPLOADS_AT_ONCE = 8
UPLOAD_WAIT_SECONDS = 20.0
SYNCHRONOUS_SECONDS = 60.0
MAX_WAIT_SECONDS = 60
LOOK_SECONDS = 0.5
MAX_TIER = 10
_uploads = UploadSlots(UPLOADS_AT_ONCE, UPLOAD_WAIT_SECONDS)

Serve = Callable[[ApiContext, ApiRequest, Caller], Awaitable[ApiResponse]]


class PhotosAccepted(Struct, frozen=True, kw_only=True):
    ingestion_id: str
    job_id: str


class PageBody(Struct, frozen=True, kw_only=True):
    url: str
    use_llm_fallback: bool = False
    save: bool = False


class JobAccepted(Struct, frozen=True, kw_only=True):
    """`next_action` is always null here: the server tries first, and the job says later what is to do."""

    id: str
    status: JobStatus = JobStatus.PENDING
    next_action: str | None = None
    next_action_reason: str | None = None


class PayloadInput(Struct, frozen=True, kw_only=True):
    source_type: str = "client_webview"
    source_url: str | None = None
    jsonld_blocks: tuple[str, ...] | None = None
    html_snippet: str | None = None
    extracted_at: str | None = None
    client: dict[str, Any] | None = None


class PayloadBody(Struct, frozen=True, kw_only=True):
    input: PayloadInput


class PageParsed(JobView, frozen=True, kw_only=True):
    """`recipe_id` of a recipe that was saved at once."""

    recipe_id: str | None = None


class SavedAnswer(Struct, frozen=True, kw_only=True):
    id: str
    parse_job_id: str | None
    created_at: str
    recipe: dict[str, Any]


class InvalidAnswer(Struct, frozen=True, kw_only=True):
    """Of a request that does not fit, with status 422."""

    error_code: str
    message: str
    details: list[FieldProblem] = field(default_factory=list)
    job_id: str | None = None


def answers_invalid(serve: Serve) -> Serve:
    """Answer a body that does not fit field by field."""

    @functools.wraps(serve)
    async def wrapped(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
        try:
            return await serve(context, request, caller)
        except InvalidRecipe as error:
            answer = InvalidAnswer(error_code=error.code, message=str(error), details=list(error.problems))
            return json_response(answer, status=422)

    return wrapped


@answers_invalid
async def import_photos(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    _check_tier(request.query_params.get("tier_max"))
    async with _uploads.take():
        with tempfile.TemporaryDirectory(prefix="quire-upload-") as folder:
            accepted = await _accept_photos(context, request, caller, Path(folder))
    answer = PhotosAccepted(ingestion_id=accepted.ingestion_id, job_id=accepted.job_id)
    return json_response(answer, status=202)


async def _accept_photos(
    context: ApiContext, request: ApiRequest, caller: Caller, folder: Path
) -> ImportAccepted:
    form = await read_form(
        request, folder, field_name="images", max_files=MAX_IMAGES, max_file_bytes=context.max_photo_bytes
    )
    if not form.files:
        raise Reject(f"Send 1 to {MAX_IMAGES} pictures in the field `images`", code="bad_request")
    key = request.headers.get("idempotency-key") or form.fields.get("idempotency_key")
    requester = _requester(caller, key)
    photos = await prepare_photos([one.path for one in form.files], context.photos)
    return await requests.import_pictures(
        context.recipes,
        requester,
        photos,
        title_hint=request.query_params.get("title_hint") or form.fields.get("title_hint", ""),
        filename=form.files[0].name,
        sent=requests.digest(*(one.digest for one in form.files)),
    )


@answers_invalid
async def import_page(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    accepted = await _import_page(context, request, caller, await read_json(request))
    return _job_accepted(accepted)


@answers_invalid
async def import_payload(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    said = convert_body(await read_json(request, limit=PAYLOAD_BYTES), PayloadBody).input
    payload = ClientPayload(
        source_url=said.source_url or "",
        jsonld_blocks=said.jsonld_blocks or (),
        html_snippet=said.html_snippet,
    )
    requester = _requester(caller, request.headers.get("idempotency-key"))
    return _job_accepted(await requests.import_payload(context.recipes, requester, payload))


@answers_invalid
async def import_anything(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    """Photos as a form, `{"url": …}`, or a recipe that a person has written."""
    if request.headers.get("content-type", "").lower().startswith("multipart/"):
        return await import_photos(context, request, caller)
    body = await read_json(request)
    if isinstance(body, dict) and "url" in body:
        return _job_accepted(await _import_page(context, request, caller, body))
    said = body.get("recipe", body) if isinstance(body, dict) else body
    draft, _ = read_recipe(said)
    requester = _requester(caller, request.headers.get("idempotency-key"))
    return _job_accepted(await requests.import_manual(context.recipes, requester, draft))


@answers_invalid
async def parse_page_now(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    """Wait for the outcome; where it takes too long the answer says how far it is."""
    body = await read_json(request)
    accepted = await _import_page(context, request, caller, body)
    job = await _wait(context, accepted.job_id, SYNCHRONOUS_SECONDS)
    recipe_id = None
    if job.status is JobStatus.COMPLETE and convert_body(body, PageBody).save:
        draft, _ = read_recipe((job.result or {}).get("recipe_draft"))
        saved = await saving.save_recipe(
            context.recipes, Requester(user_id=caller.recipe_user), draft, job.id
        )
        recipe_id, job = saved.id, await context.recipes.recipes.get_job(job.id)
    view = lines.to_view(job)
    values = {name: getattr(view, name) for name in view.__struct_fields__}
    return json_response(PageParsed(**values, recipe_id=recipe_id))


async def show_job(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    job = await lines.find_job(context.recipes, caller.recipe_user, _job_id(request))
    seconds = read_number(request, "wait", most=MAX_WAIT_SECONDS)
    if seconds is not None and is_open(job):
        job = await _wait(context, job.id, seconds)
    return json_response(lines.to_view(job))


async def list_jobs(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    said = request.query_params.get("status", JobStatus.COMPLETE.value).upper()
    if said not in list(JobStatus):
        raise Reject(f"status is one of {', '.join(JobStatus)}, not {said[:40]!r}", code="bad_request")
    expired = request.query_params.get("include_expired", "").lower() in {"true", "1"}
    found = await lines.list_lines(
        context.recipes, caller.recipe_user, frozenset({JobStatus(said)}), include_expired=expired
    )
    return json_response(found)


async def cancel_job(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    job = await saving.cancel_import(context.recipes, caller.recipe_user, _job_id(request), actor=caller.name)
    return json_response(lines.to_view(job))


@answers_invalid
async def save_recipe(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:
    draft, job_id = read_recipe(await read_json(request))
    requester = _requester(caller, request.headers.get("idempotency-key"))
    saved = await saving.save_recipe(context.recipes, requester, draft, job_id)
    return json_response(_to_answer(saved), status=201)


async def _import_page(
    context: ApiContext, request: ApiRequest, caller: Caller, body: object
) -> ImportAccepted:
    said = convert_body(body, PageBody)
    requester = _requester(caller, request.headers.get("idempotency-key"))
    return await requests.import_url(context.recipes, requester, said.url, use_model=said.use_llm_fallback)


async def _wait(context: ApiContext, job_id: str, seconds: float) -> RecipeJob:
    """The job at its end, or as it is when the time is over or the server stops."""
    ended = context.recipes.job_ends.watch(job_id)
    until = context.recipes.clock.monotonic() + seconds
    while True:
        job = await context.recipes.recipes.get_job(job_id)
        left = until - context.recipes.clock.monotonic()
        if not is_open(job) or left <= 0 or context.stopping.is_set():
            return job
        # Another process may end it, and notifies nobody here.
        try:
            async with asyncio.timeout(min(LOOK_SECONDS, left)):
                await ended.wait()
        except TimeoutError:
            continue
        ended.clear()


def _requester(caller: Caller, key: str | None) -> Requester:
    return Requester(user_id=caller.recipe_user, key=requests.check_key(key or None))


def _job_accepted(accepted: ImportAccepted) -> ApiResponse:
    return json_response(JobAccepted(id=accepted.job_id), status=202)


def _job_id(request: ApiRequest) -> str:
    return str(request.path_params["job_id"])


def _check_tier(said: str | None) -> None:
    """Published apps send it; which engines are asked is the OCR service's business."""
    if said is not None and not (said.isascii() and said.isdecimal() and 1 <= int(said[:4]) <= MAX_TIER):
        raise Reject(f"tier_max is a whole number from 1 to {MAX_TIER}", code="bad_request")


def _to_answer(saved: SavedRecipe) -> SavedAnswer:
    return SavedAnswer(
        id=saved.id, parse_job_id=saved.job_id, created_at=timestamp(saved.created_at), recipe=saved.recipe
    )
