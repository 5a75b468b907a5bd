"""A batch is closed: its manifest is written and the message that starts it goes into the outbox.

Promise: closed once, whoever asks and how often; the manifest lists exactly what the ledger had when it was
closed. Two that close at once write by compare-and-swap, so that the slower one cannot put an older list in
the place of a newer one.
"""

import asyncio
import tempfile
import weakref
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from quire.blobs.port import Condition, IfAbsent, IfVersion
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
from quire.ingest.messages import start_message
from quire.ingest.rules import content_type, read_logical_path
from quire.ledger.port import OutboxMessage, Upload
from quire.ledger.submissions import TAKEN, Submission
from quire.model.batch import Batch, Stage
from quire.model.errors import Missing, Reject, Retry, Stale
from quire.model.files import File, folder_of
from quire.model.manifest import ManifestWriter

PAGE = 2000
TRIES = 5
SHOWN_INCOMPLETE = 1000
# What is larger is written without a condition: some stores hold conditional writes in memory.
CONDITIONAL_BYTES = 48 << 20
NO_CONFIG = {"ocr": False, "describe": False, "pinax": False}
PROCESSED = frozenset({"enqueued", "completed"})
# Batches whose files a foreign orchestrator hands back just now.
_taking_back: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()


class IncompleteBatch(Reject):
    """Files that were announced have not arrived. `names` are theirs."""

    code = "incomplete"

    def __init__(self, names: list[str]) -> None:
        super().__init__("Not all files completed")
        self.names = names


class ClosedBatch(Struct, frozen=True, kw_only=True):
    """`files` and `size` are those of the moment in which it was closed."""

    submission: Submission
    files: int
    size: int

    @property
    def warnings(self) -> list[str]:
        """Where what arrived is not what was announced at the opening."""
        files, size, said = self.submission.file_count, self.submission.total_size, []
        if self.files != files:
            said.append(f"{files} files were announced at init, {self.files} arrived")
        if self.size != size:
            said.append(f"{size} bytes were announced at init, {self.size} arrived")
        return said


async def finalize(context: IngestContext, batch_id: str, *, skip_incomplete: bool = False) -> ClosedBatch:
    for _ in range(TRIES):
        submission = await context.submission(batch_id)
        if submission.batch.position.stage is not Stage.OPEN:
            return await _repeat_answer(context, submission)
        # Before the list is read: whoever writes a manifest after this moment makes our own write fail.
        condition = await _get_condition(context, manifest_key(batch_id))
        submission = await context.submission(batch_id)
        if submission.files_taken < submission.files_announced:
            with suppress(Stale):  # somebody else has closed it
                await _handle_incomplete(context, submission, skip=skip_incomplete)
            continue
        if not submission.files_announced:
            raise bad_request("No files uploaded in this batch")
        try:
            closed = await _close(context, submission, condition)
        except Stale:
            continue  # a file came meanwhile, or somebody else has closed it
        return ClosedBatch(submission=closed, files=closed.files_taken, size=closed.bytes_taken)
    raise Retry("the batch's files keep changing; finalize when all uploads have ended", delay_seconds=1)


async def _handle_incomplete(context: IngestContext, submission: Submission, *, skip: bool) -> None:
    submissions, number = context.office.submissions, submission.batch.no
    awaited = await submissions.list_awaited(number, limit=SHOWN_INCOMPLETE)
    if awaited and not skip:
        raise IncompleteBatch([upload.path.rpartition("/")[2] for upload in awaited])
    while awaited:
        for upload in awaited:
            now = context.office.clock.now()
            # What is confirmed in this moment stays: its sender was told that it is there.
            gone = await submissions.withdraw_upload(number, upload.path, now=now, awaited_only=True)
            if gone is not None and gone.upload_id:
                with suppress(Retry, Reject):  # the store's own clean-up takes the parts
                    await context.presigned.abort(gone.key, gone.upload_id)
        awaited = await submissions.list_awaited(number, limit=SHOWN_INCOMPLETE)


async def _close(context: IngestContext, submission: Submission, condition: Condition) -> Submission:
    batch = submission.batch
    writer = ManifestWriter(batch.id)
    await _write_manifest(context, manifest_key(batch.id), _stream_manifest(context, batch.no, writer), condition)
    now = context.office.clock.now()
    body = start_message(
        submission,
        batch_id=batch.id,
        files=writer.total_files,
        total=writer.total_bytes,
        opened_at=batch.created_at,
        now=now,
    )
    message = OutboxMessage(queue=context.pipeline.queue, message_id=f"start-{batch.id}", body=body)
    return await context.office.submissions.close_submission(
        batch.no,
        revision=submission.revision,
        manifest_key=manifest_key(batch.id),
        message=message,
        now=now,
    )


async def _stream_manifest(context: IngestContext, number: int, writer: ManifestWriter) -> AsyncIterator[bytes]:
    yield writer.begin()
    after = None
    while page := await context.office.submissions.list_arrivals(number, after=after, limit=PAGE):
        after = (folder_of(page[-1].path), page[-1].path)
        if piece := writer.add(build_file(upload) for upload in page):
            yield piece
    yield writer.end()


async def _get_condition(context: IngestContext, key: str) -> Condition:
    try:
        return IfVersion((await context.office.blobs.head(key)).version)
    except Missing:
        return IfAbsent()


async def _write_manifest(context: IngestContext, key: str, pieces: AsyncIterator[bytes], condition: Condition) -> None:
    """By way of a file: a million entries are not held in memory. Raises Stale."""
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="quire-manifest-")
    try:
        path = Path(folder.name) / "manifest.json"
        with path.open("wb") as file:
            async for piece in pieces:
                await asyncio.to_thread(file.write, piece)
            size = file.tell()
        await context.office.blobs.put(
            key,
            path,
            content_type="application/json",
            condition=condition if size <= CONDITIONAL_BYTES else None,
        )
    finally:
        await asyncio.to_thread(folder.cleanup)


async def _repeat_answer(context: IngestContext, submission: Submission) -> ClosedBatch:
    if submission.finalized_at is None:
        raise bad_request(f"Batch status is {status_of(submission)}, cannot finalize", code="not_uploading")
    # Of the message: the files may be others by now, and what is asked again is answered as before.
    message = msgspec.json.decode(await context.office.batches.get_start_message(submission.batch.no) or "{}")
    return ClosedBatch(
        submission=submission,
        files=message.get("total_files", submission.files_taken),
        size=message.get("total_bytes", submission.bytes_taken),
    )


async def accept_processed(context: IngestContext, batch_id: str, said: Any) -> int:
    """A foreign orchestrator has preprocessed the batch; how many files it has now."""
    await context.number(batch_id)
    files = said.get("files") if isinstance(said, dict) else None
    if not isinstance(files, list) or not files:
        raise bad_request("Missing or empty files array")
    # One after the other: of two that say different things the manifest and the ledger must have the same.
    async with _taking_back.setdefault(batch_id, asyncio.Lock()):
        written = False
        for _ in range(TRIES):
            # Before the state is read: whoever writes a manifest after this moment makes our own write fail.
            condition = await _get_condition(context, manifest_key(batch_id))
            submission = await context.submission(batch_id)
            if (status := get_protocol_status(submission)) in PROCESSED:
                if written:
                    await _rewrite_manifest(context, submission.batch)
                return submission.batch.total_files
            if status != "preprocessing":
                raise bad_request(f"Invalid batch state: {status}, expected preprocessing", code="wrong_state")
            uploads = await _read_processed_files(files, batch_id, context.office.clock.now())
            with suppress(Stale):  # somebody else has written, or ended the batch
                message = await _write_processed(context, submission, uploads, condition)
                written = True
                now = context.office.clock.now()
                await context.office.submissions.accept_processed(
                    submission.batch.no, uploads, message=message, now=now
                )
                return len(uploads)
    raise Retry("the batch's manifest keeps changing; say it again", delay_seconds=1)


async def _write_processed(
    context: IngestContext, submission: Submission, uploads: list[Upload], condition: Condition
) -> OutboxMessage:
    """The manifest is theirs; the letter that says so. Raises Stale."""
    batch = submission.batch
    await _keep_original(context, batch.id)
    writer = ManifestWriter(batch.id)
    await _write_manifest(context, manifest_key(batch.id), _stream_processed(uploads, writer), condition)
    body = msgspec.json.decode(await context.office.batches.get_start_message(batch.no) or "{}") | {
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
    """Another process was faster, and our list lies where its own must be: it is written anew."""

    async def alive() -> None:
        """Nobody watches us."""

    office = context.office
    for _ in range(TRIES):
        with suppress(Stale):
            await hand_over(office.batches, office.files, office.blobs, batch, office.pipelines[batch.pipeline], alive)
            return
    raise Retry("the batch's manifest keeps changing; say it again", delay_seconds=1)


async def _keep_original(context: IngestContext, batch_id: str) -> None:
    """Once: who looks when it is kept already finds the manifest written anew."""
    blobs, key = context.office.blobs, manifest_key(batch_id)
    try:
        await blobs.head(original_manifest_key(batch_id))
    except Missing:
        size = (await blobs.head(key)).size
        condition = IfAbsent() if size <= CONDITIONAL_BYTES else None
        with suppress(Stale):
            await blobs.put(
                original_manifest_key(batch_id),
                blobs.stream(key),
                content_type="application/json",
                condition=condition,
            )


async def _stream_processed(uploads: Iterable[Upload], writer: ManifestWriter) -> AsyncIterator[bytes]:
    yield writer.begin()
    waiting = iter(uploads)
    while page := list(islice(waiting, PAGE)):
        yield writer.add(build_file(upload) for upload in page)
        await asyncio.sleep(0)
    yield writer.end()


async def _read_processed_files(files: list[Any], batch_id: str, now: float) -> list[Upload]:
    found: dict[str, Upload] = {}
    for place, said in enumerate(files):
        try:
            upload = _read_processed_file(said, batch_id, now)
        except Reject as error:
            raise bad_request(f"files[{place}]: {error}") from error
        if upload.path in found:
            raise bad_request(f"files[{place}]: {upload.path[:200]!r} is listed twice")
        found[upload.path] = upload
        if place % PAGE == PAGE - 1:
            await asyncio.sleep(0)  # there may be a million of them, and others ask meanwhile
    return await asyncio.to_thread(sorted, found.values(), key=_order)


def _order(upload: Upload) -> tuple[str, str]:
    return folder_of(upload.path), upload.path


def _read_processed_file(said: Any, batch_id: str, now: float) -> Upload:
    if not isinstance(said, dict):
        raise bad_request("is not an object")
    key, size = said.get("r2_key"), said.get("file_size")
    if not isinstance(key, str) or not key.startswith(staging_prefix(batch_id)):
        raise bad_request(f"r2_key must begin with {prefix_of(batch_id)}")
    if read_logical_path(said_path := key[len(staging_prefix(batch_id)) - 1 :], batch_id) != said_path:
        raise bad_request("r2_key must not contain empty segments")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**53:
        raise bad_request("Invalid file_size")
    path = read_logical_path(said.get("logical_path"), batch_id)
    name = said.get("file_name", path.rpartition("/")[2])
    if name != path.rpartition("/")[2]:
        raise bad_request("Invalid logical_path: its last segment must be file_name")
    config = said.get("processing_config")
    if config is not None and not isinstance(config, dict):
        raise bad_request("Invalid processing_config")
    tags = said.get("preprocessor_tags") or ()
    texts = [said.get("cid"), said.get("source_file"), *tags] if isinstance(tags, list | tuple) else [0]
    if any(text is not None and (not isinstance(text, str) or "\x00" in text) for text in texts):
        raise bad_request("cid and source_file must be text, preprocessor_tags a list of texts")
    return Upload(
        path=path,
        state=TAKEN,
        size=size,
        key=key,
        content_type=content_type(said.get("content_type")),
        cid=said.get("cid"),
        config=config if config is not None else dict(NO_CONFIG),
        taken_at=now,
        source_file=said.get("source_file"),
        tags=tuple(tags),
    )


def build_file(upload: Upload) -> File:
    return File(
        key=upload.key,
        path=upload.path,
        name=upload.path.rpartition("/")[2],
        size=upload.size,
        content_type=upload.content_type,
        digest=upload.digest,
        cid=upload.cid,
        source_file=upload.source_file,
        tags=upload.tags,
        processing_config=upload.config,
    )
