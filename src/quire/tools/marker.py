"""Marker: PDF to Markdown by models of layout and text; the converter of the original library.

Run as a separate program, `marker_single`, because it loads gigabytes that other steps do not need.
It stays in the process group of its caller, so that ending the group ends it too. Its models come from the
network at the first use. It recognises scanned pages itself. Not guarded: what it reads is not what PDFium
reads.
"""

import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from quire.model.errors import Misconfigured, Retry
from quire.model.probe import Probe
from quire.tools.markdown_page import MarkdownPage, PagePicture

NAME = "marker"
COMMAND = "marker_single"
_ADVICE = "pip install 'quire[marker]' (its models, some gigabytes, are fetched at the first use)"
_PAGE = re.compile(r"^\{(\d{1,6})\}-{48}\s*$", re.MULTILINE)  # pages are counted from 0
_PICTURES = frozenset({".jpeg", ".jpg", ".png", ".webp", ".gif"})
_LONGEST_FAULT = 300
_MOST_META_BYTES = 8 << 20


def probe(command: str = COMMAND) -> Probe:
    if shutil.which(command) is None:
        return Probe(name=NAME, ok=False, advice=_ADVICE)
    try:
        return Probe(name=NAME, ok=True, detail=metadata.version("marker-pdf"))
    except metadata.PackageNotFoundError:
        return Probe(name=NAME, ok=True, detail="unknown")  # installed elsewhere, as programs often are


def pages(
    path: Path,
    total: int,
    *,
    scratch: Path,
    leave_out: Collection[int] = (),
    command: str = COMMAND,
    meta: dict[str, Any] | None = None,
) -> Iterator[MarkdownPage]:
    """`meta` is filled with Marker's facts about the document."""
    program = shutil.which(command)
    if program is None:
        raise Misconfigured(f"Marker is not installed: {_ADVICE}", code="missing_tool")
    source = scratch / "document.pdf"
    source.symlink_to(path.resolve())
    out = scratch / "out"
    chosen = [number for number in range(1, total + 1) if number not in leave_out]
    arguments = [
        program,
        str(source),
        "--output_format",
        "markdown",
        "--output_dir",
        str(out),
        "--paginate_output",
    ]
    if leave_out:
        arguments += ["--page_range", ",".join(str(number - 1) for number in chosen)]
    done = subprocess.run(arguments, capture_output=True, check=False, cwd=scratch)
    folder = out / source.stem
    made = folder / f"{source.stem}.md"
    if done.returncode or not made.is_file():
        words = " ".join(done.stderr.decode("utf-8", "replace").split())[-_LONGEST_FAULT:]
        # Out of memory, or a model that could not be fetched: the next attempt may succeed.
        raise Retry(f"Marker ended with {done.returncode}: {words or 'no message'}", code="converter_failed")
    if meta is not None:
        meta.update(_meta(folder / f"{source.stem}_meta.json"))
    parts = _PAGE.split(made.read_text("utf-8", "replace"))
    found = {int(number) + 1: part.strip() for number, part in zip(parts[1::2], parts[2::2], strict=True)}
    for number in chosen:
        if number not in found:
            yield MarkdownPage(number, "", fault="the converter left the page out")
            continue
        yield MarkdownPage(number, found[number], tuple(_pictures(found[number], folder)))


def _pictures(markdown: str, folder: Path) -> Iterator[PagePicture]:
    for picture in sorted(folder.iterdir()) if "![" in markdown else ():
        if picture.suffix.lower() in _PICTURES and f"({picture.name})" in markdown:
            yield PagePicture(picture.name, picture.read_bytes())


def _meta(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MOST_META_BYTES:
            return {}
        found: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return {}
    return found
