"""Opens and closes batches, whatever way their files come in: a folder run, an upload over HTTP.

Promise: closed once. The manifest is in the store before the ledger closes the batch, and the start message
goes into the outbox in the same transaction. Must not know: how files arrive.
"""

import asyncio
import hashlib
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from quire.batches.context import BatchContext
from quire.blobs import keys
from quire.blobs.port import Blobs, Condition, IfAbsent, IfVersion
from quire.ledger.intake import IntakeStore
from quire.ledger.port import BatchDraft, OutboxMessage, Upload, UploadStore
from quire.ledger.submissions import TAKEN
from quire.model.batch import Batch, Stage
from quire.model.clock import Clock, timestamp
from quire.model.errors import Missing, Stale
from quire.model.files import File
from quire.model.former import is_former_of
from quire.model.ids import BatchId
from quire.model.manifest import ManifestWriter
from quire.model.pipelines import stored_plan
from quire.model.plan import Plan, digest_of, digest_with_options, encode_plan

PAGE = 2000
ROOT_PARENT = "0" * 26
# Some stores hold conditional writes in memory: of a larger manifest the condition is checked before its end.
CONDITIONAL_BYTES = 48 << 20
PIECE_BYTES = 1 << 20

Pages = AsyncIterator[Sequence[Upload]]  # the recorded uploads of a batch, in the order of its manifest


class SenderDetails(Struct, frozen=True, kw_only=True):
    """What a start message says about the sender of the files; the defaults are those of a folder run."""

    prefix: str = ""  # the beginning of the files' keys
    uploader: str = ""
    root_path: str = "/"
    parent_pi: str = ROOT_PARENT
    metadata: dict[str, Any] = field(default_factory=dict)
    custom_prompts: dict[str, str] = field(default_factory=dict)


def draft_batch(
    context: BatchContext,
    pipeline: Plan,
    *,
    run_key: str | None = None,
    tenant: str = "",
    hands_over_to: str = "",
) -> BatchDraft:
    """A new batch with the context's defaults, for the ledger to open."""
    return BatchDraft(
        id=BatchId(context.ids.ulid()),
        run_key=run_key,
        pipeline=pipeline.name,
        pipeline_version=pipeline.version,
        plan=encode_plan(pipeline),
        now=context.clock.now(),
        tier=context.defaults.tier,
        tenant=tenant or context.defaults.tenant,
        budget=context.defaults.budget,
        hands_over_to=hands_over_to,
        plan_digest=digest_of(pipeline),
    )


def is_same_pipeline(batch: Batch, pipeline: Plan) -> bool:
    """Whether a run with this pipeline may continue the batch. The limits and the code of a plan's steps
    may have changed since; with other options it is another run.
    """
    stored = stored_plan(batch)
    if stored is None:  # an earlier version has begun it
        return batch.position.stage is not Stage.OPEN and is_former_of(batch, pipeline)
    return digest_with_options(stored) == digest_with_options(pipeline)


async def close_batch(
    batch: Batch,
    pipeline: Plan,
    *,
    uploads: UploadStore,
    blobs: Blobs,
    clock: Clock,
    manifest_key: str = "",
    pages: Pages | None = None,
    sender: SenderDetails | None = None,
    condition: Condition | None = None,
    revision: int | None = None,
) -> Batch:
    """Write the manifest of the uploads that were received, then close the batch with its start message. The
    defaults are those of a folder run. Raises Stale when the batch is no longer open, when its files have
    changed since `revision`, or when the stored manifest does not meet `condition`. May be repeated after a
    crash: the manifest is the same bytes, and only one close succeeds.
    """
    key = manifest_key or keys.manifest(batch.id)
    writer = ManifestWriter(batch.id)
    states: Counter[str] = Counter()
    pieces = stream_manifest(writer, pages or _list_uploads(uploads, batch.no), states)
    await write_manifest(blobs, key, pieces, condition)
    now = clock.now()
    body = encode_start_message(
        sender or SenderDetails(),
        batch_id=batch.id,
        manifest_key=key,
        total_files=writer.total_files,
        total_bytes=writer.total_bytes,
        opened_at=batch.created_at,
        now=now,
    )
    return await uploads.close_batch(
        batch.no,
        manifest_key=key,
        total_files=writer.total_files,
        message=OutboxMessage(queue=pipeline.queue, message_id=f"start-{batch.id}", body=body),
        now=now,
        refused=states["failed"],
        passed_over=states["skipped"],
        revision=revision,
    )


async def close_intake(
    batch: Batch, *, uploads: UploadStore, intake: IntakeStore, blobs: Blobs, clock: Clock
) -> Batch:
    """Write the manifest of a batch that flows already, then close its intake. Raises Stale when it was
    closed before, or has ended.
    """
    key = keys.manifest(batch.id)
    writer = ManifestWriter(batch.id)
    states: Counter[str] = Counter()
    await write_manifest(blobs, key, stream_manifest(writer, _list_uploads(uploads, batch.no), states))
    now = clock.now()
    message = encode_start_message(
        SenderDetails(),
        batch_id=batch.id,
        manifest_key=key,
        total_files=writer.total_files,
        total_bytes=writer.total_bytes,
        opened_at=batch.created_at,
        now=now,
    )
    return await intake.close_intake(
        batch.no,
        manifest_key=key,
        total_files=writer.total_files,
        message=message,
        refused=states["failed"],
        passed_over=states["skipped"],
        now=now,
    )


def encode_start_message(
    sender: SenderDetails,
    *,
    batch_id: str,
    manifest_key: str,
    total_files: int,
    total_bytes: int,
    opened_at: float,
    now: float,
) -> bytes:
    """The message that starts a batch, and later hands it over: the same fields on both queues."""
    message: dict[str, Any] = {
        "batch_id": batch_id,
        "manifest_r2_key": manifest_key,
        "r2_prefix": sender.prefix,
        "uploader": sender.uploader,
        "root_path": sender.root_path,
        "parent_pi": sender.parent_pi,
        "total_files": total_files,
        "total_bytes": total_bytes,
        "uploaded_at": timestamp(opened_at),
        "finalized_at": timestamp(now),
        "metadata": sender.metadata,
    }
    if sender.custom_prompts:
        message["custom_prompts"] = sender.custom_prompts
    return msgspec.json.encode(message)


async def stream_manifest(
    writer: ManifestWriter, pages: Pages, states: Counter[str] | None = None
) -> AsyncIterator[bytes]:
    """The manifest of the received uploads; `states` counts the uploads of each state."""
    yield writer.begin()
    async for page in pages:
        if states is not None:
            states.update(upload.state for upload in page)
        if piece := writer.add(build_file(upload) for upload in page if upload.state == TAKEN):
            yield piece
    yield writer.end()


async def write_manifest(
    blobs: Blobs, key: str, pieces: AsyncIterator[bytes], condition: Condition | None = None
) -> None:
    """A conditional write goes through a temporary file: a million entries are not held in memory. Its labels
    say the digest. Raises Stale when the condition is not met.
    """
    if condition is None:
        await blobs.put(key, pieces, content_type="application/json")
        return
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="quire-manifest-")
    try:
        path = Path(folder.name) / "manifest.json"
        hashed = hashlib.sha256()
        with path.open("wb") as file:
            async for piece in pieces:
                hashed.update(piece)
                await asyncio.to_thread(file.write, piece)
            size = file.tell()
        labels = {"sha256": hashed.hexdigest()}
        if size <= CONDITIONAL_BYTES:
            await blobs.put(key, path, content_type="application/json", metadata=labels, condition=condition)
        else:
            large = _stream_if(blobs, key, path, size, condition)
            await blobs.put(key, large, content_type="application/json", metadata=labels)
    finally:
        await asyncio.to_thread(folder.cleanup)


async def _stream_if(
    blobs: Blobs, key: str, path: Path, size: int, condition: Condition
) -> AsyncIterator[bytes]:
    """The pieces of a file that is stored under `key`. Raises Stale before the last piece, so that nothing is
    stored, when the condition does not hold any more; a write that ends after this check is not noticed.
    """
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            if file.tell() == size and await read_condition(blobs, key) != condition:
                raise Stale(f"{key} has been written by another process")
            yield piece


async def read_condition(blobs: Blobs, key: str) -> Condition:
    """A condition that is met until the next write under the key."""
    try:
        return IfVersion((await blobs.head(key)).version)
    except Missing:
        return IfAbsent()


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


async def _list_uploads(uploads: UploadStore, batch_no: int) -> Pages:
    after = ""
    while page := await uploads.list_uploads(batch_no, after=after, limit=PAGE):
        after = page[-1].path
        yield page
