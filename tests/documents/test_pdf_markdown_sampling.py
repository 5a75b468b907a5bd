"""Long documents: faults of the layout are found on every page, and faults of the reading by the sample."""

import pytest

from quire.steps.page_sample import Sampling, most
from quire.tools import liteparse, pdfium
from quire.tools.markdown_page import MarkdownPage

PAGES = 40
UNSAMPLED = 23


def lines(number: int) -> list[str]:
    return [f"p{number}l{at} alder birch cedar dahlia elder" for at in range(20)]


@pytest.fixture
def long(write_pdf, tmp_path):
    kids = " ".join(f"{10 + 2 * at} 0 R" for at in range(PAGES))
    objects = {
        1: "<</Type/Catalog/Pages 2 0 R>>",
        2: f"<</Type/Pages/Count {PAGES}/Kids[{kids}]/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>>>>>",
        3: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    }
    for at in range(PAGES):
        draw = "".join(
            f"BT /F 10 Tf 72 {700 - 14 * row} Td ({line}) Tj ET\n" for row, line in enumerate(lines(at + 1))
        )
        objects[10 + 2 * at] = f"<</Type/Page/Parent 2 0 R/Contents {11 + 2 * at} 0 R>>"
        objects[11 + 2 * at] = ("", draw.encode())
    return write_pdf(tmp_path / "long.pdf", objects)


@pytest.fixture
def read(monkeypatch):
    """The pages that PDFium was asked for the text of."""
    seen: list[int] = []
    text = pdfium.PdfPage.text

    def noted(page):
        seen.append(page._number)
        return text(page)

    monkeypatch.setattr(pdfium.PdfPage, "text", noted)
    return seen


@pytest.fixture
def faulty(monkeypatch):
    """Changes pages as they leave the converter."""
    real = liteparse._build_pages

    def install(change):
        monkeypatch.setattr(liteparse, "_build_pages", lambda *asked: map(change, real(*asked)))

    return install


def test_pdfium_reads_a_sample_of_a_long_document(long, read, to_markdown):
    result = to_markdown(long)

    assert read == [1, 2, 3, 4, 5, 17, 34, 40]
    assert result.info["compared_pages"] == 8
    assert result.info["fallback_pages"] == []
    assert f"p{UNSAMPLED}l19" in result.markdown


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text[: len(text) // 2], "lost"),
        (lambda text: " ".join(sorted(text.split(), key=lambda word: word[-2:])), "order"),
    ],
)
def test_what_the_layout_loses_is_found_on_a_page_outside_the_sample(
    change, reason, long, read, faulty, to_markdown
):
    faulty(lambda page: page._replace(markdown=change(page.markdown)) if page.number == UNSAMPLED else page)
    result = to_markdown(long)

    assert [one["page"] for one in result.info["fallback_pages"]] == [UNSAMPLED]
    assert reason in result.info["fallback_pages"][0]["reason"]
    for line in lines(UNSAMPLED):
        assert line in result.markdown
    assert len(read) == 9


def test_what_the_converter_never_read_on_a_sampled_page_makes_all_pages_compared(
    long, read, faulty, to_markdown
):
    """Pages before it too, which are written already."""

    def blind(page):
        half = "\n".join(lines(page.number)[:10])
        return page._replace(markdown=half, text=half) if page.number in {UNSAMPLED, 34, 37} else page

    faulty(blind)
    result = to_markdown(long)

    assert [one["page"] for one in result.info["fallback_pages"]] == [UNSAMPLED, 34, 37]
    assert sorted(read) == list(range(1, PAGES + 1))
    assert result.info["compared_pages"] == PAGES
    at = -1
    for number in range(1, PAGES + 1):
        for words in (f"<!-- page {number} -->", *(line.split()[0] for line in lines(number))):
            assert result.markdown.count(words + (" " if words[0] == "p" else "")) == 1
            at = result.markdown.index(words, at + 1)


def wanted(pages: int, text: str = "word " * 100) -> list[int]:
    sampling = Sampling(pages)
    return [number for number in range(1, pages + 1) if sampling.wants(MarkdownPage(number, text, text=text))]


@pytest.mark.parametrize("pages", [1, 20, 21, 100, 10_000])
def test_the_sample_is_the_same_each_time_and_bounded(pages):
    assert wanted(pages) == wanted(pages)
    assert 1 <= len(wanted(pages)) <= most(pages)
    assert most(10_000) < 600
    assert wanted(20) == list(range(1, 21))


def test_odd_pages_are_in_the_sample():
    usual = "word " * 1000
    odd = {
        7: MarkdownPage(7, "few", text="few"),
        8: MarkdownPage(8, usual, text=usual, odd=True),
        9: MarkdownPage(9, "word " * 100, text="word " * 100),
        10: MarkdownPage(10, usual, text="\ufffd" * 5000),
        11: MarkdownPage(11, usual),
    }
    sampling = Sampling(30)
    found = [
        number
        for number in range(1, 17)
        if sampling.wants(odd.get(number, MarkdownPage(number, usual, text=usual)))
    ]
    assert found == [1, 2, 3, 4, 5, 7, 8, 9, 10, 11]
