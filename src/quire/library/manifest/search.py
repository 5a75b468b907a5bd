"""Finds documents in the manifest: by name, by tag, by hash, by path.

Case, and the two ways in which systems write accents, make no difference. Must not know: where the manifest
is stored.
"""

import heapq
import re
import unicodedata
from collections.abc import Iterable, Iterator

from msgspec import Raw, Struct, field

from quire.library.manifest import entries
from quire.library.manifest.entries import ManifestEntry
from quire.model.errors import Missing, Reject

SHORTEST_PREFIX = 8
_PREFIX = re.compile(r"[0-9a-f]{8,64}")


class ManifestHit(Struct, frozen=True):
    hash: str
    entry: ManifestEntry


class ManifestView(Struct, frozen=True, kw_only=True):
    """The whole manifest at one moment. `problems` are for people: what could not be read, and what to do.

    Entries are decoded on demand: fifty thousand decoded entries would take five times the memory.
    """

    entries: dict[str, Raw] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    segments: int = 0  # how many additions are not merged into manifest.json yet

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, ident: str) -> bool:
        return ident in self.entries

    def get(self, ident: str) -> ManifestEntry | None:
        raw = self.entries.get(ident)
        return None if raw is None else entries.decode_entry(raw)

    def hits(self) -> Iterator[ManifestHit]:
        """All readable entries, in no particular order."""
        for ident, raw in self.entries.items():
            entry = entries.decode_entry(raw) if entries.is_hash(ident) else None
            if entry is not None:
                yield ManifestHit(ident, entry)


def search(view: ManifestView, query: str, *, limit: int = 20) -> list[ManifestHit]:
    """Documents that have the text in a path or a tag, sorted by their first path."""
    wanted = _normalize(query)
    if not wanted.strip():
        raise Reject("The search text is empty; give part of a name or tag.", code="bad_query")
    found = (
        hit
        for hit in view.hits()
        if any(wanted in _normalize(text) for text in (*hit.entry.paths, *hit.entry.tags))
    )
    return heapq.nsmallest(max(0, limit), found, key=_order)


def find_by_hash(view: ManifestView, prefix: str) -> ManifestHit:
    """The document with this hash or hash prefix. Raises Missing, or Reject as `resolve_prefix` does."""
    ident = resolve_prefix(view.entries, prefix)
    entry = view.get(ident)
    if entry is None:
        raise Missing(f"The manifest entry of {ident} cannot be read; repair the manifest.")
    return ManifestHit(ident, entry)


def find_by_path(view: ManifestView, path: str) -> list[ManifestHit]:
    """Documents with exactly this path; if there are none, those whose path ends with it, by whole names."""
    wanted = _normalize(path).strip("/")
    if not wanted:
        raise Reject("The path is empty.", code="bad_query")
    whole: list[ManifestHit] = []
    ending: list[ManifestHit] = []
    for hit in view.hits():
        paths = [_normalize(text) for text in hit.entry.paths]
        if wanted in paths:
            whole.append(hit)
        elif any(text.endswith(f"/{wanted}") for text in paths):
            ending.append(hit)
    return sorted(whole or ending, key=_order)


def resolve_prefix(known: Iterable[str], prefix: str) -> str:
    """The one hash with this prefix of at least eight digits. Raises Missing when there is none, Reject
    when there are several or the text cannot be a hash prefix.
    """
    wanted = prefix.strip().lower()
    if _PREFIX.fullmatch(wanted) is None:
        raise Reject(
            f"{prefix[:80]!r} is not a hash: give all 64 hexadecimal digits, or at least the first "
            f"{SHORTEST_PREFIX}.",
            code="bad_hash",
        )
    found = heapq.nsmallest(3, {ident for ident in known if ident.startswith(wanted)})
    if not found:
        raise Missing(f"No document of this library has a hash that begins with {wanted}.")
    if len(found) > 1:
        raise Reject(
            f"Several hashes begin with {wanted} ({', '.join(found)}): give more digits.",
            code="ambiguous_hash",
        )
    return found[0]


def _order(hit: ManifestHit) -> tuple[str, str]:
    return _normalize(hit.entry.paths[0]) if hit.entry.paths else "", hit.hash


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
