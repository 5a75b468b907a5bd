"""Restores damaged blobs from right copies of the same bytes: other blobs, archive copies, original files.

Promise: bytes are stored only when they have the digest, whatever a copy was said to hold; a blob that was
replaced meanwhile stays. Must not know: how damage is found, where uses are recorded.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from quire.blobs import fixity, keys
from quire.blobs.port import BlobInfo, Blobs, Condition, IfVersion
from quire.blobs.scrub import FoundDamage
from quire.blobs.scrub_record import LEFT, RESTORED, WAITING, DamagedEntry, ScrubRecord
from quire.model.errors import DamagedBlob, Missing, Stale
from quire.model.files import BlobUse

NAMED_USES = 3
_CONDITIONAL_BYTES = 48 << 20  # some stores hold conditional writes in memory
_PIECE_BYTES = 1 << 20

FindUses = Callable[[Collection[str]], Awaitable[list[BlobUse]]]
# Of files with one of these sizes, those with the wanted digests.
FindOriginals = Callable[[Collection[int], Collection[str]], Mapping[str, Path]]


class _ArchivedLine(Struct, frozen=True):
    archive_r2_key: str
    sha256: str


class CopyRepairs:
    """`find_originals` is blocking; without it no files outside of the store are looked at."""

    def __init__(
        self, blobs: Blobs, find_uses: FindUses, find_originals: FindOriginals | None = None
    ) -> None:
        self._blobs = blobs
        self._find_uses = find_uses
        self._find_originals = find_originals

    async def repair(self, found: Sequence[FoundDamage], record: ScrubRecord) -> None:
        """See `Repairs`."""
        digests = {one.digest for one in found}
        uses = await self._find_uses(digests)
        originals: Mapping[str, Path] = {}
        if self._find_originals is not None:
            sizes = {one.info.size for one in found} | {use.size for use in uses}
            originals = await asyncio.to_thread(self._find_originals, sizes, digests)
        for one in found:
            own = [use for use in uses if use.digest == one.digest]
            is_restored = await self._restore(one, own, originals.get(one.digest))
            record.add(_describe(one, own, is_restored=is_restored))

    async def _restore(self, found: FoundDamage, uses: Sequence[BlobUse], original: Path | None) -> bool:
        copies = {keys.content(found.digest), *(use.key for use in uses)} - {found.key}
        for key in sorted(copies):
            if await self._store(found, self._blobs.stream(key)):
                return True
        async for key in self._list_archived(found.digest, sorted({use.batch_id for use in uses})):
            if key != found.key and await self._store(found, self._blobs.stream(key)):
                return True
        return original is not None and await self._store(found, _read_file(original))

    async def _store(self, found: FoundDamage, pieces: AsyncIterator[bytes]) -> bool:
        """Whether the right bytes are stored now. The end of wrong ones is never stored."""
        checked = fixity.check_pieces(pieces, found.digest, found.key)
        try:
            if found.key == keys.content(found.digest):
                await self._blobs.put(found.key, checked)
            else:
                present = await self._blobs.head(found.key)
                await self._blobs.put(
                    found.key,
                    checked,
                    content_type=present.content_type,
                    metadata=present.metadata,
                    condition=_condition(present, found.info),
                )
        except (DamagedBlob, Missing, Stale, OSError):
            return False
        return True

    async def _list_archived(self, digest: str, batch_ids: Sequence[str]) -> AsyncIterator[str]:
        """Keys of archive copies that the indexes of these batches name for the digest."""
        for batch_id in batch_ids[:NAMED_USES]:
            async for info in self._blobs.list(keys.archive_indexes(batch_id)):
                for line in await self._read_index(info):
                    if line.sha256 == digest:
                        yield line.archive_r2_key

    async def _read_index(self, info: BlobInfo) -> list[_ArchivedLine]:
        try:
            data = await self._blobs.get(info.key)
            return msgspec.json.Decoder(_ArchivedLine).decode_lines(data)
        except (msgspec.DecodeError, Missing):
            return []


def _condition(present: BlobInfo, found: BlobInfo) -> Condition | None:
    return IfVersion(found.version) if present.size <= _CONDITIONAL_BYTES else None


def _describe(found: FoundDamage, uses: Sequence[BlobUse], *, is_restored: bool) -> DamagedEntry:
    waits = found.key == keys.content(found.digest)
    return DamagedEntry(
        key=found.key,
        digest=found.digest,
        size=found.info.size,
        state=RESTORED if is_restored else WAITING if waits else LEFT,
        used_by=tuple(f"{use.path} of batch {use.batch_id}" for use in uses[:NAMED_USES]),
        is_input=any(use.is_input for use in uses),
    )


async def _read_file(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece
