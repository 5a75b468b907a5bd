"""Real PDFs become Markdown: headings, tables, lists, links and pictures where they belong, page by page."""

import re
from pathlib import Path
from urllib.parse import unquote

import pikepdf
import pytest

from quire.model.files import File
from quire.model.step import NoMeter, StepInput
from quire.steps import converters
from quire.steps.registry import STEPS


def in_order(text: str, *parts: str) -> None:
    at = 0
    for part in parts:
        place = text.find(part, at)
        assert place >= 0, f"{part!r} is not there, or not after {text[max(0, at - 60) : at]!r}"
        at = place + len(part)


def test_headings_and_lists_of_five_pages(corpus, to_markdown):
    result = to_markdown(corpus / "pdf" / "multi_page.pdf")

    in_order(
        result.markdown,
        "<!-- page 1 -->\n\n# The Evolution of the Word Processor\n",
        "\n# Pre-Digital Era (19th - Early 20th Century)\n",
        "Patented in 1868 by Christopher Latham Sholes",
        "\n- **IBM MT/ST (Magnetic Tape/Selectric Typewriter)",
        "\n- **Wang Laboratories",
        "<!-- page 2 -->",
        "\n# The Modern Era (1990s - Present)\n",
        "<!-- page 5 -->",
    )
    assert result.info["pages"] == 5
    assert result.info["failed_pages"] == result.info["fallback_pages"] == result.info["needs_ocr"] == []


def test_pictures_stand_between_their_paragraphs_and_lead_into_the_archive(corpus, to_markdown):
    result = to_markdown(corpus / "pdf" / "picture_classification.pdf")

    in_order(
        result.markdown,
        "# Figures Example",
        "![](assets/page-1-0001.jpg)",
        "Figure 1: This is an example image.",
        "<!-- page 2 -->",
        "![](assets/page-2-0001.jpg)",
        "Figure 2: This is an example image.",
    )
    assert result.assets == ("page-1-0001.jpg", "page-2-0001.jpg")


def test_code_and_headings(corpus, to_markdown):
    text = to_markdown(corpus / "pdf" / "code_and_formula.pdf").markdown

    in_order(
        text,
        "# JavaScript Code Example",
        "Listing 1: Simple JavaScript Program",
        "return a + b;",
        "# Formula",
    )


def test_running_heads_and_feet_are_kept(corpus, to_markdown):
    text = to_markdown(corpus / "pdf" / "header-test-doc.pdf").markdown

    in_order(text, "I Am A Header", "# Title", "Here is a lovely sentences.", "I Am A Footer")


def test_an_index_that_the_converter_reads_by_columns_is_read_line_by_line(corpus, to_markdown):
    result = to_markdown(corpus / "pdf" / "manual-3-pages.pdf")

    first, second = result.markdown.split("<!-- page 2 -->")
    in_order(
        first,
        "2.3.59-19 Command Code BMFOL Tax Module Display\n",
        "2.3.59-26 Command Code BMFOL Adjustment Display\n",
        "2.3.59-57 Command Code BMFOL Return Form 940 Display\n",
    )
    assert [one["page"] for one in result.info["fallback_pages"]] == [1]
    assert "order" in result.info["fallback_pages"][0]["reason"]
    in_order(second, "| 2.3.59.1 (12-12-2022) | (1) |", "|---|---|---|", "| Program Scope and Objectives |")
    assert "](assets/page-3-0001.png)" in second


def two_columns(write_pdf, path: Path) -> tuple[Path, list[str], list[str]]:
    left = [f"left{at} alder birch cedar dahlia" for at in range(30)]
    right = [f"right{at} elder ferns gorse hazel" for at in range(30)]
    draw = "BT /F 24 Tf 72 740 Td (Two Columns) Tj ET\n"
    for x, lines in ((72, left), (320, right)):
        for at, line in enumerate(lines):
            draw += f"BT /F 10 Tf {x} {700 - 14 * at} Td ({line}) Tj ET\n"
    write_pdf(
        path,
        {
            1: "<</Type/Catalog/Pages 2 0 R>>",
            2: "<</Type/Pages/Count 1/Kids[4 0 R]>>",
            3: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            4: "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>>>/Contents 5 0 R"
            "/Annots[<</Type/Annot/Subtype/Link/Rect[70 698 230 712]/A<</S/URI/URI(https://example.org/a)>>>>"
            "<</Type/Annot/Subtype/Link/Rect[318 698 480 712]/A<</S/URI/URI(file:///etc/passwd)>>>>]>>",
            5: ("", draw.encode()),
        },
    )
    return path, left, right


def test_two_columns_are_read_one_after_the_other(write_pdf, to_markdown, tmp_path):
    source, left, right = two_columns(write_pdf, tmp_path / "columns.pdf")
    result = to_markdown(source)

    in_order(result.markdown, "# Two Columns", *(line.split()[0] for line in left + right))


def test_links_to_the_web_are_kept_and_others_are_text(write_pdf, to_markdown, tmp_path):
    source, *_ = two_columns(write_pdf, tmp_path / "columns.pdf")
    text = to_markdown(source).markdown

    assert "](https://example.org/a)" in text
    assert "](file:" not in text
    assert "](<file:" not in text


def test_a_link_on_some_words_of_a_line_is_kept(write_pdf, to_markdown, tmp_path):
    """The converter knows links on whole runs of text only."""
    draw = b"BT /F 10 Tf 72 700 Td (See the rules for more about it) Tj ET"
    source = write_pdf(
        tmp_path / "link.pdf",
        {
            1: "<</Type/Catalog/Pages 2 0 R>>",
            2: "<</Type/Pages/Count 1/Kids[4 0 R]>>",
            3: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            4: "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>>>/Contents 5 0 R"
            "/Annots[<</Type/Annot/Subtype/Link/Rect[92 697 131 711]/A<</S/URI/URI(https://example.org/r)>>>>]>>",
            5: ("", draw),
        },
    )

    assert "See [the rules](https://example.org/r) for more about it" in to_markdown(source).markdown


def test_a_scan_is_recognised(corpus, to_markdown):
    result = to_markdown(corpus / "pdf" / "c02-22-scan.pdf")

    in_order(
        result.markdown, "tip-toeing along a path amongst the trees", "fell over a root and made a noise"
    )
    assert result.info["recognised_pages"] == [1]
    assert result.info["recognised_by"].startswith("tesseract 5")
    assert result.info["needs_ocr"] == []
    assert result.assets == ()


def test_a_scan_can_be_kept_beside_its_text(corpus, to_markdown):
    result = to_markdown(corpus / "pdf" / "c02-22-scan.pdf", keep_scans=True, ocr_dpi=200)

    in_order(result.markdown, "fell over a root", "![](assets/page-1-0001.jpg)")


@pytest.mark.parametrize("options", [{"ocr": "none"}, {"tessdata": "nowhere"}])
def test_without_an_engine_a_scan_is_named_and_kept_as_a_picture(options, corpus, to_markdown):
    result = to_markdown(corpus / "pdf" / "c02-22-scan.pdf", **options)

    assert result.info["needs_ocr"] == [1]
    assert result.info["needs_ocr_reason"]
    assert result.markdown == "<!-- page 1 -->\n\n![](assets/page-1-0001.jpg)\n\n"


def test_in_a_mixed_document_scans_alone_are_recognised_and_blank_pages_are_listed(
    corpus, to_markdown, tmp_path
):
    source = tmp_path / "mixed.pdf"
    with pikepdf.new() as mixed:
        for name in ("crazyones.pdf", "c02-22-scan.pdf"):
            with pikepdf.open(corpus / "pdf" / name) as one:
                mixed.pages.extend(one.pages)
            mixed.add_blank_page()
        mixed.save(source)
    result = to_markdown(source, ocr_dpi=200)

    in_order(
        result.markdown,
        "<!-- page 1 -->\n\n# The Crazy Ones",
        "<!-- page 3 -->",
        "made a noise",
        "<!-- page 4 -->",
    )
    assert result.info["recognised_pages"] == [3]
    assert result.info["blank_pages"] == [2, 4]
    assert result.info["failed_pages"] == []


def test_a_document_of_blank_pages_is_a_proper_result(to_markdown, tmp_path):
    with pikepdf.new() as pdf:
        pdf.add_blank_page()
        pdf.save(tmp_path / "blank.pdf")

    assert to_markdown(tmp_path / "blank.pdf", page_marks=False).markdown == "\n"


class CountingMeter(NoMeter):
    def __init__(self):
        self.shown = []

    def progress(self, done=0, total=0):
        self.shown.append((done, total))


def test_hundreds_of_pages_come_in_their_order_and_are_counted(write_pdf, book, tmp_path):
    source = write_pdf(tmp_path / "book.pdf", book(333))
    file = File(key="k", path="book.pdf", name="book.pdf", size=1, content_type="application/pdf")
    folder, meter = tmp_path / "made", CountingMeter()
    folder.mkdir()
    output = STEPS["pdf_markdown"].run(StepInput(file=file, source=source, folder=folder, meter=meter))

    assert output.facts["pages"] == output.value["pages"] == 333
    text = output.files[0].path.read_text("utf-8")
    in_order(text, *(f"<!-- page {at} -->\n\npage {at}\n" for at in range(1, 334)))
    assert meter.shown == [(at, 333) for at in range(334)]  # how many there are comes first


def test_the_text_takes_the_place_of_the_extension_and_links_lead_to_the_pictures_beside_it(corpus, run_step):
    name = "Über (2) uns?.v1.PDF"
    output = run_step("pdf_markdown", corpus / "pdf" / "picture_classification.pdf", name=name)

    markdown, *pictures = output.files
    assert (markdown.name, markdown.preferred, markdown.role) == ("md", "Über (2) uns?.v1.md", "markdown")
    assert [(one.name, one.role, one.content_type) for one in pictures] == [
        ("page-1-0001.jpg", "picture", "image/jpeg"),
        ("page-2-0001.jpg", "picture", "image/jpeg"),
    ]
    links = re.findall(r"!\[\]\(([^()\s]*)\)", markdown.path.read_text("utf-8"))
    assert [unquote(link) for link in links] == [f"{name}.{one.name}" for one in pictures]


def test_equal_input_gives_equal_files_facts_and_values(corpus, run_step):
    source = corpus / "pdf" / "picture_classification.pdf"
    one, two = (run_step("pdf_markdown", source) for _ in range(2))

    assert [made.path.read_bytes() for made in one.files] == [made.path.read_bytes() for made in two.files]
    assert [made.name for made in one.files] == [made.name for made in two.files]
    assert (one.facts, one.value) == (two.facts, two.value)


def test_facts_count_what_the_value_lists(corpus, run_step):
    output = run_step("pdf_markdown", corpus / "pdf" / "manual-3-pages.pdf")

    assert output.facts == {
        "pages": 3,
        "pictures": 1,
        "failed_pages": 0,
        "fallback_pages": 1,
        "needs_ocr": 0,
        "warnings": 0,
    }
    assert output.value["converter"]["name"] == "liteparse"
    assert output.value["marker_meta"] == {}


def test_plain_text_is_a_converter_of_its_own(corpus, to_markdown):
    result = to_markdown(
        corpus / "pdf" / "code_and_formula.pdf", converter=converters.choose_converter("pdfium")
    )
    in_order(
        result.markdown, "# JavaScript Code Example", "Listing 1: Simple JavaScript Program", "# Formula"
    )
    assert result.info["converter"]["name"] == "pdfium"
    assert result.info["fallback_pages"] == []
