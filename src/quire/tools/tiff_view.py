"""One page of a TIFF as a file of its own, without copying it.

Decoders walk the chain of directories from its beginning for each page that they open, and to its end to
count the pages: for a book of thousands of pages that is millions of directories. Here the header leads to
the page's own directory, and that directory leads nowhere. Must not know: decoders.
"""

import io
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from quire.tools.tiff import TiffPage

MANY_DIRECTORIES = 8  # with fewer, walking costs less than reading through Python
_CLOSED = -1


class _Patch(Struct, frozen=True):
    start: int
    data: bytes


class TiffPageView:
    """A file to read and seek in. Safe to leave open: it is closed when nothing refers to it any more."""

    _descriptor = _CLOSED

    def __init__(self, path: Path, page: TiffPage) -> None:
        # A descriptor, not a file: a decoder forgets its source without closing it.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = os.fstat(self._descriptor).st_size
        self._at = 0
        first = page.directory.to_bytes(page.word, page.order)
        self._patches = (_Patch(page.word, first), _Patch(page.next_at, bytes(page.word)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)

    def read(self, length: int = -1) -> bytes:
        wanted = max(0, self._size - self._at) if length < 0 else length
        data = os.pread(self._descriptor, wanted, self._at)
        for patch in self._patches:
            data = _overlay(data, self._at, patch)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def fileno(self) -> int:
        """For Pillow, which finds the directory by its offset: it would read the whole file into memory."""
        return self._descriptor

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _overlay(data: bytes, start: int, patch: _Patch) -> bytes:
    """The data, which begins at `start` of the file, with the patch where it lies within."""
    end = patch.start + len(patch.data)
    if end <= start or patch.start >= start + len(data):
        return data
    low, high = max(start, patch.start), min(start + len(data), end)
    return data[: low - start] + patch.data[low - patch.start : high - patch.start] + data[high - start :]


def has_many(page: TiffPage | None) -> bool:
    """Whether the page is in a file of so many directories that it is read through a view."""
    return page is not None and page.among > MANY_DIRECTORIES
