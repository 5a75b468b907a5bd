"""The manifest in the bucket: additions as small objects, `registry/manifest.json` as their sum.

Promises: an addition is one object that is never rewritten, so its cost depends on what is added, not on
the size of the manifest. Additions are merged into manifest.json when they have grown to a part of it, so
that all bytes ever written stay in proportion to the manifest. Published tools write manifest.json
themselves, on the same condition as Quire: no entries are lost. Additions are read before manifest.json, so
that one that is merged meanwhile is not missed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Raw, Struct

from quire.library.context import LibraryContext
from quire.library.manifest import entries
from quire.library.manifest.entries import BrokenManifest, ManifestEntry, ManifestPart, NewerManifest
from quire.library.manifest.search import ManifestView
from quire.library.protocol import layout
from quire.model.backoff import backoff_seconds
from quire.model.errors import Reject, Retry
from quire.model.objects import ObjectBody, ObjectInfo

SEGMENTS = "registry/manifest.d"
PER_SEGMENT = 1000
CHEAP_BYTES = 256 << 10  # a manifest this small is rewritten at once
MOST_SEGMENTS = 256  # more of them cost more to read than to merge
_PART = 0.5  # share of manifest.json that additions may reach
_ATTEMPTS = 10
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0
_AT_ONCE = 16

Sleep = Callable[[float], Awaitable[None]]


class CompactionResult(Struct, frozen=True):
    """`entries` are those that are new or changed in manifest.json."""

    segments: int = 0
    entries: int = 0


class StoredManifest(Struct, frozen=True, kw_only=True):
    """What the bucket holds. `whole` is manifest.json; a broken one has a reason `why` instead of
    `content`.
    """

    parts: tuple[tuple[str, ManifestPart], ...]
    unreadable: tuple[str, ...]
    whole: ObjectBody | None
    content: ManifestPart | None
    why: str = ""
    newer: bool = False  # manifest.json is not broken, but written by a later version of a tool


class LibraryManifest:
    def __init__(self, context: LibraryContext, *, sleep: Sleep = asyncio.sleep) -> None:
        self.context = context
        self._objects = context.objects
        self._sleep = sleep
        self._stuck = False

    async def add(self, added: Mapping[str, ManifestEntry]) -> None:
        """The entries are in the manifest when this returns. May be repeated."""
        for ident in added:
            layout.check_hash(ident)
        items = [(ident, entries.encode_entry(entry)) for ident, entry in added.items()]
        for at in range(0, len(items), PER_SEGMENT):
            body = entries.encode(dict(items[at : at + PER_SEGMENT]), self._format_now())
            await self._objects.create(f"{SEGMENTS}/{self.context.ids.ulid()}.json", body)
        if items:
            await self.compact_when_due()

    async def read(self) -> ManifestView:
        found = await self.load()
        whole = {} if found.content is None else found.content.entries
        entries.fold(whole, (part for _, part in found.parts))
        problems = [f"{key} cannot be read and is ignored." for key in found.unreadable]
        if found.why:
            problems.append(
                f"{layout.MANIFEST} cannot be read: {found.why}. Repair the manifest: the broken "
                "one is kept as a copy, and entries can be rebuilt from the stored PDFs."
            )
        return ManifestView(entries=whole, problems=tuple(problems), segments=len(found.parts))

    async def compact_when_due(self, *, cheap_bytes: int = 0) -> CompactionResult:
        """Merge additions when there are many, or when everything together is at most `cheap_bytes`."""
        waiting = [] if self._stuck else await self._list_segments()
        if not waiting:
            return CompactionResult()
        whole = await self._objects.head(layout.MANIFEST)
        size, more = 0 if whole is None else whole.size, sum(seen.size for seen in waiting)
        if len(waiting) < MOST_SEGMENTS and more < size * _PART and size + more > cheap_bytes:
            return CompactionResult()
        try:
            return await self.compact()
        except Retry:
            return CompactionResult()  # nothing is lost: the additions stay, and are read where they are
        except Reject:
            self._stuck = True  # until an operator repairs it; every further try would read everything
            return CompactionResult()

    async def compact(self) -> CompactionResult:
        """Merge all additions into manifest.json. Raises Reject with code `manifest_broken` when that
        cannot be read, Retry when other writers keep changing it.
        """
        return await self.change(lambda _: False)

    async def remove(self, idents: Iterable[str]) -> int:
        """Remove documents from the manifest; returns how many it had. An addition at the same time may
        win.
        """
        gone = {layout.check_hash(ident) for ident in idents}
        removed = 0

        def remove_from(merged: dict[str, Raw]) -> bool:
            nonlocal removed
            there = gone & merged.keys()
            for ident in there:
                del merged[ident]
            removed = len(there)
            return bool(there)

        await self.change(remove_from)
        return removed

    async def change(self, alter: Callable[[dict[str, Raw]], bool]) -> CompactionResult:
        """Merge all additions, alter the sum, and write it if manifest.json is unchanged; otherwise start
        over.
        """
        for attempt in range(_ATTEMPTS):
            found = await self.load()
            if found.content is None:
                raise Reject(
                    f"{layout.MANIFEST} cannot be read: {found.why}. Repair the manifest first.",
                    code="manifest_broken",
                )
            merged = found.content.entries
            changed = entries.fold(merged, (part for _, part in found.parts))
            altered = alter(merged)
            moved = [key for key, _ in found.parts]
            if not (changed or altered) or await self.write(merged, found):
                await self._objects.delete(moved)
                return CompactionResult(len(moved), changed)
            await self._sleep(self._pause(attempt))
        raise Retry(
            f"{layout.MANIFEST} was changed by other writers {_ATTEMPTS} times in a row; try again later. "
            "Nothing is lost: additions wait beside it.",
            code="contended",
        )

    async def write(self, merged: Mapping[str, Raw], found: StoredManifest) -> bool:
        """Write manifest.json if it is still the one that was found; False otherwise."""
        beside = None if found.content is None else found.content.beside
        body = entries.encode(merged, self._format_now(), beside)
        try:
            if found.whole is None:
                return await self._objects.create(layout.MANIFEST, body) is not None
            return await self._objects.swap(layout.MANIFEST, body, found.whole.version) is not None
        except Reject as error:
            raise Reject(
                f"{layout.MANIFEST} of {len(body) >> 20} MiB is larger than the store allows: {error} "
                f"Additions stay in {SEGMENTS}, where quire finds them and other tools do not.",
                code=error.code,
            ) from error

    async def load(self) -> StoredManifest:
        # Additions first: one that is merged meanwhile is in manifest.json by the time that is read.
        parts: list[tuple[str, ManifestPart]] = []
        unreadable: list[str] = []
        listed = await self._list_segments()
        for at in range(0, len(listed), _AT_ONCE):
            some = listed[at : at + _AT_ONCE]
            bodies = await asyncio.gather(*(self._objects.read(seen.key) for seen in some))
            _decode_parts(some, bodies, parts, unreadable)
        whole = await self._objects.read(layout.MANIFEST)
        content, why, newer = ManifestPart({}), "", False
        try:
            content = ManifestPart({}) if whole is None else entries.decode(whole.body)
        except BrokenManifest as error:
            why, newer = str(error), isinstance(error, NewerManifest)
        return StoredManifest(
            parts=tuple(parts),
            unreadable=tuple(unreadable),
            whole=whole,
            content=None if why else content,
            why=why,
            newer=newer,
        )

    async def _list_segments(self) -> list[ObjectInfo]:
        return [seen async for page in self._objects.pages(SEGMENTS) for seen in page]

    def _pause(self, attempt: int) -> float:
        first = _PAUSE_SECONDS * (1 + self.context.ids.fraction())
        return backoff_seconds(attempt + 1, first=first, longest=_LONGEST_PAUSE_SECONDS)

    def _format_now(self) -> str:
        return format_time(self.context.clock.now())


def format_time(seconds: float) -> str:
    """A time as the manifest writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _decode_parts(
    some: Sequence[ObjectInfo],
    bodies: Sequence[ObjectBody | None],
    parts: list[tuple[str, ManifestPart]],
    unreadable: list[str],
) -> None:
    for seen, found in zip(some, bodies, strict=True):
        if found is None:
            continue  # merged into manifest.json since it was listed
        try:
            parts.append((seen.key, entries.decode(found.body)))
        except BrokenManifest:
            unreadable.append(seen.key)
