"""What listings of the bucket tell: which jobs there are and where they stand, by their markers alone.

Promises: a page at a time, and no object is read; each job counts once, in the order of precedence of the
published design. A listing is a moment old when it is done: who acts on it looks again. Must not know: how it
is shown.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping

from msgspec import Struct, field

from quire.library.context import LibraryContext
from quire.library.protocol import layout
from quire.model.errors import Missing, Reject
from quire.model.objects import ObjectInfo, Objects
from quire.model.tiers import TIERS

SHORTEST_PREFIX = 8
LOGS = "registry/logs"
_BEGINNING = re.compile(rf"[0-9a-f]{{{SHORTEST_PREFIX},64}}")
_TODO = {f"{layout.TODO}/{tier}": tier for tier in TIERS}


class QueueListing(Struct, frozen=True, kw_only=True):
    """Jobs by their hash. `todo` has those in no other folder, by tier; `done` is None where nobody asked."""

    todo: Mapping[str, list[str]]
    processing: Mapping[str, ObjectInfo] = field(default_factory=dict)
    failed: Mapping[str, ObjectInfo] = field(default_factory=dict)
    dead: Mapping[str, ObjectInfo] = field(default_factory=dict)
    done: int | None = None

    @property
    def waiting(self) -> int:
        return sum(map(len, self.todo.values()))


async def list_queue(
    room: LibraryContext, *, done: bool = True, on_page: Callable[[str, int], None] | None = None
) -> QueueListing:
    """Everything, in as many listings at once as there are folders. `on_page` is told how many were found in
    a tier so far.
    """
    folders = (*_TODO, layout.PROCESSING, layout.FAILED, layout.DEAD)
    told = on_page or (lambda _tier, _number: None)
    counting = asyncio.create_task(count_jobs(room.objects, layout.OUT)) if done else None
    try:
        found = await asyncio.gather(*(_list_folder(room.objects, folder, told) for folder in folders))
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
        taken.update(todo[tier])  # with markers in two tiers it waits in the more urgent one
    return QueueListing(todo=todo, processing=processing, failed=failed, dead=dead, done=number)


async def count_jobs(objects: Objects, folder: str) -> int:
    """How many jobs have something there."""
    number = 0
    async for page in objects.pages(folder):
        number += sum(layout.parse_job(seen.key) is not None for seen in page)
    return number


async def list_results(objects: Objects) -> AsyncIterator[str]:
    """The hashes of all that have a result."""
    async for page in objects.pages(layout.OUT):
        for seen in page:
            job = layout.parse_job(seen.key)
            if job is not None:
                yield job


async def resolve_hash(room: LibraryContext, text: str) -> str:
    """The one job whose hash begins so. Raises Missing when there is none, Reject when there are several, or
    when it is no beginning of a hash. A whole hash is taken as it is, whether it is known or not.
    """
    wanted = text.strip().lower()
    if _BEGINNING.fullmatch(wanted) is None:
        raise Reject(
            f"{text[:80]!r} is no hash: give all 64 hexadecimal digits of the PDF's SHA-256, or at least the "
            f"first {SHORTEST_PREFIX}.",
            code="bad_hash",
        )
    if len(wanted) == 64:
        return layout.check_hash(wanted)
    folders = (layout.RAW, layout.OUT, *_TODO, layout.PROCESSING, layout.FAILED, layout.DEAD, layout.STATE)
    some = await asyncio.gather(*(_find_prefix(room.objects, folder, wanted) for folder in folders))
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
    """From the one page on which they stand, if there are any."""
    async for page in objects.pages(folder, after=f"{folder}/{wanted}"):
        jobs = (layout.parse_job(seen.key) for seen in page)
        return {job for job in jobs if job is not None and job.startswith(wanted)}
    return set()


async def _list_folder(objects: Objects, folder: str, told: Callable[[str, int], None]) -> dict[str, ObjectInfo]:
    found: dict[str, ObjectInfo] = {}
    async for page in objects.pages(folder):
        for seen in page:
            job = layout.parse_job(seen.key)
            if job is not None and seen.key == f"{folder}/{job}":
                found[job] = seen
        if folder in _TODO:
            told(_TODO[folder], len(found))
    return found
