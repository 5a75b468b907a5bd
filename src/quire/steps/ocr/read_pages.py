"""Pages as they are written: what was read on each, or why it has no text.

A page is one of four: `read` (its text is content), `text` (a PDF had it already), `blank`, or `doubtful`
(the engine is not sure enough, or the page could not be decoded). Doubtful text never passes as content.
Values only, and how they travel between steps: packed, because a book has millions of words.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from quire.model.errors import Reject
from quire.model.page_text import Box, PageText, TextLine, TextParagraph, TextWord
from quire.steps.ocr.characters import clean_text, clean_word

DocumentKind = Literal["pdf", "picture"]
PageKind = Literal["read", "text", "blank", "doubtful"]

_MOST_UNPACKED = 1 << 30
_LINE_FILL = 0.7  # of the height of a line, for letters


class LookedAt(Struct, frozen=True, kw_only=True):
    """What is known of a document before it is read."""

    kind: DocumentKind
    pages: int


class ReadPage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`number` counts from 1. `reason`: why the page is doubtful, in words for people. `damaged`: its picture
    cannot be decoded. `had_text`: it was read although the PDF has text for it.
    """

    number: int
    kind: PageKind
    page: PageText
    reason: str = ""
    damaged: bool = False
    had_text: bool = False


class PackedPages(Struct, frozen=True):
    """Some pages of a document on their way from one step to the next."""

    pages: tuple[int, ...]
    data: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[ReadPage, ...])


def pack(pages: Iterable[ReadPage]) -> PackedPages:
    found = tuple(pages)
    return PackedPages(tuple(one.number for one in found), zlib.compress(_encoder.encode(found), 6))


def unpack(packed: PackedPages) -> tuple[ReadPage, ...]:
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(packed.data, _MOST_UNPACKED)
    if not unpacker.eof:
        raise Reject("the text of a part of this document is larger than a gigabyte", code="too_many_bytes")
    return _decoder.decode(data)


def join_parts(parts: Mapping[str, PackedPages], count: int) -> list[ReadPage]:
    """All pages in order; those of a part that failed are doubtful, with that as their reason."""
    found = {page.number: page for part in parts.values() for page in unpack(part)}
    return [found.get(number) or _build_missing(number) for number in range(1, count + 1)]


def _build_missing(number: int) -> ReadPage:
    reason = "reading it failed; the report of the run says why"
    return ReadPage(number=number, kind="doubtful", page=PageText(width=0, height=0), reason=reason)


def describe_kind(page: PageText) -> tuple[PageKind, str]:
    """What a page is that an engine has read."""
    if not page.text.strip() and not page.paragraphs:
        return ("blank", "") if page.is_valid or not page.reason else ("blank", page.reason)
    return ("read", "") if page.is_valid else ("doubtful", page.reason or "low confidence")


def list_paragraphs(page: PageText, *, spread: bool = False) -> Iterator[TextParagraph]:
    """The paragraphs with their places; of an engine that gives no places, its lines with the place of the
    whole page, or with `spread` one below the other.
    """
    if page.paragraphs:
        yield from page.paragraphs
        return
    lines = clean_text(page.text).strip().split("\n")
    height = page.height / max(1, len(lines))
    collected: list[TextLine] = []
    for place, line in enumerate([*lines, ""]):
        if not line.strip():
            if collected:
                yield TextParagraph(lines=tuple(collected), box=surround([one.box for one in collected]))
                collected = []
            continue
        top, bottom = (place * height, (place + 1) * height) if spread else (0.0, float(page.height))
        collected.append(_spread_line(line, page, top, bottom, spread=spread))


def _spread_line(line: str, page: PageText, top: float, bottom: float, *, spread: bool) -> TextLine:
    box = Box(0, int(top), page.width, max(int(bottom), int(top) + 1))
    words = line.split()
    step = page.width / max(1, len(line))
    found, at = [], 0
    for word in words:
        place = Box(int(at * step), box.top, int((at + len(word)) * step), box.bottom) if spread else box
        found.append(TextWord(clean_word(word), place, page.confidence))
        at += len(word) + 1
    height = box.bottom - box.top
    return TextLine(tuple(found), box, box.top + _LINE_FILL * height, 0.0, _LINE_FILL * height / 2)


def surround(boxes: Sequence[Box]) -> Box:
    """The smallest box around several."""
    return Box(
        min(one.left for one in boxes),
        min(one.top for one in boxes),
        max(one.right for one in boxes),
        max(one.bottom for one in boxes),
    )
