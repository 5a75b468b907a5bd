"""The upload of one file: it is announced, its bytes go straight to the store, then it is confirmed.

Promise: the store first, then the ledger. Whatever is repeated, by one client or by two, a file counts as
received only when a blob of its size is stored under its key; until then the batch cannot be closed. What is
stored beyond the announced size is deleted; no more is announced than batch and owner may have.
"""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from msgspec import Struct

from quire.blobs.port import BlobInfo
from quire.blobs.presigned_uploads import CompletedPart, StoredPart
from quire.ingest.content_types import detect_content_type, is_provable
from quire.ingest.context import (
    MULTIPART_FROM,
    PART_SIZE,
    IngestContext,
    bad_request,
    get_protocol_status,
    staging_prefix,
)
from quire.ingest.rules import FileRequest, read_file_request
from quire.ledger.port import Upload
from quire.ledger.submissions import AWAITED, NO_QUOTA, TAKEN, OwnerQuota, UploadLimits
from quire.model.cid import sha256_of
from quire.model.errors import Misconfigured, Missing, QuireError, Reject, Retry, Stale

_MAX_PARTS = 10_000


class UploadTicket(Struct, frozen=True, kw_only=True):
    """Where to send the bytes of a file; in parts when there is an `upload_id`. `there` lists the parts that
    a client that resumes need not send again. A `completed` file has no URLs.
    """

    key: str
    urls: list[str]
    upload_id: str = ""
    there: list[StoredPart] | None = None
    completed: bool = False


async def start_file(
    context: IngestContext, batch_id: str, said: Any, *, base_url: str, quota: OwnerQuota = NO_QUOTA
) -> UploadTicket:
    """Announce a file. It replaces an earlier announcement of its path, and what was sent for that, unless
    the client asks to `resume` and it is the same file: then the earlier upload continues. Raises Retry
    `quota` and Reject `too_large` when owner or batch would have more than they may.
    """
    number = await context.get_number(batch_id)
    wanted = read_file_request(said, batch_id, context.limits)
    resume = said.get("resume") is True
    if resume and (going_on := await _resume_upload(context, batch_id, number, wanted, base_url)) is not None:
        return going_on
    key = f"{staging_prefix(batch_id)}{wanted.path[1:]}"
    in_parts = wanted.size >= MULTIPART_FROM
    upload_id = ""
    if in_parts:
        upload_id = await context.presigned.begin(key, content_type=wanted.content_type, size=wanted.size)
    upload = Upload(
        path=wanted.path,
        state=AWAITED,
        size=wanted.size,
        stamp=context.ids.ulid(),
        key=key,
        content_type=wanted.content_type,
        cid=wanted.cid,
        config=wanted.config,
        upload_id=upload_id,
    )
    try:
        await _announce(context, number, upload, quota)
    except QuireError as error:
        await _abort_multipart(context, key, upload_id)
        if isinstance(error, Stale):
            raise await _explain_closed(context, batch_id, "cannot add files") from error
        raise
    urls = await _sign_urls(context, upload, base_url)
    return UploadTicket(key=key, urls=urls, upload_id=upload_id, there=[] if resume else None)


async def _announce(context: IngestContext, number: int, upload: Upload, quota: OwnerQuota) -> None:
    limits = UploadLimits(
        max_files=context.limits.max_files, max_bytes=context.limits.max_batch_bytes, owner=quota
    )
    # Bytes that arrive by an earlier URL wait for the lock, and are counted by this announcement afterwards.
    async with context.lock_key(upload.key):
        now = context.clock.now()
        earlier = await context.submissions.announce_upload(number, upload, now=now, limits=limits)
        if earlier is not None:
            await _abort_multipart(context, upload.key, earlier.upload_id)
            # Announced smaller now, what was sent before would be kept and not be counted.
            await context.blobs.delete(upload.key)


async def _resume_upload(
    context: IngestContext, batch_id: str, number: int, wanted: FileRequest, base_url: str
) -> UploadTicket | None:
    """The earlier upload of the same file; None when it is unknown to the store and must start again."""
    upload = await _find_same_upload(context, number, wanted)
    if upload is None or get_protocol_status(await context.get_submission(batch_id)) != "uploading":
        return None  # announcing raises the reason
    if upload.state == TAKEN:
        return UploadTicket(key=upload.key, urls=[], upload_id=upload.upload_id, there=[], completed=True)
    if not upload.upload_id:
        return None
    try:
        there = await context.presigned.list_parts(upload.key, upload.upload_id)
    except (Missing, Misconfigured):  # gone, or the store does not list parts
        return None
    urls = await _sign_urls(context, upload, base_url)
    there = [part for part in there if part.number <= len(urls)]
    return UploadTicket(key=upload.key, urls=urls, upload_id=upload.upload_id, there=there)


async def _find_same_upload(context: IngestContext, number: int, wanted: FileRequest) -> Upload | None:
    """The recorded upload of the path, if it is described the same: parts of different contents must not be
    mixed, and an old description must not stay.
    """
    try:
        upload = await context.submissions.get_upload(number, wanted.path)
    except Missing:
        return None
    corrected = upload.state == TAKEN and is_provable(upload.content_type)
    kind = wanted.content_type if corrected else upload.content_type
    noted = (upload.size, upload.cid, kind, upload.config)
    return upload if noted == (wanted.size, wanted.cid, wanted.content_type, wanted.config) else None


async def _sign_urls(context: IngestContext, upload: Upload, base_url: str) -> list[str]:
    presigned, seconds = context.presigned, context.limits.url_seconds
    if not upload.upload_id:
        return [await presigned.sign_put(upload.key, seconds=seconds, base_url=base_url, size=upload.size)]
    parts = -(-upload.size // PART_SIZE)
    return await presigned.sign_parts(
        upload.key, upload.upload_id, parts=parts, seconds=seconds, base_url=base_url, size=upload.size
    )


async def complete_file(context: IngestContext, batch_id: str, said: Any) -> None:
    """Confirm that the bytes were sent. May be repeated."""
    number = await context.get_number(batch_id)
    if not isinstance(said, dict) or not isinstance(said.get("r2_key"), str):
        raise bad_request("Missing or invalid r2_key")
    # Bytes that arrive meanwhile wait for the lock, and are refused afterwards.
    async with context.lock_key(said["r2_key"]):
        await _complete(context, batch_id, number, said)


async def _complete(context: IngestContext, batch_id: str, number: int, said: dict[str, Any]) -> None:
    upload = await _get_announced(context, batch_id, number, said["r2_key"])
    if upload.state == TAKEN:
        return
    stored = await (_join_parts(context, upload, said) if upload.upload_id else _get_stored(context, upload))
    if stored.size != upload.size:
        await _delete_excess(context, upload, stored)
        raise bad_request(
            f"Size mismatch: {upload.size} bytes were announced, {stored.size} are stored; "
            "start the file again and upload it anew",
            code="size_mismatch",
        )
    digest = await _verify_digest(context, upload, stored)
    now = context.clock.now()
    kind = await detect_content_type(context.blobs, upload)
    taken = msgspec.structs.replace(upload, state=TAKEN, digest=digest, taken_at=now, content_type=kind)
    try:
        await context.submissions.record_received(number, taken, now=now)
    except Stale as error:
        raise await _explain_closed(context, batch_id, "cannot complete files", started_again=True) from error


async def _delete_excess(context: IngestContext, upload: Upload, stored: BlobInfo) -> None:
    """Give back what a store that does not count has accepted beyond the announced size."""
    if stored.size > upload.size:
        await context.blobs.delete(upload.key)


@asynccontextmanager
async def accept_bytes(context: IngestContext, key: str, upload_id: str = "") -> AsyncIterator[int | None]:
    """Surrounds the storing of bytes under a key by its presigned URL, and gives the announced size. Raises
    Reject `not_awaited` when the file was confirmed, withdrawn or announced for another way of sending in the
    meantime: confirmed bytes never change.
    """
    async with context.lock_key(key):
        yield await _get_awaited_size(context, key, upload_id)


async def _get_awaited_size(context: IngestContext, key: str, upload_id: str) -> int | None:
    place, _, rest = key.partition("/")
    batch_id, slash, _ = rest.partition("/")
    if place != "staging" or not slash:
        return None
    try:
        upload = await context.submissions.get_upload(
            await context.get_number(batch_id), _path_of(batch_id, key)
        )
    except Missing:
        upload = None
    if upload is None or upload.state != AWAITED or (upload.upload_id and not upload_id):
        raise bad_request(
            "This file is not awaited any more: it was confirmed or given up; start it again to send other "
            "bytes",
            code="not_awaited",
        )
    return upload.size


async def withdraw_file(context: IngestContext, batch_id: str, key: Any) -> None:
    """Withdraw a file, so that the batch can be closed without it."""
    number = await context.get_number(batch_id)
    if not isinstance(key, str):
        raise bad_request("Missing or invalid r2_key")
    path = _path_of(batch_id, key)
    async with context.lock_key(key):
        try:
            earlier = await context.submissions.withdraw_upload(number, path, now=context.clock.now())
        except Stale as error:
            raise await _explain_closed(context, batch_id, "cannot withdraw files") from error
        if earlier is None:
            raise Missing("File not found in batch", code="unknown_file")
        await _abort_multipart(context, earlier.key, earlier.upload_id)
        await context.blobs.delete(earlier.key)


async def _get_announced(context: IngestContext, batch_id: str, number: int, key: str) -> Upload:
    try:
        return await context.submissions.get_upload(number, _path_of(batch_id, key))
    except Missing as error:
        raise Missing("File not found in batch", code="unknown_file") from error


def _path_of(batch_id: str, key: str) -> str:
    prefix = staging_prefix(batch_id)
    if not key.startswith(prefix) or "\x00" in key:
        raise Missing("File not found in batch", code="unknown_file")
    return key[len(prefix) - 1 :]


async def _join_parts(context: IngestContext, upload: Upload, said: dict[str, Any]) -> BlobInfo:
    if not said.get("upload_id") or not said.get("parts"):
        raise bad_request("Missing upload_id or parts for multipart upload")
    if said["upload_id"] != upload.upload_id:
        raise bad_request("upload_id mismatch")
    parts = _read_parts(said["parts"])
    try:
        return await context.presigned.join(upload.key, upload.upload_id, parts)
    except Missing as error:
        # Joined earlier, and the answer was lost; or never.
        with suppress(Missing):
            stored = await context.blobs.head(upload.key)
            if stored.size == upload.size:
                return stored
            await _delete_excess(context, upload, stored)
        raise bad_request(
            "The upload is not known to the storage any more; start the file again and upload it anew",
            code="upload_gone",
        ) from error


def _read_parts(said: Any) -> Sequence[CompletedPart]:
    wrong = bad_request("Invalid parts format")
    if not isinstance(said, list) or len(said) > _MAX_PARTS:
        raise wrong
    parts: dict[int, CompletedPart] = {}
    for one in said:
        if not isinstance(one, dict):
            raise wrong
        number, etag = one.get("part_number"), one.get("etag")
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= _MAX_PARTS:
            raise wrong
        if (
            not isinstance(etag, str)
            or not etag
            or len(etag) > 200
            or not etag.isprintable()
            or number in parts
        ):
            raise wrong
        parts[number] = CompletedPart(number, etag.strip('"'))
    return [parts[number] for number in sorted(parts)]


async def _get_stored(context: IngestContext, upload: Upload) -> BlobInfo:
    try:
        return await context.blobs.head(upload.key)
    except Missing as error:
        raise bad_request(
            "Object not found in storage: upload the file to its URL first", code="not_uploaded"
        ) from error


async def _verify_digest(context: IngestContext, upload: Upload, stored: BlobInfo) -> str:
    """The SHA-256 of the stored bytes, where it is known or cheap to compute; the CID must agree."""
    known = stored.metadata.get("sha256", "")
    named = sha256_of(upload.cid) if upload.cid else None
    if named is None or not context.limits.verify_cid_bytes:
        return known
    if not known and stored.size <= context.limits.verify_cid_bytes:
        known = await _hash_blob(context, upload.key)
    if known and known != named.hex():
        raise bad_request(
            "CID mismatch: the stored bytes are not those that the cid names; start the file again and "
            "upload it anew",
            code="cid_mismatch",
        )
    return known


async def _hash_blob(context: IngestContext, key: str) -> str:
    seen = hashlib.sha256()
    async for piece in context.blobs.stream(key):
        seen.update(piece)
    return seen.hexdigest()


async def _abort_multipart(context: IngestContext, key: str, upload_id: str) -> None:
    """Delete parts that will not be joined. If that fails, the store's own clean-up deletes them."""
    if upload_id:
        with suppress(Retry, Reject):
            await context.presigned.abort(key, upload_id)


async def _explain_closed(
    context: IngestContext, batch_id: str, cannot: str, *, started_again: bool = False
) -> Reject:
    status = get_protocol_status(await context.get_submission(batch_id))
    if started_again and status == "uploading":
        return bad_request(
            "The file was started again meanwhile; complete that upload instead", code="started_again"
        )
    return bad_request(f"Batch status is {status}, {cannot}", code="not_uploading")
