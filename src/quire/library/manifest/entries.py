"""Manifest entries as they are stored: which files have which hash, in the form of the published design.

Promises: what other tools wrote is kept, also what is not understood here; merging the same entries twice,
or in another order, gives the same paths, tags and size. Pure. Must not know: where the manifest is stored.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from json import JSONDecodeError, JSONDecoder
from typing import Any

import msgspec
from msgspec import Raw, Struct, field, structs

VERSION = 1
_ID = re.compile(r"[0-9a-f]{64}")
_ENTRY_START = re.compile(r'"([0-9a-f]{64})"\s*:\s*(?=\{)')
_MAX_FUTILE = 1000  # failed attempts to read an entry from a broken manifest, before salvaging ends
_FAULTS = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)


class ManifestEntry(Struct, frozen=True, kw_only=True):
    """One document. `paths` are relative to the ingested folder, whose name is `source`."""

    paths: list[str] = field(default_factory=list)
    size: int = 0
    tags: list[str] = field(default_factory=list)
    ingested_at: str = ""
    source: str = ""


class BrokenManifest(ValueError):
    """The manifest cannot be read; the message says why."""


class NewerManifest(BrokenManifest):
    """The manifest is not ours to repair: a later version of some tool wrote it."""


class ManifestPart(Struct, frozen=True):
    """A manifest or an addition as it was read: undecoded entries by hash, and the other fields beside
    them.
    """

    entries: dict[str, Raw]
    beside: dict[str, Raw] = field(default_factory=dict)


def is_hash(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def decode(body: bytes) -> ManifestPart:
    """Raises Broken."""
    try:
        beside = msgspec.json.decode(body, type=dict[str, Raw])
        entries = msgspec.json.decode(beside.pop("entries", b"{}"), type=dict[str, Raw])
        version = msgspec.json.decode(beside.get("version", b"1"), type=int, strict=False)
    except _FAULTS as error:
        raise BrokenManifest(f"it is not a manifest: {str(error)[:200]}") from error
    if version != VERSION:
        raise NewerManifest(f"it is of version {version}, and this program knows version {VERSION}")
    return ManifestPart(entries, beside)


def encode(entries: Mapping[str, Raw], updated_at: str, beside: Mapping[str, Raw] | None = None) -> bytes:
    document: dict[str, Any] = {**(beside or {}), "version": VERSION, "updated_at": updated_at}
    return msgspec.json.encode({**document, "entries": entries})


def decode_entry(raw: Raw) -> ManifestEntry | None:
    """None: the entry cannot be understood."""
    try:
        return msgspec.json.decode(raw, type=ManifestEntry, strict=False)
    except _FAULTS:
        return _decode_fields(raw)


def _decode_fields(raw: Raw) -> ManifestEntry | None:
    """Decode field by field: a field that is null or of another type does not spoil the others."""
    try:
        stored = msgspec.json.decode(raw, type=dict[str, Raw])
    except _FAULTS:
        return None
    known = {}
    for one in structs.fields(ManifestEntry):
        try:
            known[one.name] = msgspec.json.decode(stored[one.name], type=one.type, strict=False)
        except (KeyError, *_FAULTS):
            continue
    return ManifestEntry(**known) if known else None


def encode_entry(entry: ManifestEntry) -> Raw:
    return Raw(msgspec.json.encode(entry))


def merge(old: ManifestEntry, new: ManifestEntry) -> ManifestEntry:
    """Combine two entries. The larger size is the right one: published tools noted that of an LFS pointer."""
    return ManifestEntry(
        paths=_unite(old.paths, new.paths),
        size=max(old.size, new.size),
        tags=_unite(old.tags, new.tags),
        ingested_at=min(filter(None, (old.ingested_at, new.ingested_at)), default=""),
        source=old.source or new.source,
    )


def merge_raw(old: Raw | None, new: Raw) -> Raw:
    """Combine two stored entries; returns `old` itself if nothing is new. Foreign fields stay."""
    if old is None:
        return new
    ours, theirs = decode_entry(old), decode_entry(new)
    if theirs is None:
        return old
    if ours is None:
        return new
    both = merge(ours, theirs)
    if both == ours:
        return old
    stored = msgspec.json.decode(old, type=dict[str, Any])
    return Raw(msgspec.json.encode({**stored, **structs.asdict(both)}))


def fold(into: dict[str, Raw], parts: Iterable[ManifestPart]) -> int:
    """Merge the parts into these entries; returns how many of them changed."""
    changed = 0
    for part in parts:
        for ident, raw in part.entries.items():
            before = into.get(ident)
            after = merge_raw(before, raw)
            if after is not before:
                into[ident] = after
                changed += 1
    return changed


def salvage(body: bytes) -> dict[str, Raw]:
    """The entries that can be read from a manifest that is broken as a whole."""
    return {ident: encode_entry(entry) for ident, entry in _salvage_entries(body.decode("utf-8", "replace"))}


def _salvage_entries(text: str) -> Iterator[tuple[str, ManifestEntry]]:
    decoder, at, futile = JSONDecoder(), 0, 0
    while futile < _MAX_FUTILE and (start := _ENTRY_START.search(text, at)) is not None:
        try:
            stored, at = decoder.raw_decode(text, start.end())
            yield start[1], msgspec.convert(stored, type=ManifestEntry, strict=False)
        except (JSONDecodeError, *_FAULTS):
            futile += 1
            at = max(at, start.end())


def _unite(old: Iterable[str], new: Iterable[str]) -> list[str]:
    return list(dict.fromkeys((*old, *new)))
