"""What listings of the bucket show: which jobs exist, and their status by their markers alone.

Promises: a listing reads a page at a time and no object; each job counts once, in the order of precedence
of the published design. A listing is a moment old when it is complete: callers that act on it look at the
job again. Must not know: how it is shown.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

from msgspec import Struct, field

from quire.library.context import LibraryContext
from quire.library.protocol import layout, operator
from quire.library.protocol.operator import JobStatus
from quire.model.errors import Missing, Reject
from quire.model.objects import ObjectInfo, Objects
from quire.model.tiers import TIERS

SHORTEST_PREFIX = 8
_BEGINNING = re.compile(rf"[0-9a-f]{{{SHORTEST_PREFIX},64}}")
LISTED_FROM = 200  # documents; the status of fewer is read job by job
_TODO = {f"{layout.TODO}/{tier}": tier for tier in TIERS}

_STATUS_BY_FOLDER = {
    layout.OUT: JobStatus.DONE,
    layout.DEAD: JobStatus.DEAD,
    layout.FAILED: JobStatus.FAILED,
    layout.PROCESSING: JobStatus.PROCESSING,
    layout.STATE: JobStatus.QUEUED,
    layout.TODO: JobStatus.QUEUED,
    layout.RAW: JobStatus.RAW,
}
_RANKS = list(JobStatus)


class QueueListing(Struct, frozen=True, kw_only=True):
    """Jobs by their hash. `todo` has those in no other folder, by priority; `done` is None if not counted."""

    todo: Mapping[str, list[str]]
    processing: Mapping[str, ObjectInfo] = field(default_factory=dict)
    failed: Mapping[str, ObjectInfo] = field(default_factory=dict)
    dead: Mapping[str, ObjectInfo] = field(default_factory=dict)
    done: int | None = None

    @property
    def waiting(self) -> int:
        return sum(map(len, self.todo.values()))


async def list_queue(
    context: LibraryContext, *, done: bool = True, on_page: Callable[[str, int], None] | None = None
) -> QueueListing:
    """List every folder at once. `on_page` is called with the number of jobs found in a priority so far."""
    folders = (*_TODO, layout.PROCESSING, layout.FAILED, layout.DEAD)
    count_page = on_page or (lambda _tier, _number: None)
    counting = asyncio.create_task(count_jobs(context.objects, layout.OUT)) if done else None
    try:
        found = await asyncio.gather(
            *(_list_folder(context.objects, folder, count_page) for folder in folders)
        )
        number = None if counting is None else await counting
    finally:
        if counting is not None:
            counting.cancel()
    processing, failed, dead = found[len(_TODO) :]
    failed = {job: seen for job, seen in failed.items() if job not in dead}
    processing = {job: seen for job, seen in processing.items() if job not in failed and job not in dead}
    taken = {*processing, *failed, *dead}
    todo: dict[str, list[str]] = {}
    for tier, jobs in zip(TIERS, found, strict=False):
        todo[tier] = [job for job in jobs if job not in taken]
        taken.update(todo[tier])  # a job with markers in two priorities waits in the more urgent one
    return QueueListing(todo=todo, processing=processing, failed=failed, dead=dead, done=number)


async def count_jobs(objects: Objects, folder: str) -> int:
    """How many jobs have an object in the folder."""
    number = 0
    async for page in objects.pages(folder):
        number += sum(layout.parse_job(seen.key) is not None for seen in page)
    return number


async def list_results(objects: Objects) -> AsyncIterator[str]:
    """The hashes of all documents with a result."""
    async for page in objects.pages(layout.OUT):
        for seen in page:
            job = layout.parse_job(seen.key)
            if job is not None:
                yield job


async def resolve_hash(context: LibraryContext, text: str) -> str:
    """The one job with this hash prefix. Raises Missing when there is none, Reject when there are several
    or the text cannot be a hash prefix. A complete hash is returned as it is, known or not.
    """
    wanted = text.strip().lower()
    if _BEGINNING.fullmatch(wanted) is None:
        raise Reject(
            f"{text[:80]!r} is not a hash: give all 64 hexadecimal digits of the PDF's SHA-256, or at least "
            f"the first {SHORTEST_PREFIX}.",
            code="bad_hash",
        )
    if len(wanted) == 64:
        return layout.check_hash(wanted)
    folders = (layout.RAW, layout.OUT, *_TODO, layout.PROCESSING, layout.FAILED, layout.DEAD, layout.STATE)
    some = await asyncio.gather(*(_find_prefix(context.objects, folder, wanted) for folder in folders))
    found = sorted(set().union(*some))
    if not found:
        raise Missing(
            f"No document of this library has a hash that begins with {wanted}. `lookup --path` and `search` "
            "find hashes by names."
        )
    if len(found) > 1:
        shown = ", ".join(found[:3]) + (" …" if len(found) > 3 else "")
        raise Reject(
            f"Several hashes begin with {wanted} ({shown}): give more digits.", code="ambiguous_hash"
        )
    return found[0]


async def _find_prefix(objects: Objects, folder: str, wanted: str) -> set[str]:
    """From the one page that has them, if there are any."""
    async for page in objects.pages(folder, after=f"{folder}/{wanted}"):
        jobs = (layout.parse_job(seen.key) for seen in page)
        return {job for job in jobs if job is not None and job.startswith(wanted)}
    return set()


async def _list_folder(
    objects: Objects, folder: str, count_page: Callable[[str, int], None]
) -> dict[str, ObjectInfo]:
    found: dict[str, ObjectInfo] = {}
    async for page in objects.pages(folder):
        for seen in page:
            job = layout.parse_job(seen.key)
            if job is not None and seen.key == f"{folder}/{job}":
                found[job] = seen
        if folder in _TODO:
            count_page(_TODO[folder], len(found))
    return found


class JobStatusIndex:
    """The status of documents: each read from its job, or all by one listing. A listing tells the status by
    the markers alone, as of the time it was made; callers must tolerate that a job has moved on.
    """

    def __init__(self, context: LibraryContext) -> None:
        self._context = context
        self._listed: dict[bytes, int] | None = None

    async def load(self) -> None:
        """List everything once; `status` makes no requests from then on."""
        found: dict[bytes, int] = {}
        await asyncio.gather(
            *(self._list(folder, found) for folder in (layout.OUT, layout.QUEUE, layout.RAW))
        )
        self._listed = found

    async def status(self, ident: str) -> JobStatus:
        if self._listed is None:
            return (await self._context.perform(operator.inspect_job(ident))).status
        rank = self._listed.get(bytes.fromhex(layout.check_hash(ident)))
        return JobStatus.UNKNOWN if rank is None else _RANKS[rank]

    async def _list(self, folder: str, found: dict[bytes, int]) -> None:
        async for page in self._context.objects.pages(folder):
            for ident, rank in _rank(page):
                found[ident] = min(rank, found.get(ident, rank))


def _rank(page: list[ObjectInfo]) -> Iterator[tuple[bytes, int]]:
    for seen in page:
        ident = layout.parse_job(seen.key)
        folder = seen.key.rpartition("/")[0]
        if folder.startswith(f"{layout.TODO}/"):
            folder = layout.TODO
        status = _STATUS_BY_FOLDER.get(folder)
        if ident is not None and status is not None:
            # As bytes and small numbers: a listing may have millions of jobs.
            yield bytes.fromhex(ident), _RANKS.index(status)
