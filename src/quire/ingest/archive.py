"""Copies originals to the archive: `archive/{batch}/{asset}/original.{ext}`, one for each staged file.

Promises: a copy counts only when it was read back with the size and SHA-256 of its source; no copy replaces
another content, whatever ids files were given; everything may be repeated and stopped at any moment. An index
of each page of files is stored beside them, so that an archive can be read without a database.
"""

import hashlib
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from quire.batches.inspection import find_path_before
from quire.blobs import asset_records, checked_reads, keys, labels
from quire.blobs.port import Blobs
from quire.compute.remote.output_keys import is_temporary
from quire.ingest.context import UploadContext, manifest_key, original_manifest_key, staging_prefix
from quire.ledger.port import Upload
from quire.model.batch import Batch
from quire.model.errors import Missing, Reject, Retry
from quire.model.files import File
from quire.model.ids import named_ulid, task_id
from quire.model.pipelines import first_phase, stored_plan

PAGE = 200
# S3 takes 2048 bytes of metadata in all; longer keys are in the index alone.
_LONGEST_KEY_BYTES = 1400
_MORE_NAMES = 5  # tried when even the name of its digest is taken
_encoder = msgspec.json.Encoder()


class ArchivedFile(Struct, frozen=True, kw_only=True):
    """One line of the index."""

    original_r2_key: str
    archive_r2_key: str
    asset_id: str
    size: int
    sha256: str
    ipfs_cid: str | None = None
    task_id: str | None = None


class ArchiveResult(Struct, frozen=True, kw_only=True):
    files: int = 0
    bytes: int = 0


class _Source(Struct, frozen=True, kw_only=True):
    """A staged file with its digest and what the sender said about it."""

    key: str
    digest: str
    size: int
    content_type: str | None
    cid: str | None
    task: str | None


async def archive_batch(context: UploadContext, batch_id: str) -> ArchiveResult:
    """Archive all staged files of an ended batch. Raises Missing, Reject `still_running`, and Retry
    `archive_mismatch` when a copy does not match its source.
    """
    batch = await context.batches.get_batch(batch_id)
    if not batch.ended:
        raise Reject(f"batch {batch.id} has not ended; archive it afterwards", code="still_running")
    files = size = 0
    after = ""
    while page := await list_staged(context, batch_id, after):
        after = page[-1]
        made = await archive_page(context, batch, page)
        files += len(made)
        size += sum(one.size for one in made)
    return ArchiveResult(files=files, bytes=size)


async def list_staged(context: UploadContext, batch_id: str, after: str) -> list[str]:
    """A page of the keys below a batch's staging prefix."""
    found: list[str] = []
    async for stored in context.blobs.list(staging_prefix(batch_id), after=after):
        found.append(stored.key)
        if len(found) >= PAGE:
            break
    return found


async def archive_page(context: UploadContext, batch: Batch, page: Sequence[str]) -> list[ArchivedFile]:
    """Archive a page of staged files and write its index; manifests are left out."""
    ours = {manifest_key(batch.id), original_manifest_key(batch.id)}
    found = [await _archive_file(context, batch, key) for key in page if key not in ours]
    made = [one for one in found if one is not None]
    if made:
        lines = b"".join(_encoder.encode(one) + b"\n" for one in made)
        index = keys.archive_index(batch.id, made[0].original_r2_key)
        await context.blobs.put(index, lines, content_type="application/x-ndjson")
    return made


async def _archive_file(context: UploadContext, batch: Batch, key: str) -> ArchivedFile | None:
    """None for a key that is no original but a copy made for a worker."""
    if is_temporary(key) and await _find_upload(context, batch, key) is None:
        return None
    source = await _describe_source(context, batch, key)
    for asset_id in _candidate_ids(await _choose_asset_id(context, batch, source), source):
        target = keys.archived(batch.id, asset_id, asset_records.extension(key))
        there = await _has_same_bytes(context.blobs, target, source)
        if there is not False:
            break
    else:
        raise Retry(
            f"All places for the archive copy of {key!r} hold something else, the last {target!r}. Find out "
            "who wrote there and move it away; the original stays until then.",
            code="archive_mismatch",
        )
    if there is None:
        await _copy(context.blobs, batch, source, target)
    return ArchivedFile(
        original_r2_key=key,
        archive_r2_key=target,
        asset_id=asset_id,
        size=source.size,
        sha256=source.digest,
        ipfs_cid=source.cid,
        task_id=source.task,
    )


def _candidate_ids(wanted: str, source: _Source) -> Iterator[str]:
    """Ids to try in order. Of two contents under one claimed id both are kept, the later one under its own
    digest; as ids may claim anything, even that place may be taken, and it is never overwritten.
    """
    yield wanted
    yield named_ulid(source.digest)
    for number in range(2, 2 + _MORE_NAMES):
        yield named_ulid(f"{source.digest}-{number}")


async def _describe_source(context: UploadContext, batch: Batch, key: str) -> _Source:
    digest, size = await _hash_blob(context.blobs, key)
    upload = await _find_upload(context, batch, key)
    if upload is not None and upload.digest and upload.digest != digest:
        # An archive copy of damaged bytes would look right, and then the staged file would be deleted.
        raise await checked_reads.report_damage(context.blobs, key, upload.digest)
    return _Source(
        key=key,
        digest=digest,
        size=size,
        content_type=upload.content_type or None if upload else None,
        cid=upload.cid if upload else None,
        task=_find_task_id(context, batch, upload) if upload else None,
    )


async def _find_upload(context: UploadContext, batch: Batch, key: str) -> Upload | None:
    """None: no upload, but the product of another program in the same staging folder."""
    try:
        return await context.submissions.get_upload(batch.no, _path_of(batch, key))
    except Missing:
        return None


def _path_of(batch: Batch, key: str) -> str:
    return "/" + key.removeprefix(staging_prefix(batch.id))


def _find_task_id(context: UploadContext, batch: Batch, upload: Upload) -> str | None:
    pipeline = stored_plan(batch) or context.pipelines.get(batch.pipeline)
    file = File(
        key=upload.key,
        path=upload.path,
        name=upload.path.rpartition("/")[2],
        size=upload.size,
        content_type=upload.content_type,
        tags=upload.tags,
    )
    first = None if pipeline is None else first_phase(pipeline, file)
    return task_id(first.task_prefix, batch.id, upload.key) if first else None


async def _choose_asset_id(context: UploadContext, batch: Batch, source: _Source) -> str:
    """The id of the asset whose original it is; otherwise one derived from its reference, CID or digest."""
    held = await asset_records.find_holder(context.blobs, source.key)
    if held:
        return held
    named = await _find_referenced_asset(context, batch, source.key)
    if named is None and source.cid:
        named = named_ulid(source.cid)
    if named is None or await _is_other_original(context.blobs, named, batch, source.key):
        return named_ulid(source.digest)
    return named


async def _find_referenced_asset(context: UploadContext, batch: Batch, key: str) -> str | None:
    """The asset that the picture's reference names: one that an earlier batch registered."""
    path = _path_of(batch, key)
    found = await context.records.list_inputs(batch.no, after=find_path_before(path), limit=1)
    if not found or found[0].path != path:
        return None
    made = dict(found[0].made)
    if "ref" not in made or "jpeg" in made:
        return None
    data = await checked_reads.read(context.blobs, made["ref"].key)
    reference = msgspec.json.decode(data, type=dict[str, object])
    return str(reference.get("url", "")).rpartition("/")[2] or None


async def _is_other_original(blobs: Blobs, asset_id: str, batch: Batch, key: str) -> bool:
    """Whether the asset's original is another file of the same batch, which gets this place."""
    try:
        original = (await asset_records.find(blobs, asset_id)).renditions.get("original")
    except Reject:
        return False
    return original is not None and original.key != key and asset_records.batch_of(original.key) == batch.id


async def _has_same_bytes(blobs: Blobs, target: str, source: _Source) -> bool | None:
    """Whether the target holds the same bytes, read back; None when it does not exist."""
    try:
        if (await blobs.head(target)).size != source.size:
            return False
        return await _hash_blob(blobs, target) == (source.digest, source.size)
    except Missing:
        return None


async def _copy(blobs: Blobs, batch: Batch, source: _Source, target: str) -> None:
    said = {"batch-id": batch.id, "sha256": source.digest}
    if len(labels.encode(source.key)) <= _LONGEST_KEY_BYTES:
        said["original-r2-key"] = source.key
    if source.task:
        said["task-id"] = source.task
    if source.cid:
        said["ipfs-cid"] = source.cid
    checked = checked_reads.stream(blobs, source.key, source.digest)
    await blobs.put(target, checked, content_type=source.content_type, metadata=said)
    if not await _has_same_bytes(blobs, target, source):
        await blobs.delete(target)
        raise Retry(
            f"The archive copy of {source.key!r} does not match its source; it is made again the next time.",
            code="archive_mismatch",
        )


async def _hash_blob(blobs: Blobs, key: str) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    async for piece in blobs.stream(key):
        digest.update(piece)
        size += len(piece)
    return digest.hexdigest(), size
