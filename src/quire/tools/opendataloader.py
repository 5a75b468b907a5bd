"""OpenDataLoader: PDF to Markdown by a Java program; the best tables of the freely licensed ones.

Needs Java 11 or newer beside the package. Takes the whole document at once (starting Java costs more than
many pages). Pages are separated by a line with the document's own digest, which no document can contain.
"""

import re
import shutil
from collections.abc import Collection, Iterator
from functools import cache
from hashlib import file_digest
from importlib import metadata
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

from quire.model.errors import Misconfigured
from quire.model.probe import Probe
from quire.tools.markdown_page import MarkdownPage, PagePicture

NAME = "opendataloader"
_ADVICE = "pip install 'quire[opendataloader]', and install Java 11 or newer"
_LONGEST_FAULT = 200


def probe() -> Probe:
    try:
        _library()
        return Probe(name=NAME, ok=True, detail=metadata.version("opendataloader-pdf"))
    except (Misconfigured, metadata.PackageNotFoundError):
        return Probe(name=NAME, ok=False, advice=_ADVICE)


def pages(
    path: Path, total: int, *, scratch: Path, leave_out: Collection[int] = ()
) -> Iterator[MarkdownPage]:
    with path.open("rb") as stream:
        mark = f"page-{file_digest(stream, 'sha256').hexdigest()}-"
    source = scratch / "document.pdf"  # names of files are made up here, for an argument of a program
    source.symlink_to(path.resolve())
    chosen = [number for number in range(1, total + 1) if number not in leave_out]
    try:
        _library().convert(
            str(source),
            output_dir=str(scratch),
            format="markdown",
            quiet=True,
            include_header_footer=True,
            markdown_page_separator=f"{mark}%page-number%",
            image_output="external",
            pages=",".join(map(str, chosen)) if leave_out else None,
        )
        text = (scratch / "document.md").read_text("utf-8")
    except (CalledProcessError, OSError, ValueError) as error:
        fault = str(error).replace(str(scratch), "")[:_LONGEST_FAULT]
        for number in chosen:
            yield MarkdownPage(number, "", fault=fault)
        return
    found = _split_pages(text, mark)
    for number in chosen:
        if number in found:
            yield MarkdownPage(number, found[number], tuple(_pictures(found[number], scratch)))
        else:
            yield MarkdownPage(number, "", fault="the converter left the page out")


def _split_pages(text: str, mark: str) -> dict[int, str]:
    parts = re.split(rf"^.*{mark}(\d{{1,6}}).*$", text, flags=re.MULTILINE)
    return {int(number): part.strip() for number, part in zip(parts[1::2], parts[2::2], strict=True)}


def _pictures(markdown: str, scratch: Path) -> Iterator[PagePicture]:
    folder = scratch / "document_images"
    for picture in sorted(folder.glob("*")) if "![" in markdown and folder.is_dir() else ():
        name = f"{folder.name}/{picture.name}"
        if name in markdown:
            yield PagePicture(name, picture.read_bytes())


@cache
def _library() -> Any:
    if shutil.which("java") is None:
        raise Misconfigured(f"OpenDataLoader needs Java, and there is none: {_ADVICE}", code="missing_tool")
    try:
        import opendataloader_pdf
    except (ImportError, OSError) as error:
        message = f"OpenDataLoader cannot be loaded ({error}): {_ADVICE}"
        raise Misconfigured(message, code="missing_tool") from error
    return opendataloader_pdf
