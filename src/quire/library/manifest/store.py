"""The library's index in the bucket: additions as small objects, `registry/manifest.json` as their sum.

Promises: an addition costs what is added, not what is there: it is one object that is
never rewritten. Additions move into manifest.json when they have grown to a part of it, so that all bytes
ever written stay in proportion to the index. Published tools write manifest.json themselves, on the same
condition as we do: nobody's entries are lost. Who reads sees additions first and manifest.json then, so that
one that moves meanwhile is not missed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Raw, Struct

from quire.library.context import LibraryContext
from quire.library.manifest import entries
from quire.library.manifest.entries import (
    BrokenManifest,
    ManifestEntry,
    ManifestPart,
    NewerManifest,
)
from quire.library.manifest.search import ManifestView
from quire.library.protocol import layout
from quire.model.errors import Reject, Retry
from quire.model.objects import ObjectBody, ObjectInfo

if TYPE_CHECKING:
    pass

SEGMENTS = "registry/manifest.d"
PER_SEGMENT = 1000
CHEAP_BYTES = 256 << 10  # an index that is rewritten without a second thought
MOST_SEGMENTS = 256  # beyond which reading them costs more than moving them
_PART = 0.5  # of manifest.json that additions may reach
_ATTEMPTS = 10
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0
_AT_ONCE = 16

Sleep = Callable[[float], Awaitable[None]]


class CompactionResult(Struct, frozen=True):
    """`entries` are those that manifest.json got or that changed in it."""

    segments: int = 0
    entries: int = 0


class StoredManifest(Struct, frozen=True, kw_only=True):
    """What lies in the bucket. `whole` is manifest.json; one that is broken gives no `book`, but a `why`."""

    parts: tuple[tuple[str, ManifestPart], ...]
    unreadable: tuple[str, ...]
    whole: ObjectBody | None
    book: ManifestPart | None
    why: str = ""
    newer: bool = False  # it is not broken, but of a later version than this program


class LibraryManifest:
    def __init__(self, room: LibraryContext, *, sleep: Sleep = asyncio.sleep) -> None:
        self._room = room
        self._objects = room.objects
        self._sleep = sleep
        self._stuck = False

    async def add(self, added: Mapping[str, ManifestEntry]) -> None:
        """When it returns, they are in the index. Repeating it changes nothing."""
        for ident in added:
            layout.check_hash(ident)
        items = [(ident, entries.encode_entry(entry)) for ident, entry in added.items()]
        for at in range(0, len(items), PER_SEGMENT):
            body = entries.encode(dict(items[at : at + PER_SEGMENT]), self._stamp())
            await self._objects.create(f"{SEGMENTS}/{self._room.ids.ulid()}.json", body)
        if items:
            await self.compact_when_due()

    async def read(self) -> ManifestView:
        found = await self.open()
        whole = {} if found.book is None else found.book.entries
        entries.fold(whole, (book for _, book in found.parts))
        problems = [f"{key} cannot be read and is passed over." for key in found.unreadable]
        if found.why:
            problems.append(
                f"{layout.MANIFEST} cannot be read: {found.why}. Repair the manifest: what is there is "
                "kept in a copy, and entries can be rebuilt from the stored PDFs."
            )
        return ManifestView(entries=whole, problems=tuple(problems), segments=len(found.parts))

    async def compact_when_due(self, *, cheap_bytes: int = 0) -> CompactionResult:
        """Where additions have become many, or where all together is not more than `cheap_bytes`."""
        waiting = [] if self._stuck else await self._listed()
        if not waiting:
            return CompactionResult()
        whole = await self._objects.head(layout.MANIFEST)
        size, more = 0 if whole is None else whole.size, sum(seen.size for seen in waiting)
        if len(waiting) < MOST_SEGMENTS and more < size * _PART and size + more > cheap_bytes:
            return CompactionResult()
        try:
            return await self.compact()
        except Retry:
            return CompactionResult()  # nothing is lost by it: the additions stay, and are read from where they are
        except Reject:
            self._stuck = True  # until a person has done something; every further try would read it all
            return CompactionResult()

    async def compact(self) -> CompactionResult:
        """Move all additions into manifest.json. Raises Reject with code `manifest_broken` when that cannot
        be read, Retry when others write it all the time.
        """
        return await self.change(lambda _: False)

    async def remove(self, idents: Iterable[str]) -> int:
        """Take documents out of the index; how many there were. Who adds the same ones meanwhile may win."""
        gone = {layout.check_hash(ident) for ident in idents}
        removed = 0

        def without(book: dict[str, Raw]) -> bool:
            nonlocal removed
            there = gone & book.keys()
            for ident in there:
                del book[ident]
            removed = len(there)
            return bool(there)

        await self.change(without)
        return removed

    async def repair(self, *, dry_run: bool = False) -> "RepairResult":
        """See `mending.repair`."""
        from quire.library.manifest import repair as manifest_repair  # here: it is built upon this module

        return await manifest_repair.repair(self._room, self, dry_run=dry_run)

    async def rebuild(self, *, force: bool = False, dry_run: bool = False) -> "RebuildResult":
        """See `mending.rebuild`."""
        from quire.library.manifest import repair as manifest_repair

        return await manifest_repair.rebuild(self._room, self, force=force, dry_run=dry_run)

    async def change(self, alter: Callable[[dict[str, Raw]], bool]) -> CompactionResult:
        """Merge all additions, alter the sum, write it where nobody else has meanwhile; else all anew."""
        for attempt in range(_ATTEMPTS):
            found = await self.open()
            if found.book is None:
                raise Reject(
                    f"{layout.MANIFEST} cannot be read: {found.why}. Repair the manifest first.",
                    code="manifest_broken",
                )
            book = found.book.entries
            changed = entries.fold(book, (part for _, part in found.parts))
            altered = alter(book)
            moved = [key for key, _ in found.parts]
            if not (changed or altered) or await self.write(book, found):
                await self._objects.delete(moved)
                return CompactionResult(len(moved), changed)
            await self._sleep(self._pause(attempt))
        raise Retry(
            f"{layout.MANIFEST} was changed by others {_ATTEMPTS} times in a row; try again later. "
            "Nothing is lost: additions wait beside it.",
            code="contended",
        )

    async def write(self, book: Mapping[str, Raw], found: StoredManifest) -> bool:
        """As manifest.json, where that is still the one that was found."""
        beside = None if found.book is None else found.book.beside
        body = entries.encode(book, self._stamp(), beside)
        try:
            if found.whole is None:
                return await self._objects.create(layout.MANIFEST, body) is not None
            return await self._objects.swap(layout.MANIFEST, body, found.whole.version) is not None
        except Reject as error:
            raise Reject(
                f"{layout.MANIFEST} of {len(body) >> 20} MiB is more than the store takes: {error} "
                f"Additions stay in {SEGMENTS}, where quire finds them and other tools do not.",
                code=error.code,
            ) from error

    async def open(self) -> StoredManifest:
        # Additions first: one that is moved meanwhile is in manifest.json by the time that is read.
        parts: list[tuple[str, ManifestPart]] = []
        unreadable: list[str] = []
        listed = await self._listed()
        for at in range(0, len(listed), _AT_ONCE):
            some = listed[at : at + _AT_ONCE]
            bodies = await asyncio.gather(*(self._objects.read(seen.key) for seen in some))
            _decode_parts(some, bodies, parts, unreadable)
        whole = await self._objects.read(layout.MANIFEST)
        book, why, newer = ManifestPart({}), "", False
        try:
            book = ManifestPart({}) if whole is None else entries.decode(whole.body)
        except BrokenManifest as error:
            why, newer = str(error), isinstance(error, NewerManifest)
        return StoredManifest(
            parts=tuple(parts),
            unreadable=tuple(unreadable),
            whole=whole,
            book=None if why else book,
            why=why,
            newer=newer,
        )

    async def _listed(self) -> list[ObjectInfo]:
        return [seen async for page in self._objects.pages(SEGMENTS) for seen in page]

    def _pause(self, attempt: int) -> float:
        pause = _PAUSE_SECONDS * 2.0**attempt * (1 + self._room.ids.fraction())
        return min(_LONGEST_PAUSE_SECONDS, pause)

    def _stamp(self) -> str:
        return format_time(self._room.clock.now())


def format_time(seconds: float) -> str:
    """A moment as the index has it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _decode_parts(
    some: Sequence[ObjectInfo],
    bodies: Sequence[ObjectBody | None],
    parts: list[tuple[str, ManifestPart]],
    unreadable: list[str],
) -> None:
    for seen, found in zip(some, bodies, strict=True):
        if found is None:
            continue  # moved into manifest.json since it was listed
        try:
            parts.append((seen.key, entries.decode(found.body)))
        except BrokenManifest:
            unreadable.append(seen.key)
