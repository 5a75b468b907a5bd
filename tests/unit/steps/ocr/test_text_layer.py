"""Invisible text: every script comes back out of a PDF, from the place where it was put."""

import re
from pathlib import Path

import pikepdf
import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.situations.scans import make_line, make_page
from tests.unit.steps.ocr.test_text_writers import hostile, pages

from quire.model.page_text import Box, PageText, TextLine, TextParagraph, TextWord
from quire.steps.ocr.glyphless import ADVANCE, ASCENT, DESCENT, TALL, Glyphs, build_font
from quire.steps.ocr.text_layer import Matrix, write_text_layer
from quire.tools.pdf_text import TextFont
from quire.tools.qpdf import PictureBook

POINTS = 0.72  # of a pixel, at 100 dpi


def write_pdf(page: PageText, folder: Path) -> Path:
    glyphs = Glyphs()
    size = (page.width * POINTS, page.height * POINTS)
    layer = write_text_layer(page, Matrix(POINTS, 0, 0, -POINTS, 0, size[1]), glyphs)
    book = PictureBook(folder)
    book.add(None, size, layer)
    target = folder / "text.pdf"
    font = TextFont(build_font(), glyphs.to_unicode(), glyphs.to_glyphs(), ADVANCE, ASCENT, DESCENT, TALL)
    book.write(target, font, archival=False)
    return target


def extract(path: Path) -> list[str]:
    with pypdfium2.PdfDocument(path) as document:
        return [line.strip() for line in document[0].get_textpage().get_text_bounded().splitlines()]


def find(path: Path, word: str) -> tuple[float, float, float, float]:
    """Left, bottom, right and top of the first place of a word, in points."""
    with pypdfium2.PdfDocument(path) as document:
        text = document[0].get_textpage()
        start, count = text.search(word, match_case=True).get_next()
        found = [text.get_charbox(at) for at in range(start, start + count)]
    return (
        min(one[0] for one in found),
        min(one[1] for one in found),
        max(one[2] for one in found),
        max(one[3] for one in found),
    )


def test_text_of_every_script_comes_back(tmp_path: Path):
    lines = [
        ["Hello", "I", "a", "world"],
        ["Ünïcödé", "日本語", "हिन्दी"],
        ["astral", "😀\U0001d518x", "ok"],
        ["f(x)", "<b>&", "\\"],
    ]
    assert extract(write_pdf(make_page(lines), tmp_path)) == [" ".join(words) for words in lines]


@pytest.mark.parametrize("words", [["שלום", "עולם", "טוב"], ["مرحبا", "بالعالم"]])
def test_text_that_is_written_from_right_to_left_comes_back_in_its_order(words, tmp_path: Path):
    at, found = 900, []
    for word in words:
        found.append(TextWord(word, Box(at - 20 * len(word), 70, at, 100), 0.9))
        at -= 20 * len(word) + 20
    line = TextLine(tuple(found), Box(at, 70, 900, 100), 100.0, 0.0, 30.0)
    page = PageText(width=1000, height=800, paragraphs=(TextParagraph((line,), line.box),))
    assert extract(write_pdf(page, tmp_path)) == [" ".join(words)]


def test_words_lie_where_their_boxes_are(tmp_path: Path):
    page = make_page([["alpha", "beta", "gamma"], ["delta", "epsilon"]])
    path = write_pdf(page, tmp_path)
    for line in page.paragraphs[0].lines:
        for word in line.words:
            left, bottom, right, top = find(path, word.text)
            assert left == pytest.approx(word.box.left * POINTS, abs=0.2)
            assert right == pytest.approx(word.box.right * POINTS, abs=0.2)
            assert bottom == pytest.approx((800 - word.box.bottom) * POINTS, abs=0.2)
            assert top == pytest.approx((800 - word.box.top) * POINTS, abs=1)


def test_words_of_a_slanting_line_follow_its_slope(tmp_path: Path):
    line = make_line(["first", "second", "third"], 100, 200, slope=0.05)
    page = PageText(width=1000, height=800, paragraphs=(TextParagraph((line,), line.box),))
    path = write_pdf(page, tmp_path)
    for word in line.words:
        left, bottom, right, _ = find(path, word.text)
        low = 200 + 0.05 * (word.box.left - 100)
        assert left == pytest.approx(word.box.left * POINTS, abs=2)
        assert right == pytest.approx(word.box.right * POINTS, abs=2)
        assert bottom == pytest.approx((800 - low) * POINTS, abs=5)


def test_lines_without_an_ascent_take_the_height_of_their_box(tmp_path: Path):
    line = make_line(["word"], 100, 200, ascent=0.0)
    page = PageText(width=1000, height=800, paragraphs=(TextParagraph((line,), line.box),))
    _, bottom, _, top = find(write_pdf(page, tmp_path), "word")
    assert top - bottom == pytest.approx(30 * POINTS, rel=0.2)


def test_text_without_places_can_be_searched_all_the_same(tmp_path: Path):
    page = PageText(width=1000, height=800, text="First line\nsecond line\n\nnew block", confidence=0.8)
    assert extract(write_pdf(page, tmp_path)) == ["First line", "second line", "new block"]


def test_nothing_of_the_layer_is_seen(tmp_path: Path):
    with pypdfium2.PdfDocument(write_pdf(make_page([["Hello"]]), tmp_path)) as document:
        assert document[0].render(scale=1).to_pil().convert("L").getextrema() == (255, 255)


@settings(max_examples=40, deadline=None)
@given(pages)
def test_any_page_gives_a_stream_of_finite_numbers_and_hexadecimal_text(page: PageText):
    glyphs = Glyphs()
    layer = write_text_layer(page, Matrix(POINTS, 0, 0, -POINTS, 0, 576), glyphs)
    for line in layer.splitlines()[3:-2]:
        assert re.fullmatch(
            rb"/QuireText -?[\d.]+ Tf [\d.]+ Tz (-?[\d.]+ ){6}Tm <([0-9a-f]{4})+> Tj", line
        ), line
    assert layer == b"" or layer.startswith(b"q\nBT\n3 Tr\n")


@settings(max_examples=40, deadline=None)
@given(st.lists(hostile, max_size=4))
def test_the_map_of_characters_has_each_once_and_is_whole(texts):
    glyphs = Glyphs()
    letters = {letter for text in texts for letter in text if not "\ud800" <= letter <= "\udfff"}
    for text in texts:
        glyphs.encode("".join(letter for letter in text if letter in letters))
    found = re.findall(rb"^<(?!0000)[0-9A-F]{4}> <([0-9A-F]+)>$", glyphs.to_unicode(), re.MULTILINE)
    assert {bytes.fromhex(one.decode()).decode("utf-16-be") for one in found} == letters
    assert len(found) == len(letters) == len(glyphs)
    assert len(glyphs.to_glyphs()) == 2 * (len(letters) + 1)


def test_the_font_is_whole():
    import io

    from fontTools.ttLib import TTFont

    font = TTFont(io.BytesIO(build_font()), lazy=False, checkChecksums=2)
    assert font["head"].unitsPerEm == 1000
    assert font["hmtx"].metrics["glyph00001"] == (ADVANCE, 0)
    outline = font["glyf"]["glyph00001"]
    assert (outline.xMin, outline.yMin, outline.xMax, outline.yMax) == (0, 0, ADVANCE, TALL)


def test_the_same_text_gives_the_same_bytes(tmp_path: Path):
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made.append(write_pdf(make_page([["Hello", "world"]]), tmp_path / name).read_bytes())
    assert made[0] == made[1]
    with pikepdf.open(tmp_path / "a" / "text.pdf") as document:
        assert not document.check_pdf_syntax()
