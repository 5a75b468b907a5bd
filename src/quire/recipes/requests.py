"""Accepts imports: of pictures, of a page, of parts of a page, and of what a person has written.

Promises: when one of these functions returns, the import is stored with everything that it needs and goes on
after any crash; the same request with the same idempotency key gets the same answer and adds nothing. What it
needs from others, such as Redis, need not be there. Must not know: HTTP.
"""

import hashlib
import logging
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from quire.blobs import content
from quire.model.errors import Reject, Retry, Stale
from quire.model.ids import Ids
from quire.model.recipe import RecipeDraft
from quire.recipes.context import RecipeContext
from quire.recipes.port import RecipeJob, RequestKey
from quire.recipes.starting import start_import
from quire.steps.recipe.import_values import ImportKind, ImportRequest
from quire.tools.guarded_fetch import LONGEST_FETCHED_URL, GuardedFetcher

MAX_KEY = 255
MAX_HINT = 200
MAX_BLOCKS = 10
MAX_BLOCK_BYTES = 200_000
MAX_SNIPPET_BYTES = 400_000
SETTING = "recipes.allow_private"
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

_log = logging.getLogger("quire.recipes")


class Requester(Struct, frozen=True, kw_only=True):
    """Who asks, and the idempotency key of the request."""

    user_id: str
    key: str | None = None


class ImportAccepted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    job_id: str
    ingestion_id: str = ""


class ClientPayload(Struct, frozen=True, kw_only=True):
    """What an app has taken from the page that it shows."""

    source_url: str = ""
    jsonld_blocks: tuple[str, ...] = ()
    html_snippet: str | None = None


async def import_pictures(
    context: RecipeContext,
    requester: Requester,
    pictures: Sequence[bytes],
    *,
    title_hint: str = "",
    filename: str = "",
    sent: str = "",
) -> ImportAccepted:
    """`pictures` are JPEGs as the OCR service gets them; `sent` is the digest of what was sent."""
    rules, job_id, ingestion_id = context.rules, new_uuid(context.ids), new_uuid(context.ids)
    keys = [f"recipe-images/{requester.user_id}/{ingestion_id}/{index}.jpg" for index in range(len(pictures))]
    for key, picture in zip(keys, pictures, strict=True):
        await context.blobs.put(key, picture, content_type="image/jpeg")
    asks = rules.asks_service
    request = ImportRequest(
        **_shared(context, job_id, "image", asks_model=rules.has_model),
        title_hint=title_hint[:MAX_HINT],
        filename=filename[:MAX_HINT],
        image_refs=tuple(context.image_ref(key, index) for index, key in enumerate(keys)) if asks else (),
        pictures=() if asks else tuple(pictures),
        reading=rules.reading,
    )
    data = {"image_keys": keys, "title_hint": request.title_hint}
    accepted = ImportAccepted(job_id=job_id, ingestion_id=ingestion_id)
    marks = sent or digest(*pictures)
    fingerprint = digest("image", title_hint, marks)
    try:
        made = await _accept(context, requester, request, accepted, data, fingerprint, images=len(keys))
    except Reject:
        await _delete(context, keys)
        raise
    if made != accepted:
        await _delete(context, keys)
    return made


async def import_url(
    context: RecipeContext,
    requester: Requester,
    url: str,
    *,
    use_model: bool = False,
    job_id: str | None = None,
) -> ImportAccepted:
    """Raises Reject `invalid_url` for an address that would never be fetched."""
    check_url(context, url)
    job_id = job_id or new_uuid(context.ids)
    asks_model = use_model and context.rules.has_model
    request = ImportRequest(**_shared(context, job_id, "url", asks_model=asks_model), url=url)
    fingerprint = digest("url", url, str(use_model))
    return await _accept(context, requester, request, ImportAccepted(job_id=job_id), {}, fingerprint)


async def import_payload(
    context: RecipeContext, requester: Requester, payload: ClientPayload
) -> ImportAccepted:
    """Raises Reject `invalid_payload` for one that is empty, too large, or no text."""
    _check_payload(payload)
    job_id = new_uuid(context.ids)
    request = ImportRequest(
        **_shared(context, job_id, "payload"),
        url=payload.source_url,
        jsonld_blocks=payload.jsonld_blocks,
        html_snippet=payload.html_snippet,
    )
    fingerprint = digest("payload", msgspec.json.encode(payload))
    return await _accept(context, requester, request, ImportAccepted(job_id=job_id), {}, fingerprint)


async def import_manual(
    context: RecipeContext, requester: Requester, draft: RecipeDraft, *, job_id: str | None = None
) -> ImportAccepted:
    """The recipe is saved when it is valid."""
    job_id = job_id or new_uuid(context.ids)
    request = ImportRequest(**_shared(context, job_id, "manual"), draft=draft)
    fingerprint = digest("manual", msgspec.json.encode(draft))
    return await _accept(context, requester, request, ImportAccepted(job_id=job_id), {}, fingerprint)


async def _delete(context: RecipeContext, keys: Sequence[str]) -> None:
    """Pictures of a request that was repeated or refused."""
    for key in keys:
        with suppress(Retry):
            await context.blobs.delete(key)


def check_url(context: RecipeContext, url: str) -> str:
    """Raises Reject `invalid_url`; no name is resolved here."""
    fetcher = GuardedFetcher(allow_private=context.rules.allow_private, setting=SETTING)
    try:
        return fetcher.check_url(url)
    except Reject as error:
        raise Reject(f"this page cannot be imported: {error}", code="invalid_url") from error


def check_key(key: str | None) -> str | None:
    """An idempotency key. Raises Reject."""
    if key is not None and (not 0 < len(key) <= MAX_KEY or not key.isprintable()):
        raise Reject(f"Idempotency-Key must be printable and at most {MAX_KEY} characters long")
    return key


def digest(*parts: str | bytes) -> str:
    made = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "big"))
        made.update(data)
    return made.hexdigest()


def new_uuid(ids: Ids) -> str:
    """A UUID with the bits of a fresh ULID: the published API has UUIDs as ids."""
    number = 0
    for letter in ids.ulid():
        number = number << 5 | _CROCKFORD.index(letter)
    return str(uuid.UUID(int=number & (1 << 128) - 1, version=4))


def _check_payload(payload: ClientPayload) -> None:
    if len(payload.jsonld_blocks) > MAX_BLOCKS:
        raise _bad(f"at most {MAX_BLOCKS} blocks of JSON-LD are read, not {len(payload.jsonld_blocks)}")
    if any(_size(block) > MAX_BLOCK_BYTES for block in payload.jsonld_blocks):
        raise _bad(f"a block of JSON-LD has at most {MAX_BLOCK_BYTES} bytes")
    if _size(payload.html_snippet or "") > MAX_SNIPPET_BYTES:
        raise _bad(f"a piece of HTML has at most {MAX_SNIPPET_BYTES} bytes")
    if _size(payload.source_url) > LONGEST_FETCHED_URL:
        raise _bad(f"source_url has at most {LONGEST_FETCHED_URL} bytes")
    if not any(block.strip() for block in payload.jsonld_blocks) and not (payload.html_snippet or "").strip():
        raise _bad("there is nothing to read: send jsonld_blocks, html_snippet or both")


def _shared(
    context: RecipeContext, job_id: str, kind: ImportKind, *, asks_model: bool = False
) -> dict[str, Any]:
    rules = context.rules
    return {
        "job_id": job_id,
        "kind": kind,
        "received_at": context.clock.now(),
        "language": rules.language,
        "reply_to": rules.reply_to,
        "asks_model": asks_model,
        "ocr_seconds": rules.ocr_seconds,
        "fetch_seconds": rules.fetch_seconds,
        "allow_private": rules.allow_private,
        "limits": rules.limits,
    }


async def _accept(
    context: RecipeContext,
    requester: Requester,
    request: ImportRequest,
    accepted: ImportAccepted,
    data: dict[str, Any],
    fingerprint: str,
    *,
    images: int = 0,
) -> ImportAccepted:
    stored = await content.put_bytes(context.blobs, msgspec.json.encode(request))
    now = context.clock.now()
    job = RecipeJob(
        id=request.job_id,
        user_id=requester.user_id,
        job_type=request.kind,
        url=request.url,
        use_llm_fallback=request.asks_model,
        job_data=data
        | {"document": {"key": stored.key, "size": stored.size, "digest": stored.digest}}
        | ({"ocr": "queue" if request.image_refs else "here"} if images else {}),
        ingestion_id=accepted.ingestion_id or None,
        created_at=now,
        updated_at=now,
    )
    key = None
    if requester.key is not None:
        key = RequestKey(
            user_id=requester.user_id,
            key=requester.key,
            fingerprint=fingerprint,
            answer=msgspec.json.encode(accepted).decode(),
        )
    earlier = await context.recipes.add_job(
        job, images=images, request=key, keys_since=now - context.rules.key_seconds
    )
    if earlier is not None:
        return msgspec.json.decode(earlier, type=ImportAccepted)
    try:
        await start_import(context, job)
    except (Retry, Stale) as error:
        _log.warning("recipe_import_starts_later: %s: %s", job.id, error)
    return accepted


def _size(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise _bad("the text has half a character, which UTF-8 cannot say") from error


def _bad(words: str) -> Reject:
    return Reject(words, code="invalid_payload")
