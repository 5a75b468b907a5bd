"""PyMuPDF's Markdown, the best of all at headings and tables, at two pages a second.

Licence: AGPL-3.0 or commercial. It is therefore an extra, imported only when it is chosen by name. Its own
OCR is off: other modules decide which pages are recognised.
"""

from collections.abc import Collection, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from quire.model.errors import Misconfigured
from quire.model.probe import Probe
from quire.tools.markdown_page import MarkdownPage, PagePicture

NAME = "pymupdf4llm"
_ADVICE = "pip install 'quire[pymupdf]' (licence: AGPL-3.0 or commercial)"
_LONGEST_FAULT = 200


def probe() -> Probe:
    try:
        _library()
        return Probe(name=NAME, ok=True, detail=metadata.version("pymupdf"))
    except (Misconfigured, metadata.PackageNotFoundError):
        return Probe(name=NAME, ok=False, advice=_ADVICE)


def pages(
    path: Path, total: int, *, scratch: Path, leave_out: Collection[int] = ()
) -> Iterator[MarkdownPage]:
    """Converts pages one by one. Pictures are written to the scratch folder and removed again."""
    for number in range(1, total + 1):
        if number in leave_out:
            continue
        try:
            found = _library().to_markdown(
                str(path),
                pages=[number - 1],
                page_chunks=True,
                write_images=True,
                image_path=str(scratch),
                use_ocr=False,
                show_progress=False,
            )
            markdown = "".join(str(chunk["text"]) for chunk in found)
        except Misconfigured:
            raise
        except Exception as error:  # noqa: BLE001
            yield MarkdownPage(number, "", fault=str(error).replace(str(path), "")[:_LONGEST_FAULT])
            continue
        pictures = [
            PagePicture(_link_pictures(one, markdown), one.read_bytes())
            for one in sorted(scratch.glob("*.png"))
        ]
        for one in scratch.glob("*.png"):
            one.unlink()
        yield MarkdownPage(number, markdown, tuple(pictures))


def _link_pictures(picture: Path, markdown: str) -> str:
    """As it stands in the link: releases differ in whether that is the whole path."""
    return str(picture) if str(picture) in markdown else picture.name


@cache
def _library() -> Any:
    try:
        import pymupdf4llm
    except (ImportError, OSError) as error:
        message = f"pymupdf4llm cannot be loaded ({error}): {_ADVICE}"
        raise Misconfigured(message, code="missing_tool") from error
    return pymupdf4llm
