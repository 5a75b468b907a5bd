"""The result of a conversion as one ZIP: `content.md`, `assets/…`, `info.json`.

Promises: equal contents give equal bytes (members in order, one date, no trace of the machine); equal
pictures are stored once; pictures go to the disk as they come, so that memory does not grow with the
document. The file appears under its name when it is complete, and not before. Names of members are made here,
never taken from a document.
"""

import shutil
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Self
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import msgspec

from quire.tools import sniff

CONTENT = "content.md"
INFO = "info.json"
ASSETS = "assets/"

_SUFFIXES = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/tiff": "tif",
}
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_MODE = 0o644
_UNIX = 3
_PIECE = 1 << 20


class ArchiveWriter:
    """A context manager: left with an error, or without `finish`, it leaves nothing behind."""

    def __init__(self, target: Path, pages: int, max_asset_bytes: int) -> None:
        self._target = target
        self._part = target.with_name(target.name + ".part")
        self._digits = len(str(pages))
        self._room = max_asset_bytes
        self._names: dict[bytes, str] = {}
        self._on_page: dict[int, int] = {}
        self._pieces: list[tuple[int, int]] = []  # of the text: where each begins and ends
        self._end = 0
        self._patched = False

    def __enter__(self) -> Self:
        self._content = TemporaryFile(dir=self._target.parent)
        try:
            self._zip = ZipFile(self._part, "w", allowZip64=True)
        except BaseException:
            self._content.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._content.close()
        try:
            self._zip.close()
        finally:
            self._part.unlink(missing_ok=True)

    @property
    def assets(self) -> int:
        return len(self._names)

    def add_picture(self, page: int, data: bytes) -> str | None:
        """Its name in the archive. None: not a kind of picture that browsers show, or no room left."""
        digest = sha256(data).digest()
        if digest in self._names:
            return self._names[digest]
        suffix = _SUFFIXES.get(sniff.signature(data[: sniff.HEAD_BYTES]) or "")
        if suffix is None or len(data) > self._room:
            return None
        self._room -= len(data)
        # Their order by name is the order in which they come.
        number = self._on_page[page] = self._on_page.get(page, 0) + 1
        name = f"{ASSETS}page-{page:0{self._digits}}-{number:04}.{suffix}"
        self._zip.writestr(_member(name, ZIP_STORED), data)
        self._names[digest] = name
        return name

    def add_text(self, markdown: str) -> int:
        """The number of this piece, for `text` and `replace`."""
        self._pieces.append(self._write(markdown))
        return len(self._pieces) - 1

    def text(self, piece: int) -> str:
        found = self._bytes(*self._pieces[piece]).decode()
        self._content.seek(self._end)
        return found

    def replace(self, piece: int, markdown: str) -> None:
        self._pieces[piece] = self._write(markdown)
        self._patched = True

    def _write(self, markdown: str) -> tuple[int, int]:
        begin = self._end
        self._end += self._content.write(markdown.encode("utf-8", "replace"))
        return begin, self._end

    def _bytes(self, begin: int, end: int) -> bytes:
        self._content.seek(begin)
        return self._content.read(end - begin)

    def finish(self, info: Mapping[str, Any]) -> None:
        content = _member(CONTENT, ZIP_DEFLATED)
        content.file_size = sum(end - begin for begin, end in self._pieces)
        with self._zip.open(content, "w") as member:
            if self._patched:
                for piece in self._pieces:
                    member.write(self._bytes(*piece))
            else:
                self._content.seek(0)
                shutil.copyfileobj(self._content, member, _PIECE)
        self._zip.writestr(
            _member(INFO, ZIP_DEFLATED), msgspec.json.format(msgspec.json.encode(info), indent=2)
        )
        self._zip.close()
        self._part.replace(self._target)


def _member(name: str, compression: int) -> ZipInfo:
    member = ZipInfo(name, _LONG_AGO)
    member.compress_type = compression
    member.create_system = _UNIX
    member.external_attr = _MODE << 16
    return member
