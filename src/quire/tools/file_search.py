"""Finds files by the SHA-256 of their bytes: only those of a wanted size are read.

Promise: links are never followed, and what cannot be read is passed over. Must not know: why they are wanted.
"""

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path


def find_by_digest(
    folders: Sequence[Path], sizes: Collection[int], digests: Collection[str]
) -> dict[str, Path]:
    """A file for each of the digests that some file below the folders has. Blocking."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in _list_files(folder, sizes):
            digest = _digest_of(path)
            if digest in digests:
                found.setdefault(digest, path)
                if len(found) == len(digests):
                    return found
    return found


def _list_files(folder: Path, sizes: Collection[int]) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            try:
                state = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(state.st_mode) and state.st_size in sizes:
                yield path


def _digest_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
