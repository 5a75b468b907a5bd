"""Keys of blobs: checks and builds them, for all other modules.

Promise: a key that passes `check` names the same blob on every store and cannot leave a folder or a bucket
prefix. Built keys hold ids and digests only, never text that a user wrote.
Must not know: any store.
"""

import hashlib
import re

from quire.model.errors import Reject

MAX_KEY_BYTES = 1024
MAX_SEGMENT_BYTES = 255  # what file systems allow as one name

# The local store keeps its own files there; the other stores refuse them too, so that keys can move.
RESERVED = frozenset({".tmp", ".meta", ".locks", ".parts"})

SCRUB = "scrub/state.json"  # where the scrub of this store is
DAMAGED_COPIES = "damaged/"  # the folder of `damaged`
CLOCKS = "registry/clock"  # short-lived objects: their time of writing is the store's time

_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ud800-\udfff]")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_ASSET = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{7,63}")
_EXTENSION = re.compile(r"[a-z0-9]{1,10}")
_WORD = re.compile(r"[a-z][a-z0-9-]{0,30}")


def check(key: str) -> str:
    """Return the key if it is valid. Raises Reject with code `bad_key`."""
    reason = _fault(key)
    if reason is not None:
        raise Reject(
            f"Blob key {key[:80]!r} {reason}. Keys are relative, with segments separated by '/'.",
            code="bad_key",
        )
    return key


def folder(prefix: str) -> str:
    """A folder to list, as "" or with one slash at its end. Raises Reject with code `bad_key`."""
    return check(prefix.removesuffix("/")) + "/" if prefix else ""


def content(digest: str) -> str:
    """The key of content-addressed bytes, in 256 folders."""
    _require(_DIGEST, digest, "a SHA-256 in lower-case hexadecimal")
    return f"cas/{digest[:2]}/{digest}"


def damaged(digest: str) -> str:
    """Where a damaged copy of that content is kept for a person to look at."""
    _require(_DIGEST, digest, "a SHA-256 in lower-case hexadecimal")
    return f"{DAMAGED_COPIES}{digest[:2]}/{digest}"


def manifest(batch_id: str) -> str:
    _require(_ULID, batch_id, "a batch id (ULID)")
    return f"batches/{batch_id}/manifest.json"


def asset(asset_id: str) -> str:
    """The record of an asset."""
    _require(_ASSET, asset_id, "an asset id")
    return f"assets/{asset_id}.json"


def asset_tiles(asset_id: str) -> str:
    """The record of an asset's tiles."""
    _require(_ASSET, asset_id, "an asset id")
    return f"asset-tiles/{asset_id}.json"


def hold(batch_id: str, key: str) -> str:
    """A mark that an asset depends on the staged file of this key."""
    _require(_ULID, batch_id, "a batch id (ULID)")
    return f"asset-holds/{batch_id}/{hashlib.sha256(key.encode()).hexdigest()}"


def archived(batch_id: str, asset_id: str, extension: str) -> str:
    """The archive copy of an original."""
    _require(_ULID, batch_id, "a batch id (ULID)")
    _require(_ASSET, asset_id, "an asset id")
    _require(_EXTENSION, extension, "an extension")
    return f"archive/{batch_id}/{asset_id}/original.{extension}"


def archive_indexes(batch_id: str) -> str:
    """The folder of a batch's archive indexes."""
    _require(_ULID, batch_id, "a batch id (ULID)")
    return f"archive/{batch_id}/index"


def archive_index(batch_id: str, first_key: str) -> str:
    """The list of an archive page that begins with this file."""
    _require(_ULID, batch_id, "a batch id (ULID)")
    return f"{archive_indexes(batch_id)}/{hashlib.sha256(first_key.encode()).hexdigest()[:32]}.jsonl"


def probe(nonce: str, name: str = "blob") -> str:
    """A key that a start-up check may write."""
    _require(_ULID, nonce, "a nonce (ULID)")
    _require(_WORD, name, "a word")
    return f"probe/{nonce}/{name}"


def _fault(key: str) -> str | None:
    if _FORBIDDEN.search(key):
        return "contains a control character, a backslash or half a character"
    if len(key.encode()) > MAX_KEY_BYTES:
        return f"is longer than {MAX_KEY_BYTES} bytes"
    segments = key.split("/")
    if any(segment in {"", ".", ".."} for segment in segments):
        return "is empty or contains an empty segment, '.' or '..'"
    if any(len(segment.encode()) > MAX_SEGMENT_BYTES for segment in segments):
        return f"has a segment longer than {MAX_SEGMENT_BYTES} bytes"
    # Case-folded: on a file system that ignores case, `.TMP` is `.tmp`.
    if segments[0].casefold() in RESERVED:
        return f"begins with {segments[0]!r}, which the store keeps for itself"
    return None


def _require(pattern: re.Pattern[str], text: str, what: str) -> None:
    if not pattern.fullmatch(text):
        raise Reject(f"{text[:80]!r} is not {what}, so no blob key is built from it.", code="bad_key")
