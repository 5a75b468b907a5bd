"""Accepts a batch that a foreign orchestrator has preprocessed: its files replace those that were uploaded.

Promise: the manifest and the ledger list the same files, whatever is repeated and whatever other processes
write. Every file is checked as strictly as an upload.
"""

import asyncio
import weakref
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec

from quire.batches.submission import CONDITIONAL_BYTES, PAGE, read_condition, stream_manifest, write_manifest
from quire.blobs.port import Condition, IfAbsent
from quire.engine.handover import hand_over
from quire.ingest.context import (
    MESSAGE_BYTES,
    IngestContext,
    bad_request,
    get_protocol_status,
    manifest_key,
    original_manifest_key,
    staging_prefix,
)
from quire.ingest.finalization import TRIES
from quire.ingest.rules import content_type, read_logical_path
from quire.ledger.port import OutboxMessage, Upload
from quire.ledger.submissions import TAKEN, Submission
from quire.model.batch import Batch
from quire.model.errors import Missing, Reject, Retry, Stale
from quire.model.files import folder_of
from quire.model.manifest import ManifestWriter
from quire.model.pipelines import stored_plan

NO_CONFIG = {"ocr": False, "describe": False, "pinax": False}
PROCESSED = frozenset({"enqueued", "completed"})
# One lock for each batch whose files are being replaced.
_locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()


async def accept_processed(context: IngestContext, batch_id: str, body: Any) -> int:
    """The number of files that the batch has now; repeated, the same number. Raises Reject for a bad body or
    a batch that is not being preprocessed, Missing for an unknown one.
    """
    await context.get_number(batch_id)
    files = body.get("files") if isinstance(body, dict) else None
    if not isinstance(files, list) or not files:
        raise bad_request("Missing or empty files array")
    # One request at a time: of two that differ, manifest and ledger must show the same one.
    async with _locks.setdefault(batch_id, asyncio.Lock()):
        written = False
        for _ in range(TRIES):
            # Before the state is read: any manifest written after this moment makes our write fail.
            condition = await read_condition(context.blobs, manifest_key(batch_id))
            submission = await context.get_submission(batch_id)
            if (status := get_protocol_status(submission)) in PROCESSED:
                if written:
                    await _rewrite_manifest(context, submission.batch)
                return submission.batch.total_files
            if status != "preprocessing":
                raise bad_request(
                    f"Invalid batch state: {status}, expected preprocessing", code="wrong_state"
                )
            uploads = await _read_files(files, batch_id, context.clock.now())
            with suppress(Stale):  # another process has written the manifest, or ended the batch
                message = await _write_manifest(context, submission, uploads, condition)
                written = True
                now = context.clock.now()
                await context.submissions.accept_processed(
                    submission.batch.no, uploads, message=message, now=now
                )
                return len(uploads)
    raise Retry("the batch's manifest keeps changing; say it again", delay_seconds=1)


async def _write_manifest(
    context: IngestContext, submission: Submission, uploads: list[Upload], condition: Condition
) -> OutboxMessage:
    """Replace the manifest; the message that hands the batch over. Raises Stale."""
    batch = submission.batch
    await _keep_original(context, batch.id)
    writer = ManifestWriter(batch.id)
    pieces = stream_manifest(writer, _paginate(uploads))
    await write_manifest(context.blobs, manifest_key(batch.id), pieces, condition)
    body = msgspec.json.decode(await context.batches.get_start_message(batch.no) or "{}") | {
        "total_files": writer.total_files,
        "total_bytes": writer.total_bytes,
    }
    message = OutboxMessage(
        queue=context.hands_over_to or "arke-batch-jobs",
        message_id=f"handover-{batch.id}",
        body=msgspec.json.encode(body),
    )
    if len(message.body) > MESSAGE_BYTES:
        raise bad_request(
            f"the message has {len(message.body)} bytes, the limit is {MESSAGE_BYTES}", code="too_large"
        )
    return message


async def _rewrite_manifest(context: IngestContext, batch: Batch) -> None:
    """Another process ended the batch first, and our manifest lies where its own must be: write its own."""

    async def report_alive() -> None:
        """Nothing waits for a sign of life here."""

    phases = len((stored_plan(batch) or context.pipelines[batch.pipeline]).phases)
    for _ in range(TRIES):
        with suppress(Stale):
            await hand_over(context.batches, context.flow, context.blobs, batch, phases, report_alive)
            return
    raise Retry("the batch's manifest keeps changing; say it again", delay_seconds=1)


async def _keep_original(context: IngestContext, batch_id: str) -> None:
    """Copy the uploaded manifest once: a second copy would be one of the replaced manifest."""
    blobs, key = context.blobs, manifest_key(batch_id)
    try:
        await blobs.head(original_manifest_key(batch_id))
    except Missing:
        stored = await blobs.head(key)
        condition = IfAbsent() if stored.size <= CONDITIONAL_BYTES else None
        with suppress(Stale):
            await blobs.put(
                original_manifest_key(batch_id),
                blobs.stream(key),
                content_type="application/json",
                metadata=stored.metadata,  # with the digest of what was sent
                condition=condition,
            )


async def _paginate(uploads: Iterable[Upload]) -> AsyncIterator[Sequence[Upload]]:
    waiting = iter(uploads)
    while page := list(islice(waiting, PAGE)):
        yield page
        await asyncio.sleep(0)


async def _read_files(files: list[Any], batch_id: str, now: float) -> list[Upload]:
    found: dict[str, Upload] = {}
    for place, one in enumerate(files):
        try:
            upload = _read_file(one, batch_id, now)
        except Reject as error:
            raise bad_request(f"files[{place}]: {error}") from error
        if upload.path in found:
            raise bad_request(f"files[{place}]: {upload.path[:200]!r} is listed twice")
        found[upload.path] = upload
        if place % PAGE == PAGE - 1:
            await asyncio.sleep(0)  # the list may have a million entries, and other requests wait meanwhile
    return await asyncio.to_thread(sorted, found.values(), key=_sort_key)


def _sort_key(upload: Upload) -> tuple[str, str]:
    return folder_of(upload.path), upload.path


def _read_file(value: Any, batch_id: str, now: float) -> Upload:
    if not isinstance(value, dict):
        raise bad_request("is not an object")
    key, size = value.get("r2_key"), value.get("file_size")
    prefix = staging_prefix(batch_id)
    if not isinstance(key, str) or not key.startswith(prefix):
        raise bad_request(f"r2_key must begin with {prefix}")
    if read_logical_path(key_path := key[len(prefix) - 1 :], batch_id) != key_path:
        raise bad_request("r2_key must not contain empty segments")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**53:
        raise bad_request("Invalid file_size")
    path = read_logical_path(value.get("logical_path"), batch_id)
    name = value.get("file_name", path.rpartition("/")[2])
    if name != path.rpartition("/")[2]:
        raise bad_request("Invalid logical_path: its last segment must be file_name")
    config = value.get("processing_config")
    if config is not None and not isinstance(config, dict):
        raise bad_request("Invalid processing_config")
    tags = value.get("preprocessor_tags") or ()
    texts = [value.get("cid"), value.get("source_file"), *tags] if isinstance(tags, list | tuple) else [0]
    if any(text is not None and (not isinstance(text, str) or "\x00" in text) for text in texts):
        raise bad_request("cid and source_file must be text, preprocessor_tags a list of texts")
    return Upload(
        path=path,
        state=TAKEN,
        size=size,
        key=key,
        content_type=content_type(value.get("content_type")),
        cid=value.get("cid"),
        config=config if config is not None else dict(NO_CONFIG),
        taken_at=now,
        source_file=value.get("source_file"),
        tags=tuple(tags),
    )
