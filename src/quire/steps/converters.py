"""The converters from PDF to Markdown, by name; new ones are added here.

Cheap to import: a converter's library is loaded when it is chosen. Licences differ: see
docs/how-to/pdf-to-markdown.md. They never get locked, damaged or oversized documents:
`pdf_markdown` refuses those first.
"""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Protocol

from quire.model.errors import Misconfigured
from quire.model.probe import Probe
from quire.tools import liteparse, marker, opendataloader, pdfium, pymupdf4llm
from quire.tools.markdown_page import MarkdownPage

MARKDOWN_ROLE, PICTURE_ROLE = "markdown", "picture"  # of what a conversion gives
DEFAULT = liteparse.NAME
PLAIN = "pdfium"
WHOLE = frozenset({marker.NAME, opendataloader.NAME})  # all pages are done before the first one comes out
PROGRAMS = frozenset({marker.NAME, opendataloader.NAME})  # they start other programs
BLIND_TO_FORMS = frozenset({liteparse.NAME, PLAIN})  # they do not see pictures within forms

Pages = Iterator[MarkdownPage]


class Converter(Protocol):
    """`guarded`: its pages are compared with PDFium's text. `reads_scans`: it recognises text itself.
    `meta` are its facts about the document, complete after the last page.
    """

    name: str
    guarded: bool
    reads_scans: bool
    meta: dict[str, Any]

    def version(self) -> str:
        """Raises Misconfigured, with what to install, when it cannot run here."""
        ...

    def pages(self, path: Path, total: int, scratch: Path, leave_out: Collection[int]) -> Pages:
        """All pages but those left out, in order; one that failed has its fault. Makes no more of them ahead
        than memory easily holds. `scratch` is an empty folder.
        """
        ...


class ToolConverter:
    """A converter of `quire.tools`."""

    def __init__(
        self,
        name: str,
        probe: Callable[[], Probe],
        pages: Callable[..., Pages],
        *,
        guarded: bool = True,
        reads_scans: bool = False,
        takes_scratch: bool = True,
        tells_meta: bool = False,
    ) -> None:
        self.name = name
        self.guarded = guarded
        self.reads_scans = reads_scans
        self.meta: dict[str, Any] = {}
        self._probe = probe
        self._pages = pages
        self._takes_scratch = takes_scratch
        self._tells_meta = tells_meta

    def version(self) -> str:
        found = self._probe()
        if not found.ok:
            message = f"the converter {self.name} cannot run here: {found.advice}"
            raise Misconfigured(message, code="missing_tool")
        return found.detail

    def pages(self, path: Path, total: int, scratch: Path, leave_out: Collection[int]) -> Pages:
        options: dict[str, Any] = {"leave_out": leave_out}
        if self._takes_scratch:
            options["scratch"] = scratch
        if self._tells_meta:
            options["meta"] = self.meta
        return self._pages(path, total, **options)


def _no_pages(path: Path, total: int, *, leave_out: Collection[int]) -> Pages:  # noqa: ARG001
    """No page: each page then gets plain text, as when a converter fails."""
    return iter(())


def _liteparse() -> Converter:
    return ToolConverter(liteparse.NAME, liteparse.probe, liteparse.pages, takes_scratch=False)


def _pdfium() -> Converter:
    return ToolConverter(PLAIN, pdfium.probe, _no_pages, takes_scratch=False)


def _pymupdf4llm() -> Converter:
    return ToolConverter(pymupdf4llm.NAME, pymupdf4llm.probe, pymupdf4llm.pages)


def _opendataloader() -> Converter:
    return ToolConverter(opendataloader.NAME, opendataloader.probe, opendataloader.pages)


def _marker() -> Converter:
    return ToolConverter(
        marker.NAME, marker.probe, marker.pages, guarded=False, reads_scans=True, tells_meta=True
    )


CONVERTERS: dict[str, Callable[[], Converter]] = {
    liteparse.NAME: _liteparse,
    PLAIN: _pdfium,
    pymupdf4llm.NAME: _pymupdf4llm,
    opendataloader.NAME: _opendataloader,
    marker.NAME: _marker,
}
ALSO_CALLED = {"pymupdf": pymupdf4llm.NAME}  # as the extra that brings it


def converts_whole(name: str) -> bool:
    """Whether there is no progress to tell of until all pages are converted."""
    return ALSO_CALLED.get(name, name) in WHOLE


def starts_programs(name: str) -> bool:
    """Whether it works in programs of its own, which no sandbox allows."""
    return ALSO_CALLED.get(name, name) in PROGRAMS


def choose_converter(name: str) -> Converter:
    try:
        return CONVERTERS[ALSO_CALLED.get(name, name)]()
    except KeyError as error:
        known = ", ".join(CONVERTERS)
        message = f"Unknown converter {name!r}. Choose one of {known}."
        raise Misconfigured(message, code="wrong_option") from error
