"""One file arrives: it is announced, its bytes go straight to the store, then it is confirmed.

Promise: the store first, then the ledger. Whatever is repeated, by one sender or by two, a file is taken only
when an object of its size lies under its key; until then the batch cannot be closed.
"""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from msgspec import Struct

from quire.blobs.port import Stored
from quire.blobs.presigned import Part, StoredPart
from quire.ingest.content_types import kind_of, may_be_proven
from quire.ingest.context import (
    MULTIPART_FROM,
    PART_SIZE,
    IngestContext,
    prefix_of,
    refused,
    status_of,
)
from quire.ingest.rules import Announcement, announcement
from quire.ledger.port import Upload
from quire.ledger.submissions import AWAITED, TAKEN
from quire.model.cid import sha256_of
from quire.model.errors import Misconfigured, Missing, QuireError, Reject, Retry, Stale

_MAX_PARTS = 10_000


class Ticket(Struct, frozen=True, kw_only=True):
    """Where the bytes of a file may be sent. In parts when there is an `upload_id`. `there` is for those who
    go on after a break: the parts that need not be sent again. What is `completed` has no URLs.
    """

    key: str
    urls: list[str]
    upload_id: str = ""
    there: list[StoredPart] | None = None
    completed: bool = False


async def start_file(front: IngestContext, batch_id: str, said: Any, *, base_url: str) -> Ticket:
    """Announced again, a file takes the place of what was announced under its path; unless the sender asks to
    `resume`, and it is the same file: then what was begun goes on.
    """
    number = await front.number(batch_id)
    wanted = announcement(said, batch_id, front.limits)
    resume = said.get("resume") is True
    if resume and (going_on := await _resumed(front, batch_id, number, wanted, base_url)) is not None:
        return going_on
    key = f"{prefix_of(batch_id)}{wanted.path[1:]}"
    in_parts = wanted.size >= MULTIPART_FROM
    upload_id = await front.landing.begin(key, content_type=wanted.content_type) if in_parts else ""
    upload = Upload(
        path=wanted.path,
        state=AWAITED,
        size=wanted.size,
        stamp=front.office.ids.ulid(),
        key=key,
        content_type=wanted.content_type,
        cid=wanted.cid,
        config=wanted.config,
        upload_id=upload_id,
    )
    try:
        earlier = await front.office.ledger.announce(number, upload, now=front.office.clock.now())
    except QuireError as error:
        await _drop(front, key, upload_id)
        if isinstance(error, Stale):
            raise await _closed(front, batch_id, "cannot add files") from error
        raise
    if earlier is not None:
        await _drop(front, key, earlier.upload_id)
    urls = await _urls(front, upload, base_url)
    return Ticket(key=key, urls=urls, upload_id=upload_id, there=[] if resume else None)


async def _resumed(
    front: IngestContext, batch_id: str, number: int, wanted: Announcement, base_url: str
) -> Ticket | None:
    """What was begun of the same file and is still known to the store; None when it must begin anew."""
    upload = await _begun(front, number, wanted)
    if upload is None or status_of(await front.submission(batch_id)) != "uploading":
        return None  # announcing says why it cannot be
    if upload.state == TAKEN:
        return Ticket(key=upload.key, urls=[], upload_id=upload.upload_id, there=[], completed=True)
    if not upload.upload_id:
        return None
    try:
        there = await front.landing.parts(upload.key, upload.upload_id)
    except (Missing, Misconfigured):  # gone, or the store may not be asked
        return None
    urls = await _urls(front, upload, base_url)
    there = [part for part in there if part.number <= len(urls)]
    return Ticket(key=upload.key, urls=urls, upload_id=upload.upload_id, there=there)


async def _begun(front: IngestContext, number: int, wanted: Announcement) -> Upload | None:
    """What stands under its path, when it is said to be the same: parts of another content must not be mixed
    with these, nor another description be kept.
    """
    try:
        upload = await front.office.ledger.upload(number, wanted.path)
    except Missing:
        return None
    corrected = upload.state == TAKEN and may_be_proven(upload.content_type)
    kind = wanted.content_type if corrected else upload.content_type
    noted = (upload.size, upload.cid, kind, upload.config)
    return upload if noted == (wanted.size, wanted.cid, wanted.content_type, wanted.config) else None


async def _urls(front: IngestContext, upload: Upload, base_url: str) -> list[str]:
    landing, seconds = front.landing, front.limits.url_seconds
    if not upload.upload_id:
        return [await landing.put_url(upload.key, seconds=seconds, base_url=base_url)]
    parts = -(-upload.size // PART_SIZE)
    return await landing.part_urls(
        upload.key, upload.upload_id, parts=parts, seconds=seconds, base_url=base_url
    )


async def complete_file(front: IngestContext, batch_id: str, said: Any) -> None:
    """Confirmed again, nothing changes."""
    number = await front.number(batch_id)
    if not isinstance(said, dict) or not isinstance(said.get("r2_key"), str):
        raise refused("Missing or invalid r2_key")
    # Bytes that are still on their way wait at the door meanwhile, and are refused afterwards.
    async with front.alone_with(said["r2_key"]):
        await _complete(front, batch_id, number, said)


async def _complete(front: IngestContext, batch_id: str, number: int, said: dict[str, Any]) -> None:
    upload = await _announced(front, batch_id, number, said["r2_key"])
    if upload.state == TAKEN:
        return
    stored = await (_joined(front, upload, said) if upload.upload_id else _found(front, upload))
    if stored.size != upload.size:
        raise refused(
            f"Size mismatch: {upload.size} bytes were announced, {stored.size} are stored; "
            "start the file again and upload it anew",
            code="size_mismatch",
        )
    digest = await _digest(front, upload, stored)
    now = front.office.clock.now()
    kind = await kind_of(front.office.blobs, upload)
    taken = msgspec.structs.replace(upload, state=TAKEN, digest=digest, taken_at=now, content_type=kind)
    try:
        await front.office.ledger.received(number, taken, now=now)
    except Stale as error:
        raise await _closed(front, batch_id, "cannot complete files", started_again=True) from error


@asynccontextmanager
async def expected(front: IngestContext, key: str) -> AsyncIterator[None]:
    """Bytes are about to be stored under this key, by a URL that was given for it. Raises Reject
    `not_awaited` when the file has been confirmed or given up since: what was confirmed does not change.
    """
    async with front.alone_with(key):
        await _check_expected(front, key)
        yield


async def _check_expected(front: IngestContext, key: str) -> None:
    place, _, rest = key.partition("/")
    batch_id, slash, _ = rest.partition("/")
    if place != "staging" or not slash:
        return
    try:
        upload = await front.office.ledger.upload(await front.number(batch_id), _path_of(batch_id, key))
    except Missing:
        upload = None
    if upload is None or upload.state != AWAITED:
        raise refused(
            "This file is not awaited any more: it was confirmed or given up; start it again to send other "
            "bytes",
            code="not_awaited",
        )


async def withdraw_file(front: IngestContext, batch_id: str, key: Any) -> None:
    """A sender gives a file up, so that the batch can be closed without it."""
    number = await front.number(batch_id)
    if not isinstance(key, str):
        raise refused("Missing or invalid r2_key")
    path = _path_of(batch_id, key)
    async with front.alone_with(key):
        try:
            earlier = await front.office.ledger.withdraw(number, path, now=front.office.clock.now())
        except Stale as error:
            raise await _closed(front, batch_id, "cannot withdraw files") from error
        if earlier is None:
            raise Missing("File not found in batch", code="unknown_file")
        await _drop(front, earlier.key, earlier.upload_id)
        await front.office.blobs.delete(earlier.key)


async def _announced(front: IngestContext, batch_id: str, number: int, key: str) -> Upload:
    try:
        return await front.office.ledger.upload(number, _path_of(batch_id, key))
    except Missing as error:
        raise Missing("File not found in batch", code="unknown_file") from error


def _path_of(batch_id: str, key: str) -> str:
    prefix = prefix_of(batch_id)
    if not key.startswith(prefix) or "\x00" in key:
        raise Missing("File not found in batch", code="unknown_file")
    return key[len(prefix) - 1 :]


async def _joined(front: IngestContext, upload: Upload, said: dict[str, Any]) -> Stored:
    if not said.get("upload_id") or not said.get("parts"):
        raise refused("Missing upload_id or parts for multipart upload")
    if said["upload_id"] != upload.upload_id:
        raise refused("upload_id mismatch")
    parts = _parts(said["parts"])
    try:
        return await front.landing.join(upload.key, upload.upload_id, parts)
    except Missing as error:
        # Joined before, and the answer was lost; or never.
        with suppress(Missing):
            stored = await front.office.blobs.head(upload.key)
            if stored.size == upload.size:
                return stored
        raise refused(
            "The upload is not known to the storage any more; start the file again and upload it anew",
            code="upload_gone",
        ) from error


def _parts(said: Any) -> Sequence[Part]:
    wrong = refused("Invalid parts format")
    if not isinstance(said, list) or len(said) > _MAX_PARTS:
        raise wrong
    parts: dict[int, Part] = {}
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
        parts[number] = Part(number, etag.strip('"'))
    return [parts[number] for number in sorted(parts)]


async def _found(front: IngestContext, upload: Upload) -> Stored:
    try:
        return await front.office.blobs.head(upload.key)
    except Missing as error:
        raise refused(
            "Object not found in storage: upload the file to its URL first", code="not_uploaded"
        ) from error


async def _digest(front: IngestContext, upload: Upload, stored: Stored) -> str:
    """SHA-256 of what lies in the store, where it is known or cheap to find out; the CID must agree."""
    known = stored.metadata.get("sha256", "")
    named = sha256_of(upload.cid) if upload.cid else None
    if named is None or not front.limits.verify_cid_bytes:
        return known
    if not known and stored.size <= front.limits.verify_cid_bytes:
        known = await _read(front, upload.key)
    if known and known != named.hex():
        raise refused(
            "CID mismatch: the stored bytes are not those that the cid names; start the file again and "
            "upload it anew",
            code="cid_mismatch",
        )
    return known


async def _read(front: IngestContext, key: str) -> str:
    seen = hashlib.sha256()
    async for piece in front.office.blobs.stream(key):
        seen.update(piece)
    return seen.hexdigest()


async def _drop(front: IngestContext, key: str, upload_id: str) -> None:
    """Parts of an upload that nobody will join. If it fails, the store's own clean-up takes them."""
    if upload_id:
        with suppress(Retry, Reject):
            await front.landing.give_up(key, upload_id)


async def _closed(front: IngestContext, batch_id: str, cannot: str, *, started_again: bool = False) -> Reject:
    status = status_of(await front.submission(batch_id))
    if started_again and status == "uploading":
        return refused(
            "The file was started again meanwhile; complete that upload instead", code="started_again"
        )
    return refused(f"Batch status is {status}, {cannot}", code="not_uploading")
