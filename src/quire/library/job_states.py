"""Where documents stand in the library, asked for a few by name or for many by one listing.

Promise: the same answer either way, except that a listing tells a job by its markers alone, and as it was
when the listing was made. Who acts on it must be able to bear that it has moved on since.
"""

import asyncio
from collections.abc import Iterator

from quire.library.context import LibraryContext
from quire.library.protocol import layout, operator
from quire.library.protocol.operator import JobStatus
from quire.model.objects import ObjectInfo

LISTED_FROM = 200  # documents; fewer are asked for one by one

_FOLDERS = {
    layout.OUT: JobStatus.DONE,
    layout.DEAD: JobStatus.DEAD,
    layout.FAILED: JobStatus.FAILED,
    layout.PROCESSING: JobStatus.PROCESSING,
    layout.STATE: JobStatus.QUEUED,
    layout.TODO: JobStatus.QUEUED,
    layout.RAW: JobStatus.RAW,
}
_RANKS = list(JobStatus)


class JobStatusIndex:
    def __init__(self, room: LibraryContext) -> None:
        self._room = room
        self._listed: dict[bytes, int] | None = None

    async def take(self) -> None:
        """List everything once; from then on nothing is asked for."""
        found: dict[bytes, int] = {}
        await asyncio.gather(
            *(self._list(folder, found) for folder in (layout.OUT, layout.QUEUE, layout.RAW))
        )
        self._listed = found

    async def standing(self, ident: str) -> JobStatus:
        if self._listed is None:
            return (await self._room.perform(operator.inspect_job(ident))).standing
        rank = self._listed.get(bytes.fromhex(layout.check_hash(ident)))
        return JobStatus.UNKNOWN if rank is None else _RANKS[rank]

    async def _list(self, folder: str, found: dict[bytes, int]) -> None:
        async for page in self._room.objects.pages(folder):
            for ident, rank in _rank(page):
                found[ident] = min(rank, found.get(ident, rank))


def _rank(page: list[ObjectInfo]) -> Iterator[tuple[bytes, int]]:
    for seen in page:
        ident = layout.parse_job(seen.key)
        folder = seen.key.rpartition("/")[0]
        if folder.startswith(f"{layout.TODO}/"):
            folder = layout.TODO
        standing = _FOLDERS.get(folder)
        if ident is not None and standing is not None:
            # As digests and small numbers: a listing may be of millions.
            yield bytes.fromhex(ident), _RANKS.index(standing)
