"""qpdf, by way of pikepdf: opens, repairs, counts and splits PDFs.

Promises: a locked, truncated or irreparable file is refused; repairs are listed in `damage`; a
single page is written with its text, fonts and layers, without the document's scripts and attachments, and
the same input gives the same bytes. Nothing is decoded without need, and the file is mapped, not read.
Draws nothing. Pages are counted from 1.
"""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from quire.model.errors import Misconfigured, QuireError
from quire.model.probe import Probe
from quire.tools import pdf_pictures, pdf_single, pdf_streams, pdf_text, refusals, sniff
from quire.tools.pdf_streams import CheckJpeg, StreamChecker
from quire.tools.pdf_text import PageFrame, PagePicture, TextFont

_ADVICE = "pip install pikepdf"
_HEADER = b"%PDF-"
_HEADER_BYTES = 1024  # readers look for the header this far
_TAIL_BYTES = 4096  # and for the end within this
_LINEARIZED = re.compile(rb"/Linearized\b.*?/L\s+(\d{1,15})\b", re.DOTALL)
_MOST_DAMAGES = 5
_MOST_WAITING = 64 << 20  # bytes of pictures in memory
_MOST_LOOKED_AT = 100_000
_LONGEST_DAMAGE = 200
_ROUTINE = re.compile("common error handled correctly")  # an odd habit of writers, not damage
_REBUILT = re.compile("reconstruct")
_FOREIGN_LOCK = re.compile("unsupported encryption")
_WRITTEN_AT = re.compile(rb"\s*<xmp:MetadataDate>[^<]*</xmp:MetadataDate>")  # the same input, the same bytes
_PAGE_LOST = re.compile(r"\bpages tree\b.*\bignoring\b|\bkid\b.*\bignoring\b", re.IGNORECASE)


def probe() -> Probe:
    try:
        library = _pikepdf()
    except Misconfigured:
        return Probe(name="qpdf", ok=False, advice=_ADVICE)
    return Probe(name="qpdf", ok=True, detail=str(library.__libqpdf_version__))


class PdfFile:
    """An open PDF with at least one page; a context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._damage: dict[str, None] = {}
        self._lean = False
        _check_kind(path)
        with self._translate_errors():
            # Pages are left as they are until their number, as the document claims it, is read.
            self._pdf = _pikepdf().open(path, inherit_page_attributes=False)
            try:
                self.pages = self._checked_pages()
            except BaseException:
                self._pdf.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pdf.close()

    @property
    def damage(self) -> tuple[str, ...]:
        """What was found wrong and repaired so far, in qpdf's words; the first few."""
        return tuple(self._read_warnings())[:_MOST_DAMAGES]

    def largest_picture(self) -> int:
        """Pixels of the largest picture in it, as it says itself; of the first so many objects."""
        largest = 0
        with self._translate_errors():
            library = _pikepdf()
            for one in islice(self._pdf.objects, _MOST_LOOKED_AT):
                if isinstance(one, library.Stream):
                    largest = max(largest, pdf_pictures.pixels(one))
        return largest

    @property
    def locked(self) -> bool:
        """Whether it is encrypted although it opens without a password: some readers refuse such a file."""
        return bool(self._pdf.is_encrypted)

    def pictures(self, max_pixels: int) -> tuple[frozenset[int], frozenset[int]]:
        """The pages that show a picture of more pixels than that, by its header alone and masks included; and
        those that show pictures within forms, which some readers do not see.
        """
        library = _pikepdf()
        large: set[tuple[int, int]] = set()
        forms: set[tuple[int, int]] = set()
        with self._translate_errors():
            for one in self._pdf.objects:
                if isinstance(one, library.Stream):
                    if pdf_pictures.pixels(one) > max_pixels:
                        large.add(one.objgen)
                    elif pdf_pictures.frames(one, library):
                        forms.add(one.objgen)
            return self._pages_showing(large), self._pages_showing(forms)

    def _pages_showing(self, wanted: set[tuple[int, int]]) -> frozenset[int]:
        library = _pikepdf()
        pages = enumerate(self._pdf.pages, 1) if wanted else ()
        return frozenset(number for number, page in pages if pdf_pictures.shows(page.obj, wanted, library))

    def check_objects(self) -> None:
        """Refuse the document when objects were read from bytes that contradict their checksum: what a page
        shows could be something else, or gone.
        """
        with self._translate_errors():
            library = _pikepdf()
            for one in self._pdf.objects:
                if isinstance(one, library.Stream) and one.get("/Type") == "/ObjStm":
                    pdf_streams.check_objects(one, library)

    def check_shown(self, check_jpeg: CheckJpeg) -> None:
        """Refuse the document when a page shows something that is not whole: renderers do not tell.
        `check_jpeg` refuses a JPEG of which rows are missing.
        """
        with self._translate_errors():
            checker = StreamChecker(_pikepdf(), check_jpeg)
            for number, page in enumerate(self._pdf.pages, 1):
                checker.check(page.obj, number)

    def check_page(self, number: int, check_jpeg: CheckJpeg) -> None:
        """The same for one page."""
        with self._translate_errors():
            StreamChecker(_pikepdf(), check_jpeg).check(self._pdf.pages[number - 1].obj, number)

    @property
    def signed(self) -> bool:
        return pdf_text.is_signed(self._pdf, _pikepdf())

    def frame(self, number: int) -> PageFrame:
        with self._translate_errors():
            return pdf_text.find_frame(self._pdf.pages[number - 1].obj, _pikepdf())

    def write_with_layers(
        self, target: Path, layers: Mapping[int, bytes], font: TextFont, *, archival: bool
    ) -> None:
        """Write the whole document with text that is not seen on top of some pages. Everything else stays,
        compressed streams to the byte. Raises Reject `not_pdfa` when it cannot become PDF/A.
        """
        with self._translate_errors():
            library = _pikepdf()
            found = pdf_text.add_font(self._pdf, font, library) if layers else None
            for number, layer in sorted(layers.items()):
                pdf_text.add_layer(self._pdf, self._pdf.pages[number - 1].obj, layer, found, library)
            _save_as(self._pdf, target, archival=archival)

    def write_whole(self, target: Path) -> None:
        """Write the whole document, repaired and decrypted, for readers that are less tolerant."""
        with self._translate_errors():
            _save(self._pdf, target, encryption=False)

    def write_page(self, number: int, target: Path) -> None:
        with self._translate_errors():
            if not self._lean:
                # Where all pages share one table of resources, each would carry the pictures of all.
                self._pdf.remove_unreferenced_resources()
                self._lean = True
            library = _pikepdf()
            with library.new() as single:
                single.pages.append(self._pdf.pages[number - 1])
                pdf_single.quieten(single.pages[0].obj, library)
                pdf_single.copy_layers(self._pdf, single, library)
                pdf_single.copy_fields(self._pdf, single, library)
                _save(single, target, min_version=self._pdf.pdf_version)

    def _checked_pages(self) -> int:
        """The number of pages. Refuses an incomplete document: a repair must not lose pages silently."""
        claimed = self._pdf.Root.Pages.get("/Count")
        found = len(self._pdf.pages)
        damage = self._read_warnings()
        if damage:
            _check_end(self._path)
        if any(_PAGE_LOST.search(words) for words in damage):
            raise refusals.corrupt("some of its pages are missing", "PDF")
        if isinstance(claimed, int) and claimed > found:
            raise refusals.corrupt(f"of {claimed} pages {found} were found", "PDF")
        if not found:
            raise refusals.no_pages()
        if any(_REBUILT.search(words) for words in damage):
            self._check_contents()
        return found

    def _check_contents(self) -> None:
        """Refuse when the content of a page may have gone missing: it would come out blank."""
        library = _pikepdf()
        for number, page in enumerate(self._pdf.pages, 1):
            contents = page.obj.get("/Contents")
            streams = list(contents) if isinstance(contents, library.Array) else [contents]
            if not all(isinstance(one, library.Stream) for one in streams):
                raise refusals.corrupt(f"the content of page {number} is missing", "PDF")

    def _read_warnings(self) -> dict[str, None]:
        """All warnings so far: qpdf reports each of them once."""
        found = (self._words(one) for one in self._pdf.get_warnings())
        self._damage |= dict.fromkeys(words for words in found if not _ROUTINE.search(words))
        return self._damage

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        library = _pikepdf()
        try:
            yield
        except (QuireError, MemoryError):
            raise
        except library.PasswordError as error:
            raise refusals.encrypted() from error
        # Documents that contradict themselves surface as any of these.
        except (
            library.PdfError,
            library.DataDecodingError,
            library.ForeignObjectError,
            library.DeletedObjectError,
            RuntimeError,
            ValueError,
            TypeError,
            AttributeError,
            LookupError,
        ) as error:
            if _FOREIGN_LOCK.search(str(error)):
                raise refusals.encrypted() from error
            _check_end(self._path)
            raise refusals.corrupt(self._words(error), "PDF") from error

    def _words(self, error: object) -> str:
        """Without the path: a reason must not depend on the machine."""
        words = " ".join(str(error).replace(str(self._path), "").split())
        return words.lstrip(" :")[:_LONGEST_DAMAGE]


class PictureBook:
    """A new PDF whose pages are pictures with text that is not seen. They wait on the disk, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pieces: list[Path] = []
        self._pdf: Any = None
        self._waiting = 0

    def add(self, picture: PagePicture | None, size: tuple[float, float], layer: bytes) -> None:
        library = _pikepdf()
        if self._pdf is None:
            self._pdf = library.new()
        pdf_text.add_picture_page(self._pdf, picture, size, layer, library.Dictionary(), library)
        self._waiting += len(picture.data) if picture else 0
        if self._waiting > _MOST_WAITING:
            self._lay_down()

    def write(self, target: Path, font: TextFont, *, archival: bool) -> None:
        """Raises Reject `not_pdfa` when it cannot become PDF/A."""
        self._lay_down()
        library = _pikepdf()
        with ExitStack() as opened, library.new() as whole:
            for piece in self._pieces:
                whole.pages.extend(opened.enter_context(library.open(piece)).pages)
            found = pdf_text.add_font(whole, font, library)
            for page in whole.pages:
                if "/Font" in page.obj.Resources:
                    page.obj.Resources.Font = library.Dictionary({f"/{pdf_text.FONT_NAME}": found})
            _save_as(whole, target, archival=archival)

    def _lay_down(self) -> None:
        if self._pdf is not None:
            piece = self._folder / f"pages-{len(self._pieces):05d}.pdf"
            _save(self._pdf, piece)
            self._pdf.close()
            self._pieces.append(piece)
            self._pdf, self._waiting = None, 0


def _save_as(pdf: Any, target: Path, *, archival: bool) -> None:
    """As it is, or as PDF/A-2b. Without encryption: its random numbers would differ each time."""
    if not archival:
        _save(pdf, target, encryption=False)
        return
    from pikepdf import pdfa

    if pdf.is_encrypted:
        raise refusals.not_pdfa("it is protected against changes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pdfa.prepare(pdf, "2b", output_intent="sRGB")
            if isinstance(metadata := pdf.Root.get("/Metadata"), _pikepdf().Stream):
                metadata.write(_WRITTEN_AT.sub(b"", metadata.read_bytes()))
            pdfa.save(pdf, target, "2b", repair=False, deterministic_id=True)
    except pdfa.PdfaError as error:
        raise refusals.not_pdfa(" ".join(str(error).split())[:_LONGEST_DAMAGE]) from error


def _save(pdf: Any, target: Path, **options: Any) -> None:
    # Without a buffer of Python's: a full disk that it meets at its end kills the process (pikepdf 10.17).
    with target.open("wb", buffering=0) as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about boxes of forms that belong to no field, as in the source
        pdf.save(stream, deterministic_id=True, **options)


def _check_kind(path: Path) -> None:
    with path.open("rb") as stream:
        head = stream.read(_HEADER_BYTES)
    if not head:
        raise refusals.empty_file()
    if _HEADER not in head:
        raise refusals.not_a_pdf(sniff.looks_like(head[: sniff.HEAD_BYTES]))


def _check_end(path: Path) -> None:
    """Refuse a file that ends before the document does."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(_HEADER_BYTES)
        stream.seek(-min(size, _TAIL_BYTES), 2)
        tail = stream.read()
    linearized = _LINEARIZED.search(head)
    if linearized and int(linearized[1]) > size:
        raise refusals.truncated(f"it claims {int(linearized[1])} bytes, but the file ends at {size}", "PDF")
    if b"startxref" not in tail:
        raise refusals.truncated("there is no startxref near the end of the file", "PDF")


@cache
def _pikepdf() -> Any:
    try:
        import pikepdf
    except (ImportError, OSError) as error:
        raise Misconfigured(f"qpdf cannot be loaded ({error}): {_ADVICE}", code="missing_tool") from error
    return pikepdf
