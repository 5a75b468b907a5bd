"""Measures what is stored of a batch before it is closed: the store is asked, not the ledger.

Promise: a file that was confirmed and is not stored any more, or in another size, is awaited again; bytes
that belong to no announced file are deleted. Both happen where the store takes bytes by itself: a URL that
was signed for an earlier announcement stays valid until it expires. Memory holds a few pages, however many
files there are.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct, structs

from quire.blobs.port import BlobInfo
from quire.ingest.context import IngestContext, manifest_key, original_manifest_key, staging_prefix
from quire.ledger.port import Upload
from quire.ledger.submissions import AWAITED, TAKEN, Submission
from quire.model.errors import Missing

PAGE = 2000
AT_ONCE = 8  # pages that are compared at the same time: a store lists a thousand names at a time
MAX_LOST = 1000


class _Range(Struct, frozen=True):
    """Uploads in order of path, and their keys: those after one, up to another (`last` "": to the end)."""

    uploads: Sequence[Upload]
    after: str
    last: str


async def await_lost(context: IngestContext, submission: Submission) -> bool:
    """Compare what is noted of a batch with what is stored; whether anything is awaited again. May be
    repeated. Raises Stale when the batch is no longer open.
    """
    lost: list[Upload] = []
    pending: list[_Range] = []
    async for one in _list_ranges(context, submission):
        pending.append(one)
        if len(pending) == AT_ONCE or not one.last:
            for found in await asyncio.gather(*(_compare(context, submission, part) for part in pending)):
                lost += found
            pending = []
        if len(lost) > MAX_LOST:
            break  # enough for an answer; the others are found by the next request
    for upload in lost:
        await _await_again(context, submission.batch.no, upload)
    return bool(lost)


async def _await_again(context: IngestContext, number: int, upload: Upload) -> None:
    async with context.lock_key(upload.key):
        try:
            if (await context.submissions.get_upload(number, upload.path)).stamp != upload.stamp:
                return  # announced anew since
        except Missing:
            return  # withdrawn since
        stamp, now = context.ids.ulid(), context.clock.now()
        again = structs.replace(upload, state=AWAITED, stamp=stamp, digest="", upload_id="", taken_at=None)
        await context.submissions.announce_upload(number, again, now=now)


async def _list_ranges(context: IngestContext, submission: Submission) -> AsyncIterator[_Range]:
    # Paths and keys have the same order: a key is the prefix of the batch and the path.
    after, prefix = "", staging_prefix(submission.batch.id)
    while True:
        page = await context.uploads.list_uploads(submission.batch.no, after=after, limit=PAGE)
        last = page[-1].path if len(page) == PAGE else ""
        yield _Range(page, prefix + after[1:] if after else "", prefix + last[1:] if last else "")
        if not last:
            return
        after = last


async def _compare(context: IngestContext, submission: Submission, part: _Range) -> list[Upload]:
    """The uploads that count as received and are not stored as noted."""
    noted = {upload.key: upload for upload in part.uploads}
    missing = {key: upload for key, upload in noted.items() if upload.state == TAKEN}
    prefix = staging_prefix(submission.batch.id)
    async for stored in context.blobs.list(prefix, after=part.after):
        if part.last and stored.key.encode() > part.last.encode():
            break
        upload = noted.get(stored.key)
        if upload is None:
            await _delete_stray(context, submission, stored)
        elif stored.size > upload.size and upload.state == TAKEN:
            await context.blobs.delete(stored.key)
        elif stored.size == upload.size:
            missing.pop(stored.key, None)
    return list(missing.values())


async def _delete_stray(context: IngestContext, submission: Submission, stored: BlobInfo) -> None:
    """Delete bytes that no announcement covers; those of a file that was announced since are left alone."""
    batch = submission.batch
    if stored.key in {manifest_key(batch.id), original_manifest_key(batch.id)}:
        return
    path = stored.key[len(staging_prefix(batch.id)) - 1 :]
    async with context.lock_key(stored.key):
        try:
            await context.submissions.get_upload(batch.no, path)
        except Missing:
            await context.blobs.delete(stored.key)
