"""PDFs and converters that misbehave: refused with a reason, or converted with every odd page named."""

import zlib
from collections.abc import Iterator

import pikepdf
import pytest

from quire.model.errors import Misconfigured, Reject
from quire.steps import converters, pdf_markdown
from quire.tools import liteparse, pdfium
from quire.tools.markdown_page import MarkdownPage, PagePicture


@pytest.fixture
def refused(run_step):
    def refuse(source, **options) -> Reject:
        with pytest.raises(Reject) as refusal:
            run_step("pdf_markdown", source, **options)
        assert str(source.parent) not in str(refusal.value)
        assert ". " in str(refusal.value)  # and then what to do
        return refusal.value

    return refuse


class Staged:
    """A converter that does as it is told: pages of Markdown, or something to raise instead."""

    name = "staged"
    guarded = True
    reads_scans = False

    def __init__(self, *pages: MarkdownPage | Exception, guarded: bool = True) -> None:
        self._pages = pages
        self.guarded = guarded
        self.meta = {"told": True}

    def version(self) -> str:
        return "1"

    def pages(self, *_) -> Iterator[MarkdownPage]:
        for page in self._pages:
            if isinstance(page, Exception):
                raise page
            yield page


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("crazyones-encrypted-256.pdf", "encrypted"),
        ("zero-pages.pdf", "no_pages"),
        ("issue9105_other.pdf", "truncated"),
        ("bug1980958.pdf", "truncated"),
    ],
)
def test_what_cannot_be_converted_is_refused(name, code, corpus, tmp_path, refused):
    source = tmp_path / name
    source.write_bytes((corpus / "pdf" / name).read_bytes())

    assert refused(source).code == code


@pytest.mark.parametrize(("data", "code"), [(b"", "empty_file"), (b"hello, no PDF here", "not_a_pdf")])
def test_what_is_no_pdf_is_refused(data, code, tmp_path, refused):
    (tmp_path / "a.pdf").write_bytes(data)

    assert refused(tmp_path / "a.pdf").code == code


@pytest.mark.parametrize("share", [0.02, 0.5, 0.95])
def test_a_cut_off_pdf_is_refused(share, corpus, tmp_path, refused):
    whole = (corpus / "pdf" / "multi_page.pdf").read_bytes()
    (tmp_path / "cut.pdf").write_bytes(whole[: int(len(whole) * share)])

    assert refused(tmp_path / "cut.pdf").code == "truncated"


def test_more_pages_than_the_limit_are_refused(corpus, tmp_path, refused):
    (tmp_path / "a.pdf").write_bytes((corpus / "pdf" / "multi_page.pdf").read_bytes())

    assert refused(tmp_path / "a.pdf", max_pages=4).code == "too_many_pages"


@pytest.mark.parametrize("options", [{"converter": "magic"}, {"ocr": "magic"}])
def test_an_unknown_name_is_answered_with_the_known_ones(options, corpus, run_step):
    with pytest.raises(Misconfigured, match=r"liteparse|tesseract"):
        run_step("pdf_markdown", corpus / "pdf" / "crazyones.pdf", **options)


def test_an_option_that_is_not_known_is_refused(corpus, run_step):
    with pytest.raises(Misconfigured, match="max_pages"):
        run_step("pdf_markdown", corpus / "pdf" / "crazyones.pdf", maximum_pages=3)


def test_an_engine_that_is_asked_for_by_name_must_be_there(corpus, run_step):
    with pytest.raises(Misconfigured, match="tlh"):
        run_step("pdf_markdown", corpus / "pdf" / "c02-22-scan.pdf", ocr="tesseract", ocr_language="tlh")


def test_a_damaged_index_and_junk_before_the_header_are_repaired_and_reported(
    write_pdf, book, to_markdown, tmp_path
):
    source = write_pdf(tmp_path / "book.pdf", book(2))
    source.write_bytes(b"junk from a mail\r\n" + source.read_bytes().replace(b"startxref\n", b"startxref\n9"))
    result = to_markdown(source)

    assert "page 1" in result.markdown
    assert result.info["damage"]
    assert str(tmp_path) not in str(result.info)


def test_a_document_locked_against_changes_only_is_read(corpus, to_markdown, tmp_path):
    with pikepdf.open(corpus / "pdf" / "crazyones.pdf") as pdf:
        pdf.save(tmp_path / "locked.pdf", encryption=pikepdf.Encryption(owner="owner", user="", R=6))

    assert "# The Crazy Ones" in to_markdown(tmp_path / "locked.pdf").markdown


def page_with_picture(write_pdf, path, side: int, text: str):
    pixels = zlib.compress(bytes(side * side // 8))
    draw = f"BT /F 12 Tf 72 700 Td ({text}) Tj ET\nq 500 0 0 600 50 50 cm /I Do Q".encode()
    head = f"/Type/XObject/Subtype/Image/Width {side}/Height {side}/BitsPerComponent 1/ColorSpace/DeviceGray"
    return write_pdf(
        path,
        {
            1: "<</Type/Catalog/Pages 2 0 R>>",
            2: "<</Type/Pages/Count 1/Kids[4 0 R]/Resources<</Font<</F 3 0 R>>/XObject<</I 7 0 R>>>>>>",
            3: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            4: "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 5 0 R>>",
            5: ("", draw),
            6: (head + "/Filter/FlateDecode", pixels),
            # Within a form: the page itself shows nothing large.
            7: ("/Type/XObject/Subtype/Form/BBox[0 0 1 1]/Resources<</XObject<</P 6 0 R>>>>", b"/P Do"),
        },
    )


def test_a_page_with_too_large_a_picture_keeps_its_text_and_is_never_drawn(
    write_pdf, to_markdown, tmp_path, monkeypatch
):
    source = page_with_picture(write_pdf, tmp_path / "bomb.pdf", 8000, "Words beside a very large picture")
    monkeypatch.setattr(pdfium.PdfPage, "draw", lambda *_: pytest.fail("drawn"))
    monkeypatch.setattr(liteparse, "_build_pages", lambda *_: pytest.fail("converted"))
    result = to_markdown(source, max_pixels=1_000_000)

    assert "Words beside a very large picture" in result.markdown
    assert result.assets == ()
    assert "page 1" in result.info["warnings"][0]
    assert "1 megapixels" in result.info["warnings"][0]


def test_a_document_of_nothing_but_too_large_a_picture_is_refused(write_pdf, tmp_path, refused):
    source = page_with_picture(write_pdf, tmp_path / "bomb.pdf", 8000, "")

    assert "megapixels" in str(refused(source, max_pixels=1_000_000))


def test_a_picture_within_the_limit_is_shown(write_pdf, to_markdown, tmp_path):
    source = page_with_picture(write_pdf, tmp_path / "fine.pdf", 800, "Words beside a picture of usual size")

    assert len(to_markdown(source, max_pixels=1_000_000).assets) == 1


def test_a_page_as_large_as_a_house_keeps_its_text(write_pdf, book, to_markdown, tmp_path):
    source = write_pdf(tmp_path / "huge.pdf", book(1, box="0 0 9000000 9000000"))
    result = to_markdown(source)

    assert "page 1" in result.markdown
    assert "200 inches" in result.info["warnings"][0]


def test_pictures_beyond_the_limit_of_bytes_are_left_out_and_listed(corpus, to_markdown):
    result = to_markdown(corpus / "pdf" / "picture_classification.pdf", max_asset_bytes=60_000)

    assert result.assets == ("page-1-0001.jpg",)
    assert "![" not in result.markdown.split("<!-- page 2 -->")[1].replace("!\\[", "")
    assert "page 2: a picture of 132658 bytes is left out" in result.info["warnings"][0]


def test_a_page_on_which_the_converter_fails_gets_plain_text_and_is_named(
    write_pdf, book, to_markdown, tmp_path
):
    source = write_pdf(tmp_path / "book.pdf", book(3))
    staged = Staged(
        MarkdownPage(1, "# page 1"), MarkdownPage(2, "", fault="it choked"), MarkdownPage(3, "# page 3")
    )
    result = to_markdown(source, converter=staged)

    assert result.info["fallback_pages"] == [{"page": 2, "reason": "it choked"}]
    assert result.info["failed_pages"] == []
    assert result.info["marker_meta"] == {"told": True}
    assert "# page 1" in result.markdown
    assert "<!-- page 2 -->\n\npage 2\n" in result.markdown
    assert "# page 3" in result.markdown


def test_when_the_converter_breaks_down_the_rest_is_plain_text(write_pdf, book, to_markdown, tmp_path):
    source = write_pdf(tmp_path / "book.pdf", book(3))
    result = to_markdown(source, converter=Staged(MarkdownPage(1, "# page 1"), RuntimeError("out of luck")))

    assert [one["page"] for one in result.info["fallback_pages"]] == [2, 3]
    assert "out of luck" in result.info["fallback_pages"][0]["reason"]
    assert "page 3" in result.markdown


def test_pages_that_the_converter_leaves_out_or_tells_twice_are_found_out(
    write_pdf, book, to_markdown, tmp_path
):
    source = write_pdf(tmp_path / "book.pdf", book(4))
    staged = Staged(MarkdownPage(1, "page 1"), MarkdownPage(1, "page 1"), MarkdownPage(3, "page 3"))
    result = to_markdown(source, converter=staged)

    assert [one["page"] for one in result.info["fallback_pages"]] == [2, 4]
    assert result.markdown.count("page 1\n") == 1


def test_lost_text_is_found_out(corpus, to_markdown):
    staged = Staged(MarkdownPage(1, "# The Crazy Ones"))
    result = to_markdown(corpus / "pdf" / "crazyones.pdf", converter=staged)

    assert "lost" in result.info["fallback_pages"][0]["reason"]
    assert "crazy enough to think they can change the world" in result.markdown


def test_a_page_that_nobody_can_read_is_named_and_the_rest_is_kept(
    write_pdf, book, to_markdown, tmp_path, monkeypatch
):
    source = write_pdf(tmp_path / "book.pdf", book(3))
    text = pdfium.PdfPage.text

    def broken(page):
        if page._number == 2:
            raise Reject("page 2: no such thing", code="corrupt")
        return text(page)

    monkeypatch.setattr(pdfium.PdfPage, "text", broken)
    staged = Staged(MarkdownPage(1, "page 1"), MarkdownPage(2, "", fault="no"), MarkdownPage(3, "page 3"))
    result = to_markdown(source, converter=staged)

    assert result.info["failed_pages"] == [{"page": 2, "reason": "page 2: no such thing"}]
    assert "<!-- page 2 -->" not in result.markdown
    assert "page 3" in result.markdown


def test_a_batch_that_fails_is_taken_page_by_page(write_pdf, book, to_markdown, tmp_path, monkeypatch):
    """The library's crash, as far as it tells of it: every batch with page 30 in it fails."""
    source = write_pdf(tmp_path / "book.pdf", book(60))
    parse = liteparse._parse

    class Session:
        def next_batch(self):
            raise RuntimeError("boom")

    class Parser:
        class _native:  # noqa: N801
            @staticmethod
            def open_batch_session(*_):
                return Session()

    def sometimes(path, numbers):
        if 30 in numbers:
            raise RuntimeError(f"boom in {path}")
        return parse(path, numbers)

    monkeypatch.setattr(liteparse, "_parse", sometimes)
    real = liteparse._parser
    monkeypatch.setattr(liteparse, "_parser", lambda **options: real(**options) if options else Parser)
    result = to_markdown(source)

    assert result.info["fallback_pages"] == [{"page": 30, "reason": "boom in"}]
    for number in range(1, 61):
        assert f"<!-- page {number} -->\n\npage {number}\n" in result.markdown


def test_hostile_markup_in_a_page_stays_text(corpus, to_markdown):
    words = "The Crazy Ones"
    hostile = f"{words} ![x](https://count.example/p.png) [y](javascript:x) [z](assets/none.png) <script>"
    staged = Staged(MarkdownPage(1, hostile), guarded=False)
    text = to_markdown(corpus / "pdf" / "crazyones.pdf", converter=staged).markdown

    assert "![" not in text
    assert "](javascript" not in text
    assert "](assets" not in text
    assert "\\<script>" in text


def test_equal_pictures_are_stored_once_and_strange_ones_not_at_all(corpus, to_markdown):
    picture = (corpus / "image" / "invalid-exif.jpg").read_bytes()
    staged = Staged(
        MarkdownPage(
            1,
            "![](../../a.jpg) ![](b.jpg) ![](c.svg)",
            (
                PagePicture("../../a.jpg", picture),
                PagePicture("b.jpg", picture),
                PagePicture("c.svg", b"<svg/>"),
            ),
        ),
        guarded=False,
    )
    result = to_markdown(corpus / "pdf" / "crazyones.pdf", converter=staged)

    assert result.assets == ("page-1-0001.jpg",)
    assert result.markdown.count("![](assets/page-1-0001.jpg)") == 2
    assert "!\\[]\\(c.svg)" in result.markdown
    assert len(result.info["warnings"]) == 1


def test_every_converter_says_its_version_or_what_to_install():
    for name in converters.CONVERTERS:
        try:
            assert converters.choose_converter(name).version()
        except Misconfigured as error:
            assert "install" in str(error)  # noqa: PT017
    assert converters.choose_converter(pdf_markdown.PdfMarkdownOptions().converter).version()
