"""Pages of real PDFs: as the bare library draws them, with the text that the source has."""

from pathlib import Path

import pikepdf
import pypdfium2
import pytest
from PIL import Image

from quire.model.errors import Misconfigured, Reject

PDFS = {
    "c02-22-scan.pdf": 1,
    "code_and_formula.pdf": 2,
    "crazyones.pdf": 1,
    "header-test-doc.pdf": 1,
    "manual-3-pages.pdf": 3,
    "multi_page.pdf": 5,
    "picture_classification.pdf": 2,
    "rotation.pdf": 2,
}
REFUSED = {
    "crazyones-encrypted-256.pdf": "encrypted",
    "zero-pages.pdf": "no_pages",
    "issue9105_other.pdf": "truncated",
    "bug1980958.pdf": "truncated",
}


def text_of(path: Path, number: int = 1) -> str:
    with pypdfium2.PdfDocument(path) as pdf:
        return pdf[number - 1].get_textpage().get_text_bounded()


def drawn(path: Path, number: int, dpi: int, target: Path) -> Path:
    """By the library alone."""
    with pypdfium2.PdfDocument(path) as pdf:
        pdf[number - 1].render(scale=dpi / 72).to_pil().save(target)
    return target


def test_every_pdf_of_the_corpus_is_in_one_of_the_tables(corpus):
    assert {path.name for path in (corpus / "pdf").iterdir()} == PDFS.keys() | REFUSED.keys()


@pytest.mark.parametrize("name", PDFS)
@pytest.mark.parametrize("dpi", [72, 150])
def test_pictures_of_pages_are_as_the_bare_library_draws_them(
    name, dpi, corpus, run_step, difference, tmp_path
):
    source = corpus / "pdf" / name
    made = run_step("pdf_split", source, pages="images", dpi=dpi).files

    assert [one.facts["page"] for one in made] == list(range(1, PDFS[name] + 1))
    for one in made:
        assert (one.role, one.content_type) == ("page_image", "image/jpeg")
        assert one.facts["pages"] == PDFS[name]
        expected = drawn(source, one.facts["page"], dpi, tmp_path / "expected.png")
        assert difference(one.path, expected) < 2
        with Image.open(one.path) as picture:
            assert (one.facts["width"], one.facts["height"]) == picture.size
            assert picture.mode == "RGB"
            assert not {"exif", "icc_profile"} & picture.info.keys()


@pytest.mark.parametrize("name", PDFS)
def test_single_pages_keep_their_text_and_their_look(name, corpus, run_step, difference, tmp_path):
    source = corpus / "pdf" / name
    made = run_step("pdf_split", source, pages="pdfs").files

    assert [one.facts["page"] for one in made] == list(range(1, PDFS[name] + 1))
    for one in made:
        number = one.facts["page"]
        assert (one.role, one.content_type) == ("page_pdf", "application/pdf")
        with pikepdf.open(one.path) as single:
            assert len(single.pages) == 1
            assert single.check_pdf_syntax() == []
        assert text_of(one.path) == text_of(source, number)
        assert one.facts["has_text"] is bool(text_of(source, number).strip())
        whole = drawn(source, number, 72, tmp_path / "whole.png")
        alone = drawn(one.path, 1, 72, tmp_path / "alone.png")
        assert difference(whole, alone) == 0


def test_a_scan_has_no_text_and_prose_has(corpus, run_step):
    (scan,) = run_step("pdf_split", corpus / "pdf" / "c02-22-scan.pdf", pages="pdfs").files
    (prose,) = run_step("pdf_split", corpus / "pdf" / "crazyones.pdf", pages="pdfs").files

    assert (scan.facts["has_text"], prose.facts["has_text"]) == (False, True)
    assert "The misfits. The rebels. The troublemakers." in text_of(prose.path)


def test_a_turned_page_comes_out_upright(corpus, run_step):
    source = corpus / "pdf" / "rotation.pdf"
    with pikepdf.open(source) as pdf:
        turned = [int(page.obj.get("/Rotate", 0)) % 180 for page in pdf.pages]
        boxes = [[float(side) for side in page.mediabox] for page in pdf.pages]
    made = run_step("pdf_split", source, pages="both", dpi=72).files

    assert any(turned)
    for one in made:
        box = boxes[one.facts["page"] - 1]
        upright = (box[2] - box[0], box[3] - box[1])
        if turned[one.facts["page"] - 1]:
            upright = upright[::-1]
        assert (one.facts["width"], one.facts["height"]) == pytest.approx(upright, abs=1)


def test_both_gives_both_page_after_page(corpus, run_step):
    output = run_step("pdf_split", corpus / "pdf" / "multi_page.pdf", pages="both", dpi=30)

    assert [(one.facts["page"], one.role) for one in output.files] == [
        (page, role) for page in range(1, 6) for role in ("page_image", "page_pdf")
    ]
    assert output.facts["pages"] == 5
    assert "repaired" not in output.facts
    assert all(one.facts["cid"].startswith("baf") for one in output.files)


@pytest.mark.parametrize("name", PDFS)
def test_a_repeated_run_gives_the_same_bytes(name, corpus, run_step, tmp_path):
    copied = tmp_path / "elsewhere.pdf"
    copied.write_bytes((corpus / "pdf" / name).read_bytes())
    first = run_step("pdf_split", corpus / "pdf" / name, pages="both", dpi=50)
    second = run_step("pdf_split", copied, pages="both", dpi=50)

    assert [one.path.read_bytes() for one in first.files] == [one.path.read_bytes() for one in second.files]
    assert [one.facts for one in first.files] == [one.facts for one in second.files]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_split_is_refused_for_good(name, corpus, run_step):
    with pytest.raises(Reject) as refusal:
        run_step("pdf_split", corpus / "pdf" / name, pages="both")

    assert refusal.value.code == REFUSED[name]
    assert str(corpus) not in str(refusal.value)
    assert str(refusal.value).count(". ") >= 1  # and then what to do


def test_what_the_file_says_goes_before_the_option(corpus, run_step):
    source = corpus / "pdf" / "crazyones.pdf"

    def roles(config, **options):
        return [one.role for one in run_step("pdf_split", source, config=config, dpi=30, **options).files]

    assert roles({}, pages="images") == ["page_image"]
    assert roles({"pdf_pages": "pdfs"}, pages="images") == ["page_pdf"]
    assert roles({"pdf_pages": "both"}) == ["page_image", "page_pdf"]
    assert roles({"pdf_pages": None}, pages="pdfs") == ["page_pdf"]
    assert roles({"pdf_pages": "none"}, pages="pdfs") == []


@pytest.mark.parametrize("said", ["jpegs", "", True, ["images"], {"pages": 1}])
def test_a_word_that_nobody_knows_is_refused(said, corpus, run_step):
    with pytest.raises(Reject, match="pdf_pages must be one of images, pdfs, both, none") as refusal:
        run_step("pdf_split", corpus / "pdf" / "crazyones.pdf", config={"pdf_pages": said})

    assert refusal.value.code == "bad_processing"


def test_wrong_options_stop_the_work(corpus, run_step):
    for wrong in ({"dpi": 0}, {"quality": 101}, {"pages": "jpegs"}, {"resolution": 200}):
        with pytest.raises(Misconfigured):
            run_step("pdf_split", corpus / "pdf" / "crazyones.pdf", **wrong)


def test_quality_and_resolution_are_options(corpus, run_step):
    source = corpus / "pdf" / "crazyones.pdf"
    (fine,) = run_step("pdf_split", source, pages="images").files
    (coarse,) = run_step("pdf_split", source, pages="images", quality=30).files
    (small,) = run_step("pdf_split", source, pages="images", dpi=100).files

    assert coarse.path.stat().st_size < fine.path.stat().st_size / 2
    assert fine.facts["width"] == pytest.approx(2 * small.facts["width"], abs=2)
