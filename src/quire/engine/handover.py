"""The end of a batch that another pipeline goes on with: its manifest is written anew with the final list of
files, and the next queue is sent the message that started the batch, with the totals of that list.

Promises: it may be repeated after a crash at any point and comes to the same; the first manifest is kept
beside the new one; who was taken for dead meanwhile writes over nothing that came later. The message goes out
with the move that ends the batch, so there is one for each batch. Must not know: who reads it.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import msgspec
from msgspec import Raw

from quire.blobs.port import Blobs, Condition, IfAbsent, IfVersion
from quire.engine.sorted_files import sort_files
from quire.ledger.port import BatchStore, FlowStore, ListedFile, OutboxMessage
from quire.model.batch import Batch
from quire.model.errors import Missing, Reject, Stale
from quire.model.files import File, sibling
from quire.model.manifest import ManifestWriter
from quire.queues.port import MAX_MESSAGE_BYTES

ORIGINAL_NAME = "_manifest.original.json"
ROWS_AT_ONCE = 2000
# So many file records are held in memory while they are sorted.
FILES_HELD = 20_000
# Larger manifests are written without a condition: stores send conditional writes in one piece, from memory.
HELD_BYTES = 16 * 1024 * 1024
_JSON = "application/json"

Alive = Callable[[], Awaitable[None]]


def original_key(manifest_key: str) -> str:
    """Where a batch's first manifest is kept when it is written anew."""
    return sibling(manifest_key, ORIGINAL_NAME)


async def hand_over(
    batches: BatchStore, flow: FlowStore, blobs: Blobs, batch: Batch, phases: int, alive: Alive
) -> OutboxMessage | None:
    """Write the manifest anew and give back the letter that goes out with the last move: only in the first
    round, later ones bring the manifest up to date. To be called when the list is final; `alive` is called
    again and again meanwhile, for a long list takes long. Raises Stale when the batch has moved meanwhile,
    Reject when the message is too large for a queue.
    """
    if batch.manifest_key is None:
        raise Reject("the batch has no manifest", code="bad_manifest")
    await keep_original(blobs, batch.manifest_key)
    writer = ManifestWriter(batch.id)
    stored = await _version(blobs, batch.manifest_key)
    condition = IfAbsent() if stored is None else IfVersion(stored)
    listing = _Listing(flow, batch, phases, alive)
    pieces = _write_manifest(batches, batch, listing, writer)
    await _put(blobs, batch.manifest_key, pieces, condition)
    if batch.position.round > 1:
        return None
    return OutboxMessage(
        queue=batch.hands_over_to,
        message_id=f"handover-{batch.id}",
        body=_message(batch, await batches.get_start_message(batch.no), writer),
    )


async def read_final_list(
    flow: FlowStore, batch: Batch, phases: int, alive: Alive
) -> AsyncIterator[list[File]]:
    """The files that a next stage is given, in the order of the manifest. Memory stays bounded."""
    listing = _Listing(flow, batch, phases, alive)
    async for files in sort_files(listing.pages(), held=FILES_HELD, at_once=ROWS_AT_ONCE):
        yield files


def _message(batch: Batch, original: str | None, writer: ManifestWriter) -> bytes:
    """The message that started the batch, untouched but for its totals."""
    said = msgspec.json.decode(original or "{}", type=dict[str, Raw])
    said["total_files"] = Raw(str(writer.total_files).encode())
    said["total_bytes"] = Raw(str(writer.total_bytes).encode())
    body = msgspec.json.encode(said)
    if len(body) > MAX_MESSAGE_BYTES:
        raise Reject(
            f"the message that hands the batch over to {batch.hands_over_to} has {len(body)} bytes, the "
            f"limit is {MAX_MESSAGE_BYTES}: submit the batch again with shorter prompts or less metadata",
            code="message_too_large",
        )
    return body


async def keep_original(blobs: Blobs, key: str) -> None:
    """Keep a batch's first manifest beside it, with its digest. May be repeated."""
    kept = original_key(key)
    if await _version(blobs, kept) is None:
        # Stale: somebody else has just kept it. Missing: there is none to keep.
        with suppress(Stale, Missing):
            # The digest of what was sent, not of what is copied: then a wrong bit in it is noticed.
            digest = (await blobs.head(key)).metadata.get("sha256", "")
            await _put(blobs, kept, _copied(blobs, key, kept), IfAbsent(), digest)


async def _copied(blobs: Blobs, key: str, kept: str) -> AsyncIterator[bytes]:
    async for piece in blobs.stream(key):
        yield piece
    if await _version(blobs, kept) is not None:
        raise Stale(f"{kept} is there already")


async def _write_manifest(
    batches: BatchStore, batch: Batch, listing: "_Listing", writer: ManifestWriter
) -> AsyncIterator[bytes]:
    yield writer.begin()
    async for files in sort_files(listing.pages(), held=FILES_HELD, at_once=ROWS_AT_ONCE):
        yield writer.add(files)
    # Asked behind everything that was read, and behind the version that the condition names: whoever writes
    # a later list does so after this moment, and then the condition does not hold any more.
    if (await batches.get_positions([batch.no])).get(batch.no) != batch.position:
        raise Stale(f"batch {batch.id} has moved on while its manifest was written")
    yield writer.end()


async def _put(
    blobs: Blobs, key: str, pieces: AsyncIterator[bytes], condition: Condition, digest: str = ""
) -> None:
    """The labels say the digest: the given one, or that of the pieces where they are few."""
    held = bytearray()
    async for piece in pieces:
        held += piece
        if len(held) > HELD_BYTES:
            labels = {"sha256": digest} if digest else {}
            await blobs.put(key, _chained(bytes(held), pieces), content_type=_JSON, metadata=labels)
            return
    labels = {"sha256": digest or hashlib.sha256(held).hexdigest()}
    await blobs.put(key, bytes(held), content_type=_JSON, metadata=labels, condition=condition)


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


async def _version(blobs: Blobs, key: str) -> str | None:
    try:
        return (await blobs.head(key)).version
    except Missing:
        return None


class _Listing:
    """The final list of a batch by number: as a phase behind the last one would see it."""

    def __init__(self, flow: FlowStore, batch: Batch, phases: int, alive: Alive) -> None:
        self._flow = flow
        self._batch_no = batch.no
        self._phases = phases
        self._alive = alive

    async def page(self, after: int, limit: int) -> list[ListedFile]:
        await self._alive()
        return await self._flow.list_seen(self._batch_no, self._phases + 1, after=after, limit=limit)

    async def pages(self) -> AsyncIterator[list[File]]:
        after = 0
        while page := await self.page(after, ROWS_AT_ONCE):
            after = page[-1].no
            yield [one.file for one in page]
