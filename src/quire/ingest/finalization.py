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
    manifest_key,
    original_key,
    prefix_of,
    refused,
    status_of,
)
from quire.ingest.messages import start_message
from quire.ingest.rules import content_type, logical_path
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


class Incomplete(Reject):
    """Files that were announced have not arrived. `names` are theirs."""

    code = "incomplete"

    def __init__(self, names: list[str]) -> None:
        super().__init__("Not all files completed")
        self.names = names


class Closed(Struct, frozen=True, kw_only=True):
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


async def finalize(front: IngestContext, batch_id: str, *, skip_incomplete: bool = False) -> Closed:
    for _ in range(TRIES):
        submission = await front.submission(batch_id)
        if submission.batch.position.stage is not Stage.OPEN:
            return await _closed_before(front, submission)
        # Before the list is read: whoever writes a manifest after this moment makes our own write fail.
        condition = await _untouched(front, manifest_key(batch_id))
        submission = await front.submission(batch_id)
        if submission.files_taken < submission.files_announced:
            with suppress(Stale):  # somebody else has closed it
                await _settle_incomplete(front, submission, skip=skip_incomplete)
            continue
        if not submission.files_announced:
            raise refused("No files uploaded in this batch")
        try:
            closed = await _close(front, submission, condition)
        except Stale:
            continue  # a file came meanwhile, or somebody else has closed it
        return Closed(submission=closed, files=closed.files_taken, size=closed.bytes_taken)
    raise Retry("the batch's files keep changing; finalize when all uploads have ended", delay_seconds=1)


async def _settle_incomplete(front: IngestContext, submission: Submission, *, skip: bool) -> None:
    ledger, number = front.office.ledger, submission.batch.no
    awaited = await ledger.awaited(number, limit=SHOWN_INCOMPLETE)
    if awaited and not skip:
        raise Incomplete([upload.path.rpartition("/")[2] for upload in awaited])
    while awaited:
        for upload in awaited:
            now = front.office.clock.now()
            # What is confirmed in this moment stays: its sender was told that it is there.
            gone = await ledger.withdraw(number, upload.path, now=now, awaited_only=True)
            if gone is not None and gone.upload_id:
                with suppress(Retry, Reject):  # the store's own clean-up takes the parts
                    await front.landing.give_up(gone.key, gone.upload_id)
        awaited = await ledger.awaited(number, limit=SHOWN_INCOMPLETE)


async def _close(front: IngestContext, submission: Submission, condition: Condition) -> Submission:
    batch, office = submission.batch, front.office
    writer = ManifestWriter(batch.id)
    await _write(front, manifest_key(batch.id), _arrivals(front, batch.no, writer), condition)
    now = office.clock.now()
    body = start_message(
        submission,
        batch_id=batch.id,
        files=writer.total_files,
        total=writer.total_bytes,
        opened_at=batch.created_at,
        now=now,
    )
    letter = OutboxMessage(queue=front.pipeline.queue, message_id=f"start-{batch.id}", body=body)
    return await office.ledger.close_submission(
        batch.no,
        revision=submission.revision,
        manifest_key=manifest_key(batch.id),
        letter=letter,
        now=now,
    )


async def _arrivals(front: IngestContext, number: int, writer: ManifestWriter) -> AsyncIterator[bytes]:
    yield writer.begin()
    after = None
    while page := await front.office.ledger.arrivals(number, after=after, limit=PAGE):
        after = (folder_of(page[-1].path), page[-1].path)
        if piece := writer.add(file_of(upload) for upload in page):
            yield piece
    yield writer.end()


async def _untouched(front: IngestContext, key: str) -> Condition:
    try:
        return IfVersion((await front.office.blobs.head(key)).version)
    except Missing:
        return IfAbsent()


async def _write(front: IngestContext, key: str, pieces: AsyncIterator[bytes], condition: Condition) -> None:
    """By way of a file: a million entries are not held in memory. Raises Stale."""
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="quire-manifest-")
    try:
        path = Path(folder.name) / "manifest.json"
        with path.open("wb") as file:
            async for piece in pieces:
                await asyncio.to_thread(file.write, piece)
            size = file.tell()
        await front.office.blobs.put(
            key,
            path,
            content_type="application/json",
            condition=condition if size <= CONDITIONAL_BYTES else None,
        )
    finally:
        await asyncio.to_thread(folder.cleanup)


async def _closed_before(front: IngestContext, submission: Submission) -> Closed:
    if submission.finalized_at is None:
        raise refused(f"Batch status is {status_of(submission)}, cannot finalize", code="not_uploading")
    # Of the message: the files may be others by now, and what is asked again is answered as before.
    message = msgspec.json.decode(await front.office.ledger.message(submission.batch.no) or "{}")
    return Closed(
        submission=submission,
        files=message.get("total_files", submission.files_taken),
        size=message.get("total_bytes", submission.bytes_taken),
    )


async def processed_elsewhere(front: IngestContext, batch_id: str, said: Any) -> int:
    """A foreign orchestrator has preprocessed the batch; how many files it has now."""
    await front.number(batch_id)
    files = said.get("files") if isinstance(said, dict) else None
    if not isinstance(files, list) or not files:
        raise refused("Missing or empty files array")
    # One after the other: of two that say different things the manifest and the ledger must have the same.
    async with _taking_back.setdefault(batch_id, asyncio.Lock()):
        written = False
        for _ in range(TRIES):
            # Before the state is read: whoever writes a manifest after this moment makes our own write fail.
            condition = await _untouched(front, manifest_key(batch_id))
            submission = await front.submission(batch_id)
            if (status := status_of(submission)) in PROCESSED:
                if written:
                    await _put_right(front, submission.batch)
                return submission.batch.total_files
            if status != "preprocessing":
                raise refused(f"Invalid batch state: {status}, expected preprocessing", code="wrong_state")
            uploads = await _processed(files, batch_id, front.office.clock.now())
            with suppress(Stale):  # somebody else has written, or ended the batch
                letter = await _take_back(front, submission, uploads, condition)
                written = True
                now = front.office.clock.now()
                await front.office.ledger.processed_elsewhere(
                    submission.batch.no, uploads, letter=letter, now=now
                )
                return len(uploads)
    raise Retry("the batch's manifest keeps changing; say it again", delay_seconds=1)


async def _take_back(
    front: IngestContext, submission: Submission, uploads: list[Upload], condition: Condition
) -> OutboxMessage:
    """The manifest is theirs; the letter that says so. Raises Stale."""
    batch = submission.batch
    await _keep_original(front, batch.id)
    writer = ManifestWriter(batch.id)
    await _write(front, manifest_key(batch.id), _listed(uploads, writer), condition)
    body = msgspec.json.decode(await front.office.ledger.message(batch.no) or "{}") | {
        "total_files": writer.total_files,
        "total_bytes": writer.total_bytes,
    }
    letter = OutboxMessage(
        queue=front.hands_over_to or "arke-batch-jobs",
        message_id=f"handover-{batch.id}",
        body=msgspec.json.encode(body),
    )
    if len(letter.body) > MESSAGE_BYTES:
        raise refused(
            f"the message has {len(letter.body)} bytes, the limit is {MESSAGE_BYTES}", code="too_large"
        )
    return letter


async def _put_right(front: IngestContext, batch: Batch) -> None:
    """Another process was faster, and our list lies where its own must be: it is written anew."""

    async def alive() -> None:
        """Nobody watches us."""

    office = front.office
    for _ in range(TRIES):
        with suppress(Stale):
            await hand_over(office.ledger, office.blobs, batch, office.pipelines[batch.pipeline], alive)
            return
    raise Retry("the batch's manifest keeps changing; say it again", delay_seconds=1)


async def _keep_original(front: IngestContext, batch_id: str) -> None:
    """Once: who looks when it is kept already finds the manifest written anew."""
    blobs, key = front.office.blobs, manifest_key(batch_id)
    try:
        await blobs.head(original_key(batch_id))
    except Missing:
        size = (await blobs.head(key)).size
        condition = IfAbsent() if size <= CONDITIONAL_BYTES else None
        with suppress(Stale):
            await blobs.put(
                original_key(batch_id),
                blobs.stream(key),
                content_type="application/json",
                condition=condition,
            )


async def _listed(uploads: Iterable[Upload], writer: ManifestWriter) -> AsyncIterator[bytes]:
    yield writer.begin()
    waiting = iter(uploads)
    while page := list(islice(waiting, PAGE)):
        yield writer.add(file_of(upload) for upload in page)
        await asyncio.sleep(0)
    yield writer.end()


async def _processed(files: list[Any], batch_id: str, now: float) -> list[Upload]:
    found: dict[str, Upload] = {}
    for place, said in enumerate(files):
        try:
            upload = _one_processed(said, batch_id, now)
        except Reject as error:
            raise refused(f"files[{place}]: {error}") from error
        if upload.path in found:
            raise refused(f"files[{place}]: {upload.path[:200]!r} is listed twice")
        found[upload.path] = upload
        if place % PAGE == PAGE - 1:
            await asyncio.sleep(0)  # there may be a million of them, and others ask meanwhile
    return await asyncio.to_thread(sorted, found.values(), key=_place)


def _place(upload: Upload) -> tuple[str, str]:
    return folder_of(upload.path), upload.path


def _one_processed(said: Any, batch_id: str, now: float) -> Upload:
    if not isinstance(said, dict):
        raise refused("is not an object")
    key, size = said.get("r2_key"), said.get("file_size")
    if not isinstance(key, str) or not key.startswith(prefix_of(batch_id)):
        raise refused(f"r2_key must begin with {prefix_of(batch_id)}")
    if logical_path(said_path := key[len(prefix_of(batch_id)) - 1 :], batch_id) != said_path:
        raise refused("r2_key must not contain empty segments")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**53:
        raise refused("Invalid file_size")
    path = logical_path(said.get("logical_path"), batch_id)
    name = said.get("file_name", path.rpartition("/")[2])
    if name != path.rpartition("/")[2]:
        raise refused("Invalid logical_path: its last segment must be file_name")
    config = said.get("processing_config")
    if config is not None and not isinstance(config, dict):
        raise refused("Invalid processing_config")
    tags = said.get("preprocessor_tags") or ()
    texts = [said.get("cid"), said.get("source_file"), *tags] if isinstance(tags, list | tuple) else [0]
    if any(text is not None and (not isinstance(text, str) or "\x00" in text) for text in texts):
        raise refused("cid and source_file must be text, preprocessor_tags a list of texts")
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


def file_of(upload: Upload) -> File:
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
