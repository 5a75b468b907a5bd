"""The pages of a document as ALTO 4.4, the form that libraries and archives keep recognised text in.

Measured in pixels of the upright picture. A page that could not be read reliably keeps its words, with their
confidence; its `PAGECLASS` is `doubtful`, and `QUALITY_DETAIL` says why. Promise: well-formed XML in the
order of the schema, whatever the text; ids are unique within the file. Pure.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape

from quire.model.page_text import Box, TextLine, TextParagraph, TextWord
from quire.steps.ocr.characters import clean_word
from quire.steps.ocr.read_pages import ReadPage, list_paragraphs

_NAMESPACE = "http://www.loc.gov/standards/alto/ns-v4#"
_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
_LOCATION = f'xsi:schemaLocation="{_NAMESPACE} http://www.loc.gov/standards/alto/v4/alto-4-4.xsd"'
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*")


def write_alto(pages: Sequence[ReadPage], *, name: str) -> str:
    """`name` is that of the document."""
    engines = sorted({clean_word(one.page.engine) for one in pages if one.page.engine})
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<alto xmlns="{_NAMESPACE}" xmlns:xsi="{_INSTANCE}" {_LOCATION} SCHEMAVERSION="4.4">',
        "<Description>",
        "<MeasurementUnit>pixel</MeasurementUnit>",
        f"<sourceImageInformation><fileName>{escape(clean_word(name))}</fileName></sourceImageInformation>",
        *(
            f'<Processing ID="engine_{place}"><processingCategory>contentGeneration</processingCategory>'
            f"<processingSoftware><softwareName>{escape(engine)}</softwareName></processingSoftware></Processing>"
            for place, engine in enumerate(engines, 1)
        ),
        "</Description>",
        "<Layout>",
    ]
    for page in pages:
        engine = clean_word(page.page.engine)
        lines += _write_page(page, f"engine_{engines.index(engine) + 1}" if engine else "")
    return "\n".join([*lines, "</Layout>", "</alto>", ""])


def _write_page(read: ReadPage, processing: str) -> Iterator[str]:
    page, number = read.page, read.number
    said = [f'ID="page_{number}"', f'PHYSICAL_IMG_NR="{number}"']
    said += [f'WIDTH="{page.width}"', f'HEIGHT="{page.height}"']
    if read.kind == "doubtful":
        said += ['PAGECLASS="doubtful"', f'QUALITY_DETAIL="{escape(clean_word(read.reason))}"']
    if read.kind in {"read", "doubtful"}:
        said.append(f'PC="{_confidence(page.confidence)}"')
    if processing:
        said.append(f'PROCESSINGREFS="{processing}"')
    if _LANGUAGE.fullmatch(page.language):
        said.append(f'LANG="{page.language}"')
    yield f"<Page {' '.join(said)}>"
    yield f'<PrintSpace HPOS="0" VPOS="0" WIDTH="{page.width}" HEIGHT="{page.height}">'
    for place, paragraph in enumerate(list_paragraphs(page), 1):
        yield from _write_block(paragraph, f"{number}_{place}")
    yield "</PrintSpace>"
    yield "</Page>"


def _write_block(paragraph: TextParagraph, own: str) -> Iterator[str]:
    lines = list(_list_lines(paragraph))
    if not lines:
        return
    yield f'<TextBlock ID="block_{own}" {_place(paragraph.box)}>'
    for at, (line, words) in enumerate(lines, 1):
        yield f'<TextLine ID="line_{own}_{at}" BASELINE="{_baseline(line)}" {_place(line.box)}>'
        yield "<SP/>".join(
            f'<String ID="string_{own}_{at}_{place}" CONTENT="{escape(text)}" {_place(word.box)} '
            f'WC="{_confidence(word.confidence)}"/>'
            for place, (text, word) in enumerate(words, 1)
        )
        yield "</TextLine>"
    yield "</TextBlock>"


def _list_lines(paragraph: TextParagraph) -> Iterator[tuple[TextLine, list[tuple[str, TextWord]]]]:
    """Lines that have a word to write: the schema knows no others."""
    for line in paragraph.lines:
        if words := [(text, one) for one in line.words if (text := clean_word(one.text))]:
            yield line, words


def _place(box: Box) -> str:
    width, height = box.right - box.left, box.bottom - box.top
    return f'HPOS="{box.left}" VPOS="{box.top}" WIDTH="{width}" HEIGHT="{height}"'


def _baseline(line: TextLine) -> str:
    end = line.baseline + line.slope * (line.box.right - line.box.left)
    return f"{line.box.left},{round(line.baseline)} {line.box.right},{round(end)}"


def _confidence(value: float) -> str:
    return f"{min(1.0, max(0.0, value)):.2f}"
