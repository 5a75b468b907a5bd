"""Writes the Markdown of a document and its pictures into one folder.

Promises: pages and pictures go to the disk as they come, so that memory does not grow with the document;
equal pictures are stored once; names of files are made here, never taken from a document, and their order is
the order in which the pictures come. Must not know: where the pages come from.
"""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from quire.model.files import mark_of
from quire.tools import sniff

_SUFFIXES = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/tiff": "tif",
}
_CONTENT = "content.md"


class StoredPicture(NamedTuple):
    name: str
    content_type: str
    mark: str = ""


class MarkdownWriter:
    """A context manager. `links` stands before the name of a picture in each link to it; with `marked`, the
    mark that the picture's file will have stands between them.
    """

    def __init__(
        self, folder: Path, pages: int, *, links: str, max_picture_bytes: int, marked: str = ""
    ) -> None:
        self.links = links
        self._marked = marked
        self._folder = folder
        self._draft = folder / f".{_CONTENT}"
        self._digits = len(str(pages))
        self._room = max_picture_bytes
        self._pictures: dict[bytes, StoredPicture] = {}
        self._on_page: dict[int, int] = {}
        self._pieces: list[tuple[int, int]] = []  # of the text: where each begins and ends
        self._end = 0
        self._is_patched = False

    def __enter__(self) -> Self:
        self._content = self._draft.open("w+b")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._content.close()

    def pictures(self) -> Iterator[tuple[Path, StoredPicture]]:
        """All pictures in the order in which they came."""
        return ((self._folder / one.name, one) for one in self._pictures.values())

    def add_picture(self, page: int, data: bytes) -> str | None:
        """The link to it. None: not a kind of picture that browsers show, or no room left."""
        digest = sha256(data).digest()
        if digest not in self._pictures:
            kind = sniff.signature(data[: sniff.HEAD_BYTES]) or ""
            if kind not in _SUFFIXES or len(data) > self._room:
                return None
            self._room -= len(data)
            number = self._on_page[page] = self._on_page.get(page, 0) + 1
            name = f"page-{page:0{self._digits}}-{number:04}.{_SUFFIXES[kind]}"
            (self._folder / name).write_bytes(data)
            self._pictures[digest] = StoredPicture(name, kind, self._mark_next())
        stored = self._pictures[digest]
        return self.links + stored.mark + stored.name

    def add_text(self, markdown: str) -> int:
        """The number of this piece, for `text` and `replace`."""
        self._pieces.append(self._write(markdown))
        return len(self._pieces) - 1

    def text(self, piece: int) -> str:
        found = self._read(*self._pieces[piece]).decode()
        self._content.seek(self._end)
        return found

    def replace(self, piece: int, markdown: str) -> None:
        self._pieces[piece] = self._write(markdown)
        self._is_patched = True

    def finish(self) -> Path:
        """The file with all pieces in their order; of a document without text it has one empty line."""
        if not any(begin < end for begin, end in self._pieces):
            self.add_text("\n")
        if self._is_patched:
            with (self._folder / _CONTENT).open("wb") as whole:
                for piece in self._pieces:
                    whole.write(self._read(*piece))
            return self._folder / _CONTENT
        self._content.flush()
        return self._draft.rename(self._folder / _CONTENT)

    def _mark_next(self) -> str:
        """Of the next picture: the outputs are the Markdown, then the pictures in the order they came in."""
        return f"{mark_of(self._marked, len(self._pictures) + 1)}." if self._marked else ""

    def _write(self, markdown: str) -> tuple[int, int]:
        begin = self._end
        self._end += self._content.write(markdown.encode("utf-8", "replace"))
        return begin, self._end

    def _read(self, begin: int, end: int) -> bytes:
        self._content.seek(begin)
        return self._content.read(end - begin)
