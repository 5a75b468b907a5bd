"""Writes pages one by one: each from the converter, from PDFium or from OCR.

PDFium reads every page of most converters, and a sample for a converter that returns the text it read. Keeps
the lists of warnings. A fault of one page stays with that page: it is named with its reason, and the others
continue. Missing tools and a full disk are not a page's fault and stop the
work.
"""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from quire.model.errors import Reject
from quire.steps import markdown_guard, markdown_links, plain_markdown
from quire.steps.converters import Converter
from quire.steps.markdown_writer import MarkdownWriter
from quire.steps.page_recognition import FEWEST_CHARACTERS, PageClassifier, ScanReader
from quire.steps.page_sample import Sampling
from quire.tools.markdown_page import MarkdownPage, PagePicture
from quire.tools.pdfium import PdfPage, PdfRenderer

_UNSURE = 50  # per cent
_MOST_WARNINGS = 1000


class PageConversion:
    def __init__(
        self,
        path: Path,
        drawing: PdfRenderer,
        writer: MarkdownWriter,
        reader: ScanReader,
        converter: Converter,
        *,
        framed: Collection[int],
        page_marks: bool,
        keep_scans: bool,
    ) -> None:
        self._framed = framed
        self._keep_scans = keep_scans
        self._drawing = drawing
        self._writer = writer
        self._reader = reader
        self._converter = converter
        self._judge = PageClassifier(path)
        self._sampling = Sampling(len(drawing))
        self._unseen: dict[int, int] = {}  # pages that PDFium was not asked for, and their pieces of the text
        self._compared = 0
        self._page_marks = page_marks
        self.failed: dict[int, str] = {}
        self.fallen_back: dict[int, str] = {}
        self.needs_ocr: dict[int, str] = {}
        self.recognised: list[int] = []
        self.blank: list[int] = []
        self.warnings: list[str] = []

    def facts(self) -> dict[str, Any]:
        return {
            "compared_pages": self._compared,
            "failed_pages": _list_words(self.failed),
            "fallback_pages": _list_words(self.fallen_back),
            "needs_ocr": list(self.needs_ocr),
            "needs_ocr_reason": next(iter(self.needs_ocr.values()), ""),
            "recognised_pages": self.recognised,
            "recognised_by": self._reader.engine,
            "blank_pages": self.blank,
            "warnings": self.warnings,
        }

    def warn(self, words: str) -> None:
        if len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(words)

    def add(self, number: int, found: MarkdownPage | None, scratch: Path) -> None:
        """`found` is None for a page that was left out of the conversion."""
        if found is not None and self._converter.guarded and not self._wanted(number, found):
            self._unseen[number] = self._write(number, self._rewrite_links(number, found))
            return
        try:
            with self._drawing.page(number) as page:
                markdown = self._markdown(page, number, found, scratch)
                scanned = number in self.needs_ocr or number in self.recognised[-1:]
                if number in self._framed and not scanned:
                    framed = [PagePicture("", data) for data in page.form_pictures()]
                    markdown = self._with_pictures(number, markdown, framed)
        except (Reject, MemoryError) as error:
            reason = str(error) or "there is not enough memory for it"
            if found is None or found.fault or not found.markdown.strip():
                self.failed[number] = reason
                return
            self._sampling.everything = True
            # The converter may have read what PDFium cannot open: an unchecked page is better than none.
            self.warn(f"page {number}: not compared, PDFium cannot read it ({reason})")
            markdown = self._rewrite_links(number, found)
        self._write(number, markdown)

    def add_oversized(self, number: int, reason: str) -> None:
        """Write the text alone of a page that is never drawn and never converted."""
        try:
            with self._drawing.page(number) as page:
                markdown = plain_markdown.from_lines(page.lines())
        except (Reject, MemoryError) as error:
            self.failed[number] = str(error) or "there is not enough memory for it"
            return
        if not markdown:
            self.failed[number] = f"{reason}, and there is no text beside it"
            return
        self.warn(f"page {number}: {reason}; its text is kept, its pictures are not")
        self._write(number, markdown)

    def settle(self) -> None:
        """Run after the last page. When PDFium disagrees on a sampled page, the pages already written are
        compared, too.
        """
        if not self._sampling.everything:
            return
        for number, piece in self._unseen.items():
            try:
                with self._drawing.page(number) as page:
                    written = self._writer.text(piece)
                    if fault := markdown_guard.find_fault(written, page.text()):
                        self.fallen_back[number] = fault
                        shown = dict.fromkeys(markdown_links.targets(written, self._writer.links))
                        whole = _after(_plain(page, page.links()), shown)
                        self._writer.replace(piece, self._add_mark(number, whole))
                    self._compared += 1
            except (Reject, MemoryError) as error:
                self.warn(f"page {number}: not compared, PDFium cannot read it ({error})")
        self._unseen.clear()

    def _wanted(self, number: int, found: MarkdownPage) -> bool:
        return (
            self._sampling.wants(found)
            or number in self._framed
            or markdown_links.is_incomplete(found.markdown, found.addresses)
        )

    def _markdown(self, page: PdfPage, number: int, found: MarkdownPage | None, scratch: Path) -> str:
        if found is not None and not self._converter.guarded and not found.fault:
            if not found.markdown.strip():
                self.blank.append(number)
            return self._rewrite_links(number, found)
        text = page.text()
        kind = self._judge.kind(page, number, text)
        if kind == "scan" and not self._converter.reads_scans:
            return self._scan(page, number, found, scratch)
        if kind == "blank" and (found is None or found.fault or not _has_words(found.markdown)):
            self.blank.append(number)
            return self._rewrite_links(number, found) if found and found.pictures else ""
        links = page.links()
        if found is None:
            return _plain(page, links)
        self._compared += 1
        self._sampling.compare(found, text)
        fault = found.fault or markdown_guard.find_fault(found.markdown, text)
        if not fault:
            whole = markdown_links.complete_links(found.markdown, links) if links else found.markdown
            return self._rewrite_links(number, found._replace(markdown=whole))
        self.fallen_back[number] = fault
        return self._with_pictures(number, _plain(page, links), found.pictures)

    def _scan(self, page: PdfPage, number: int, found: MarkdownPage | None, scratch: Path) -> str:
        points = self._drawing.points(number)
        reading = self._reader.read(page, points)
        if not reading.why_not:
            self.recognised.append(number)
            if len(reading.text) >= FEWEST_CHARACTERS and reading.confidence < _UNSURE:
                self.warn(f"page {number}: recognised with little confidence ({reading.confidence} %)")
            if len(reading.text) >= FEWEST_CHARACTERS and not self._keep_scans:
                return plain_markdown.from_recognised(reading.text)
        else:
            self.needs_ocr[number] = reading.why_not
        # A photograph, or a page that no engine can read: keep it for people.
        text = plain_markdown.from_recognised(reading.text)
        if found is not None and found.pictures:
            return self._with_pictures(number, text, found.pictures)
        picture = self._reader.picture(page, points, scratch / "page.jpg")
        if picture is None:
            self.warn(f"page {number}: too large to be drawn")
        return self._with_pictures(number, text, [picture] if picture else [])

    def _rewrite_links(self, number: int, found: MarkdownPage) -> str:
        return markdown_links.rewrite_links(found.markdown, self._store_picture(number, found.pictures))

    def _with_pictures(self, number: int, markdown: str, pictures: Iterable[PagePicture]) -> str:
        links = dict.fromkeys(link for one in pictures if (link := self._link(number, one)) is not None)
        return _after(markdown, links)

    def _store_picture(self, number: int, pictures: Iterable[PagePicture]) -> dict[str, str]:
        linked = ((picture.name, self._link(number, picture)) for picture in pictures)
        return {name: link for name, link in linked if link is not None}

    def _link(self, number: int, picture: PagePicture) -> str | None:
        link = self._writer.add_picture(number, picture.data)
        if link is None:
            size = len(picture.data)
            self.warn(f"page {number}: a picture of {size} bytes is left out (its kind, or the limit)")
        return link

    def _write(self, number: int, markdown: str) -> int:
        return self._writer.add_text(self._add_mark(number, markdown))

    def _add_mark(self, number: int, markdown: str) -> str:
        mark = f"<!-- page {number} -->\n\n" if self._page_marks else ""
        body = markdown.strip()
        return f"{mark}{body}\n\n" if body else mark


def _plain(page: PdfPage, links: Iterable[tuple[str, str]]) -> str:
    return markdown_links.complete_links(plain_markdown.from_lines(page.lines()), links)


def _after(markdown: str, links: Iterable[str]) -> str:
    """Pictures follow the text: their place on the page is unknown."""
    return "\n\n".join([*([markdown] if markdown else []), *(f"![]({link})" for link in links)])


def _has_words(markdown: str) -> bool:
    return any(letter.isalnum() for letter in markdown)


def _list_words(reasons: dict[int, str]) -> list[dict[str, Any]]:
    return [{"page": number, "reason": reason} for number, reason in sorted(reasons.items())]
