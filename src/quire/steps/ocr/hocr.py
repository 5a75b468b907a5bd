"""The pages of a document as hOCR 1.2: XHTML with the place and the confidence of each word.

Boxes are pixels of the upright picture. A page that could not be read reliably keeps its words, with their
confidence, under the class `ocr_page quire_doubtful` and the property `x_doubtful`; nobody takes them for
content by mistake. Promise: well-formed XML, whatever the text; ids are unique within the file. Pure.
"""

from collections.abc import Iterator, Sequence
from html import escape

from quire.model.page_text import Box, TextLine, TextParagraph
from quire.steps.ocr.characters import clean_word
from quire.steps.ocr.read_pages import ReadPage, list_paragraphs

_CAPABILITIES = "ocr_page ocr_carea ocr_par ocr_line ocrx_word ocrp_wconf"


def write_hocr(pages: Sequence[ReadPage], *, name: str) -> str:
    """`name` is that of the document, which the pages refer to as their picture."""
    engines = sorted({one.page.engine for one in pages if one.page.engine})
    system = clean_word(", ".join(engines)) or "none"
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<!DOCTYPE html>",
        '<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">',
        "<head>",
        f"<title>{escape(clean_word(name))}</title>",
        '<meta http-equiv="Content-Type" content="text/html; charset=utf-8"/>',
        f'<meta name="ocr-system" content="{escape(system)}"/>',
        f'<meta name="ocr-number-of-pages" content="{len(pages)}"/>',
        f'<meta name="ocr-capabilities" content="{_CAPABILITIES}"/>',
        "</head>",
        "<body>",
    ]
    for page in pages:
        lines += _write_page(page, clean_word(name))
    return "\n".join([*lines, "</body>", "</html>", ""])


def _write_page(read: ReadPage, name: str) -> Iterator[str]:
    page, number = read.page, read.number
    title = [f"image {_quote(name)}", f"bbox 0 0 {page.width} {page.height}", f"ppageno {number - 1}"]
    if page.dpi:
        title.append(f"scan_res {page.dpi} {page.dpi}")
    kind = "ocr_page"
    if read.kind == "doubtful":
        kind = "ocr_page quire_doubtful"
        title += [
            f"x_page_wconf {_percent(page.confidence)}",
            f"x_doubtful {_quote(clean_word(read.reason))}",
        ]
    language = clean_word(page.language)
    lang = f' lang="{escape(language)}"' if language else ""
    yield f'<div class="{kind}" id="page_{number}"{lang} title="{escape("; ".join(title))}">'
    for place, paragraph in enumerate(list_paragraphs(page), 1):
        yield from _write_paragraph(paragraph, f"{number}_{place}")
    yield "</div>"


def _write_paragraph(paragraph: TextParagraph, own: str) -> Iterator[str]:
    box = _bbox(paragraph.box)
    yield f'<div class="ocr_carea" id="block_{own}" title="{box}">'
    yield f'<p class="ocr_par" id="par_{own}" title="{box}">'
    for place, line in enumerate(paragraph.lines, 1):
        words = [(clean_word(one.text), one) for one in line.words]
        inside = " ".join(
            f'<span class="ocrx_word" id="word_{own}_{place}_{at}" '
            f'title="{_bbox(one.box)}; x_wconf {_percent(one.confidence)}">{escape(text)}</span>'
            for at, (text, one) in enumerate(words, 1)
            if text
        )
        if inside:
            title = _line_title(line)
            yield f'<span class="ocr_line" id="line_{own}_{place}" title="{title}">{inside}</span>'
    yield "</p>"
    yield "</div>"


def _line_title(line: TextLine) -> str:
    """The baseline of hOCR starts at the lower left corner of the box; upwards is negative."""
    offset = line.baseline - line.box.bottom
    size = f"; x_size {_number(line.ascent)}" if line.ascent > 0 else ""
    return f"{_bbox(line.box)}; baseline {_number(line.slope)} {_number(offset)}{size}"


def _bbox(box: Box) -> str:
    return f"bbox {box.left} {box.top} {box.right} {box.bottom}"


def _number(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".") or "0"


def _percent(confidence: float) -> int:
    return round(100 * min(1.0, max(0.0, confidence)))


def _quote(text: str) -> str:
    """A string of a property ends at a quotation mark, and properties at a semicolon outside of it."""
    return '"' + text.replace("\\", "/").replace('"', "'") + '"'
