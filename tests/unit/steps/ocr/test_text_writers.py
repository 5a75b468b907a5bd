"""Plain text, hOCR and ALTO of read pages, whatever an engine has read."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from tests.situations.scans import make_line, make_page, make_read

from quire.model.page_text import Box, PageText, TextLine, TextParagraph, TextWord
from quire.steps.ocr.alto import write_alto
from quire.steps.ocr.characters import clean_text, clean_word
from quire.steps.ocr.hocr import write_hocr
from quire.steps.ocr.plain_text import write_doubtful_text, write_plain_text
from quire.steps.ocr.read_pages import ReadPage, join_parts, pack, unpack

ALTO = "{http://www.loc.gov/standards/alto/ns-v4#}"
HTML = "{http://www.w3.org/1999/xhtml}"
BBOX = re.compile(r"bbox (-?\d+) (-?\d+) (-?\d+) (-?\d+)")

# Controls, lone surrogates, markup, astral letters, line breaks of all kinds.
hostile = st.text(
    st.one_of(
        st.characters(codec=None, categories=None),
        st.sampled_from("<>&\"';\\\x00\x0c\u2028\ufffe\ud800\udfff\U0001f600\U0001ffffא"),
    ),
    max_size=12,
)
numbers = st.integers(min_value=-50, max_value=3000)
reals = st.one_of(st.floats(min_value=-3000, max_value=3000), st.sampled_from([0.0, 1e-9, -1e-9]))
boxes = st.builds(Box, numbers, numbers, numbers, numbers)
words = st.builds(TextWord, hostile, boxes, st.floats(min_value=-1, max_value=2))
lines = st.builds(TextLine, st.lists(words, max_size=3).map(tuple), boxes, reals, reals, reals)
paragraphs = st.builds(TextParagraph, st.lists(lines, max_size=3).map(tuple), boxes)
pages = st.builds(
    PageText,
    width=st.integers(min_value=0, max_value=3000),
    height=st.integers(min_value=0, max_value=3000),
    paragraphs=st.lists(paragraphs, max_size=2).map(tuple),
    text=hostile,
    language=hostile,
    engine=hostile,
    confidence=st.floats(min_value=-1, max_value=2),
)
documents = st.lists(
    st.tuples(pages, st.sampled_from(["read", "text", "blank", "doubtful"]), hostile), min_size=1, max_size=3
).map(
    lambda found: [
        ReadPage(number=number, kind=kind, page=page, reason=reason)
        for number, (page, kind, reason) in enumerate(found, 1)
    ]
)


@settings(max_examples=60, deadline=None)
@given(documents, hostile)
def test_any_text_gives_well_formed_files_with_ids_of_their_own(document, name):
    hocr = etree.fromstring(write_hocr(document, name=name).encode("utf-8"))
    alto = etree.fromstring(write_alto(document, name=name).encode("utf-8"))
    for ids in (hocr.xpath("//@id"), alto.xpath("//@ID")):
        assert len(ids) == len(set(ids))
    assert len(hocr.findall(f".//{HTML}div[@id='page_1']")) == 1
    assert len(alto.findall(f".//{ALTO}Page")) == len(document)
    assert not alto.xpath("//*[local-name()='TextBlock'][not(*)]")
    assert write_plain_text(document).count("\f") == len(document) - 1
    assert write_doubtful_text(document).encode("utf-8").count(b"doubtful, confidence") == sum(
        page.kind == "doubtful" for page in document
    )


@settings(max_examples=60, deadline=None)
@given(hostile)
def test_a_clean_word_is_one_word_or_several_of_one_line(text):
    found = clean_word(text)
    assert found == " ".join(found.split())
    found.encode("utf-8")
    assert "\f" not in clean_text(text)


def test_pages_are_separated_by_form_feeds_and_blank_ones_are_empty():
    document = [
        make_read(1, [["One", "line"], ["and", "more"]]),
        make_read(2, [], "blank"),
        make_read(3, [["last"]], "text"),
    ]
    assert write_plain_text(document) == "One line\nand more\n\f\n\flast\n"


def test_doubtful_text_is_in_a_file_of_its_own_and_not_among_the_text():
    document = [make_read(1, [["sure"]]), make_read(2, [["gArb1ed"]], "doubtful", reason="low confidence")]
    text = write_plain_text(document)
    assert text == "sure\n\f[Page 2 could not be read reliably: low confidence]\n"
    assert write_doubtful_text(document) == "[Page 2, doubtful, confidence 0.90: low confidence]\ngArb1ed\n"


def test_hocr_has_places_confidence_and_baselines():
    page = make_page([["Hello", "world"]])
    page = PageText(
        width=1000,
        height=800,
        dpi=100,
        paragraphs=(
            TextParagraph((make_line(["Hello", "world"], 100, 100, slope=0.01),), Box(90, 60, 400, 110)),
        ),
        language="eng",
        engine="tesseract 5",
    )
    tree = etree.fromstring(
        write_hocr([ReadPage(number=1, kind="read", page=page)], name='a "b";.tif').encode()
    )
    assert tree.xpath("string(//*[@name='ocr-system']/@content)") == "tesseract 5"
    (shown,) = tree.findall(f".//{HTML}div[@class='ocr_page']")
    assert shown.get("title") == "image \"a 'b';.tif\"; bbox 0 0 1000 800; ppageno 0; scan_res 100 100"
    (line,) = tree.findall(f".//{HTML}span[@class='ocr_line']")
    assert line.get("title") == "bbox 100 70 298 101; baseline 0.01 -1; x_size 30"
    found = tree.findall(f".//{HTML}span[@class='ocrx_word']")
    assert [one.text for one in found] == ["Hello", "world"]
    assert found[0].get("title") == "bbox 100 70 190 100; x_wconf 90"
    assert [one.get("class") for one in line.iterancestors()][:4] == [
        "ocr_par",
        "ocr_carea",
        "ocr_page",
        None,
    ]


def test_alto_is_in_the_order_of_its_schema():
    document = [
        make_read(1, [["Hello", "world"]], language="eng"),
        make_read(2, [["x"]], "doubtful", reason="why"),
    ]
    tree = etree.fromstring(write_alto(document, name="a.tif").encode())
    assert [etree.QName(one).localname for one in tree] == ["Description", "Layout"]
    assert [etree.QName(one).localname for one in tree[0]] == [
        "MeasurementUnit",
        "sourceImageInformation",
        "Processing",
    ]
    first, second = tree.findall(f".//{ALTO}Page")
    assert dict(first.attrib) == {
        "ID": "page_1",
        "PHYSICAL_IMG_NR": "1",
        "WIDTH": "1000",
        "HEIGHT": "800",
        "PC": "0.90",
        "PROCESSINGREFS": "engine_1",
        "LANG": "eng",
    }
    assert (second.get("PAGECLASS"), second.get("QUALITY_DETAIL")) == ("doubtful", "why")
    (line,) = first.findall(f".//{ALTO}TextLine")
    assert line.get("BASELINE") == "100,100 298,100"
    assert [etree.QName(one).localname for one in line] == ["String", "SP", "String"]
    word = line[2]
    assert (word.get("CONTENT"), word.get("WC")) == ("world", "0.90")
    assert [word.get(key) for key in ("HPOS", "VPOS", "WIDTH", "HEIGHT")] == ["208", "70", "90", "30"]


def test_text_without_places_stands_on_the_whole_page():
    page = PageText(width=200, height=100, text="First line\nsecond\n\nnew block", confidence=0.8)
    tree = etree.fromstring(write_hocr([ReadPage(number=1, kind="read", page=page)], name="x").encode())
    assert len(tree.findall(f".//{HTML}p")) == 2
    assert {BBOX.match(one).groups() for one in tree.xpath("//*[@class='ocrx_word']/@title")} == {
        ("0", "0", "200", "100")
    }


def test_pages_travel_packed_and_those_of_a_failed_part_are_doubtful():
    first, third = make_read(1, [["one"]]), make_read(3, [["three"]])
    packed = pack([first, third])
    assert (packed.pages, unpack(packed)) == ((1, 3), (first, third))
    joined = join_parts({"01": packed}, 3)
    assert [(one.number, one.kind) for one in joined] == [(1, "read"), (2, "doubtful"), (3, "read")]
    assert "reading it failed" in joined[1].reason
