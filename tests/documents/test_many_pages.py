"""Documents of very many pages cost what their pages cost: opening the last one is as cheap as the first."""

import time

import pikepdf
import pytest
from PIL import Image

from quire.model.errors import Reject
from quire.tools import tiff
from quire.tools.tiff_view import MANY_DIRECTORIES, TiffPageView

GREY = {256: 16, 257: 16, 258: 8, 259: 1, 262: 1, 277: 1, 278: 16}


def grey_pages(count):
    return [(GREY, [bytes([number % 256]) * 256]) for number in range(count)]


def cpu_seconds(work):
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.fixture
def write_blank_pdf():
    def write(path, count):
        with pikepdf.new() as made:
            for _ in range(count):
                made.add_blank_page(page_size=(72, 72))
            made.save(path)
        return path

    return write


@pytest.mark.slow
def test_the_time_for_a_tiff_grows_with_its_pages_and_not_faster(write_tiff, run_step, tmp_path):
    """Counted as time of the processor, which a busy machine does not stretch."""
    few = write_tiff(tmp_path / "few.tif", *grey_pages(250))
    many = write_tiff(tmp_path / "many.tif", *grey_pages(1000))
    run_step("tiff_to_jpeg", few)  # loads the libraries

    cost = {path.name: cpu_seconds(lambda path=path: run_step("tiff_to_jpeg", path)) for path in (few, many)}

    assert cost["many.tif"] < 8 * cost["few.tif"], cost


@pytest.mark.slow
def test_the_time_for_a_pdf_grows_with_its_pages_and_not_faster(write_blank_pdf, run_step, tmp_path):
    few, many = write_blank_pdf(tmp_path / "few.pdf", 250), write_blank_pdf(tmp_path / "many.pdf", 1000)
    run_step("pdf_split", few, pages="both")

    cost = {
        path.name: cpu_seconds(lambda path=path: run_step("pdf_split", path, pages="both"))
        for path in (few, many)
    }

    assert cost["many.pdf"] < 8 * cost["few.pdf"], cost


@pytest.mark.parametrize("count", [MANY_DIRECTORIES, MANY_DIRECTORIES + 1, 60])
def test_every_page_of_many_is_the_right_one(count, write_tiff, run_step, tmp_path, mean):
    pages = [
        ({**GREY, 257: 16 + number, 278: 16 + number}, [bytes([4 * number]) * 16 * (16 + number)])
        for number in range(count)
    ]

    made = run_step("tiff_to_jpeg", write_tiff(tmp_path / "many.tif", *pages)).files

    assert [(one.facts["page"], one.facts["height"]) for one in made] == [
        (number + 1, 16 + number) for number in range(count)
    ]
    for number, one in enumerate(made):
        assert mean(one.path) == pytest.approx((4 * number,), abs=1.5)


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "group4", "jpeg", "tiff_adobe_deflate"])
@pytest.mark.parametrize("big", [False, True])
def test_a_page_among_many_comes_out_as_it_does_alone(compression, big, run_step, tmp_path):
    mode = "1" if compression == "group4" else "L"
    pages = [Image.effect_noise((40 + number, 30), 60).convert(mode) for number in range(12)]
    pages[0].save(
        tmp_path / "many.tif", save_all=True, append_images=pages[1:], compression=compression, big_tiff=big
    )

    made = run_step("tiff_to_jpeg", tmp_path / "many.tif").files

    assert len(made) == len(pages)
    for number, page in enumerate(pages):
        page.save(tmp_path / "alone.tif", compression=compression)
        (alone,) = run_step("tiff_to_jpeg", tmp_path / "alone.tif").files
        assert made[number].path.read_bytes() == alone.path.read_bytes()


def test_the_second_decoder_finds_its_page_among_many(corpus, write_tiff, run_step, tmp_path, mean):
    """LAB is a kind that libvips refuses."""
    lab = {256: 8, 257: 8, 258: (8, 8, 8), 259: 1, 262: 8, 277: 3, 278: 8, 284: 1}
    pages = [(lab, [bytes([25 * number, 0, 0]) * 64]) for number in range(10)]

    made = run_step("tiff_to_jpeg", write_tiff(tmp_path / "lab.tif", *pages)).files

    brightness = [mean(one.path)[0] for one in made]
    assert brightness == sorted(brightness)
    assert len(set(brightness)) == 10


def test_a_damaged_page_among_many_is_refused(write_tiff, run_step, tmp_path):
    lzw = {**GREY, 259: 5}
    pages = [*grey_pages(20), (lzw, [b"\xff" * 40]), *grey_pages(5)]

    with pytest.raises(Reject) as refusal:
        run_step("tiff_to_jpeg", write_tiff(tmp_path / "damaged.tif", *pages))

    assert refusal.value.code in {"corrupt", "truncated"}


def test_a_view_is_the_file_with_one_page(write_tiff, tmp_path):
    path = write_tiff(tmp_path / "many.tif", *grey_pages(12))
    third = tiff.pages(path)[2]

    with TiffPageView(path, third) as view:
        whole = view.read()
        pieces = bytearray()
        view.seek(0)
        while piece := view.read(3):
            pieces += piece

    assert pieces == whole
    (tmp_path / "one.tif").write_bytes(whole)
    (page,) = tiff.pages(tmp_path / "one.tif")
    assert (page.directory, page.index) == (third.directory, 0)
