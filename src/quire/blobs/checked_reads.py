"""Reads blobs that are given away: each is compared with its digest while it is read, and read once.

Promise: nobody is given the end of a blob whose bytes do not match its digest. A damaged blob is set
aside, so that the right bytes can take its place. Must not know: what the bytes mean, and who wants them.
"""

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import AsyncIterator
from pathlib import Path

from quire.blobs import fixity
from quire.blobs.port import Blobs
from quire.model.errors import DamagedBlob

_CONTENT = re.compile(r"cas/[0-9a-f]{2}/([0-9a-f]{64})")
_DIGEST = re.compile(r"[0-9a-f]{64}")
KEPT_CHECKS = 4096
TRUSTED_SECONDS = 600.0


def find_digest(key: str, digest: str = "") -> str:
    """The SHA-256 that the blob must have: that of its record, or the one in its key. Empty: nobody knows."""
    if _DIGEST.fullmatch(digest):
        return digest
    named = _CONTENT.fullmatch(key)
    return named[1] if named else ""


async def stream(blobs: Blobs, key: str, digest: str = "") -> AsyncIterator[bytes]:
    """The whole blob in pieces. The last piece comes only when all of them match; otherwise DamagedBlob is
    raised in its place. A blob whose digest nobody knows is passed on as it is.
    """
    expected = find_digest(key, digest)
    hashed = hashlib.sha256()
    held: bytes | None = None
    async for piece in blobs.stream(key):
        if held is not None:
            yield held
        held = piece
        if expected:
            hashed.update(piece)
    if expected and hashed.hexdigest() != expected:
        raise await report_damage(blobs, key, expected)
    if held is not None:
        yield held


async def read(blobs: Blobs, key: str, digest: str = "") -> bytes:
    """The whole blob; for small ones. Raises Missing, DamagedBlob."""
    data = await blobs.get(key)
    expected = find_digest(key, digest)
    if expected and hashlib.sha256(data).hexdigest() != expected:
        raise await report_damage(blobs, key, expected)
    return data


async def report_damage(blobs: Blobs, key: str, digest: str) -> DamagedBlob:
    """Set the damaged blob aside; returns the error to raise."""
    await fixity.set_aside(blobs, key, digest)
    return fixity.damaged(key)


_State = tuple[str, int, int, int, int]


class RememberedChecks:
    """Checks blobs that are given away again and again, whole or in parts: a part alone has no digest.

    Of files on this machine a check holds for `TRUSTED_SECONDS` while the file stays as it is: hashing costs
    more than sending, and what was just read comes from the memory of the machine. Parts of objects in a
    bucket are not checked, because whole pictures would be fetched for each tile: there the store's own
    checksums protect them.
    """

    def __init__(self) -> None:
        self._checked: OrderedDict[_State, float] = OrderedDict()

    async def stream(self, blobs: Blobs, key: str, digest: str, now: float) -> AsyncIterator[bytes]:
        """The whole blob, like `stream`. `now` is of a monotonic clock."""
        path = blobs.local_path(key) if find_digest(key, digest) else None
        state = None if path is None else _find_state(key, path)
        if state is not None and self._is_trusted(state, now):
            async for piece in blobs.stream(key):
                yield piece
            return
        async for piece in stream(blobs, key, digest):
            yield piece
        if state is not None:
            self._remember(state, now)

    async def check(self, blobs: Blobs, key: str, digest: str, now: float) -> None:
        """Before a part is sent. Raises DamagedBlob."""
        expected = find_digest(key, digest)
        path = blobs.local_path(key) if expected else None
        state = None if path is None else _find_state(key, path)
        if path is None or state is None or self._is_trusted(state, now):
            return
        try:
            await asyncio.to_thread(fixity.check_file, path, expected, key)
        except DamagedBlob:
            raise await report_damage(blobs, key, expected) from None
        self._remember(state, now)

    def _is_trusted(self, state: _State, now: float) -> bool:
        return now < self._checked.get(state, 0.0)

    def _remember(self, state: _State, now: float) -> None:
        self._checked[state] = now + TRUSTED_SECONDS
        self._checked.move_to_end(state)
        while len(self._checked) > KEPT_CHECKS:
            self._checked.popitem(last=False)


def _find_state(key: str, path: Path) -> _State | None:
    """What changes with every write; also when the time of the last change is set back."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return key, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
