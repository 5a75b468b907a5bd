"""Closes an open batch: the manifest goes to the store, the start message to the outbox."""

from collections import Counter
from collections.abc import AsyncIterator

import msgspec

from quire.blobs import keys
from quire.blobs.port import Blobs
from quire.ledger.port import OutboxMessage, Upload, UploadStore
from quire.model.batch import Batch
from quire.model.clock import Clock, timestamp
from quire.model.files import File
from quire.model.manifest import ManifestWriter
from quire.model.pipeline import Pipeline

PAGE = 2000


async def submit(
    batch: Batch, pipeline: Pipeline, *, ledger: UploadStore, blobs: Blobs, clock: Clock
) -> Batch:
    """May be repeated after a crash: the manifest is the same bytes, and only one finalize succeeds."""
    writer = ManifestWriter(batch.id)
    key = keys.manifest(batch.id)
    states: Counter[str] = Counter()
    await blobs.put(key, _pieces(batch, ledger, writer, states), content_type="application/json")
    body = {
        "batch_id": batch.id,
        "manifest_r2_key": key,
        "r2_prefix": "",
        "uploader": "",
        "root_path": "/",
        "parent_pi": "0" * 26,
        "total_files": writer.total_files,
        "total_bytes": writer.total_bytes,
        "uploaded_at": timestamp(batch.created_at),
        "finalized_at": timestamp(clock.now()),
        "metadata": {},
    }
    message = OutboxMessage(
        queue=pipeline.queue, message_id=f"start-{batch.id}", body=msgspec.json.encode(body)
    )
    return await ledger.close_batch(
        batch.no,
        manifest_key=key,
        total_files=writer.total_files,
        message=message,
        now=clock.now(),
        refused=states["failed"],
        passed_over=states["skipped"],
    )


async def _pieces(
    batch: Batch, ledger: UploadStore, writer: ManifestWriter, states: Counter[str]
) -> AsyncIterator[bytes]:
    """The manifest; `states` is told how many uploads there are of each state."""
    yield writer.begin()
    after = ""
    while page := await ledger.list_uploads(batch.no, after=after, limit=PAGE):
        after = page[-1].path
        states.update(upload.state for upload in page)
        if piece := writer.add(_file(upload) for upload in page if upload.state == "taken"):
            yield piece
    yield writer.end()


def _file(upload: Upload) -> File:
    return File(
        key=upload.key,
        path=upload.path,
        name=upload.path.rpartition("/")[2],
        size=upload.size,
        content_type=upload.content_type,
        digest=upload.digest,
    )
