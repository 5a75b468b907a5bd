"""Every TIFF of the corpus comes out as its index says."""

import pytest
from PIL import Image

from quire.model.errors import Misconfigured, Reject

TIFFS = {
    "hopper_lzw.tif": [(128, 128)],
    "hopper.iccprofile.tif": [(128, 128)],
    "hopper_bigtiff.tif": [(128, 128)],
    "hopper.Lab.tif": [(128, 128)],
    "g4-multi.tiff": [(3307, 4677)] * 3,
    "multipage.tiff": [(10, 10), (10, 10), (20, 20)],
    "16bit.cropped.tif": [(64, 64)],
    "16bit.MM.cropped.tif": [(64, 64)],
    "old-style-jpeg-compression.tif": [(4160, 870)],
    "pport_g4.tif": [(2548, 3296)],
    "g4_orientation_3.tif": [(590, 88)],
    "tiff_tiled_planar_lzw.tiff": [(278, 374)],
    "rgb-3c-16b.tiff": [(157, 151)],
    "cmyk-3c-8b.tiff": [(157, 151)],
    "cmyk-3c-16b.tiff": [(157, 151)],
    "fax4.tiff": [(1080, 671)],
    "quad-tile.jpg.tiff": [(512, 384)],
    "miniswhite-1c-1b.tiff": [(157, 151)],
    "pyramid_webp.tif": [(1024, 2048)],
}

REFUSED = {
    "crash-86214e58da443d2b80820cff9677a38a33dcbbca.tif": {"truncated", "corrupt"},
    "libtiff_segfault.tif": {"corrupt", "unsupported_format"},
    "bomb_g4_60000x60000.tif": {"too_many_pixels"},
}

# What each picture looks like on average; a wrong polarity, colour model or bit depth is far outside.
MEANS = {
    "hopper_lzw.tif": (90, 80, 95),
    "hopper.iccprofile.tif": (90, 80, 95),
    "hopper_bigtiff.tif": (90, 80, 95),
    "hopper.Lab.tif": (90, 80, 95),
    "16bit.cropped.tif": (1.5,),
    "16bit.MM.cropped.tif": (1.5,),
    "old-style-jpeg-compression.tif": (78, 85, 78),
    "pport_g4.tif": (234,),
    "g4_orientation_3.tif": (227,),
    "tiff_tiled_planar_lzw.tiff": (170, 155, 160),
    "rgb-3c-16b.tiff": (150, 116, 66),
    "fax4.tiff": (86,),
    "quad-tile.jpg.tiff": (27, 38, 45),
    "miniswhite-1c-1b.tiff": (127.5,),
    "pyramid_webp.tif": (252, 252, 252),
}


def test_every_tiff_of_the_corpus_is_in_one_of_the_tables(corpus):
    assert {path.name for path in (corpus / "tiff").iterdir()} == TIFFS.keys() | REFUSED.keys()


@pytest.mark.parametrize("name", TIFFS)
def test_pages_come_out_as_jpegs_in_order_with_their_sizes(name, corpus, run_step):
    made = run_step("tiff_to_jpeg", corpus / "tiff" / name).files

    assert [made_file.facts["page"] for made_file in made] == list(range(1, len(TIFFS[name]) + 1))
    assert {made_file.facts["pages"] for made_file in made} == {len(TIFFS[name])}
    for made_file, size in zip(made, TIFFS[name], strict=True):
        assert (made_file.role, made_file.content_type) == ("jpeg", "image/jpeg")
        assert (made_file.facts["width"], made_file.facts["height"]) == size
        assert made_file.facts["cid"].startswith("baf")
        with Image.open(made_file.path) as picture:
            assert (picture.format, picture.size) == ("JPEG", size)
            assert "icc_profile" not in picture.info
            assert "exif" not in picture.info


@pytest.mark.parametrize("name", MEANS)
def test_colours_and_polarity_are_right(name, corpus, run_step, mean):
    (made,) = run_step("tiff_to_jpeg", corpus / "tiff" / name).files

    assert mean(made.path) == pytest.approx(MEANS[name], abs=2.5)


def test_pages_are_not_mixed_up(corpus, run_step, mean):
    green, red, blue = run_step("tiff_to_jpeg", corpus / "tiff" / "multipage.tiff").files

    assert mean(green.path) == pytest.approx((0, 128, 0), abs=4)
    assert mean(red.path) == pytest.approx((255, 0, 0), abs=4)
    assert mean(blue.path) == pytest.approx((0, 0, 255), abs=4)


def test_cmyk_of_8_and_16_bits_is_the_same_picture_in_rgb(corpus, run_step, mean):
    (eight,) = run_step("tiff_to_jpeg", corpus / "tiff" / "cmyk-3c-8b.tiff").files
    (sixteen,) = run_step("tiff_to_jpeg", corpus / "tiff" / "cmyk-3c-16b.tiff").files
    (rgb,) = run_step("tiff_to_jpeg", corpus / "tiff" / "rgb-3c-16b.tiff").files

    assert mean(eight.path) == pytest.approx(mean(sixteen.path), abs=1)
    # The same photograph; printed colours are paler, inverted ones would be far off.
    assert mean(eight.path) == pytest.approx(mean(rgb.path), abs=30)


def test_an_upside_down_page_is_turned(corpus, run_step, difference, tmp_path):
    source = corpus / "tiff" / "g4_orientation_3.tif"
    (made,) = run_step("tiff_to_jpeg", source).files

    with Image.open(source) as picture:
        picture.load()  # Pillow turns it by itself
        picture.convert("L").save(tmp_path / "expected.png")
    assert difference(made.path, tmp_path / "expected.png") < 3


@pytest.mark.parametrize("name", REFUSED)
def test_damaged_and_oversized_files_are_refused_for_good(name, corpus, run_step):
    with pytest.raises(Reject) as refusal:
        run_step("tiff_to_jpeg", corpus / "tiff" / name)

    assert refusal.value.code in REFUSED[name]
    assert str(corpus) not in str(refusal.value)  # a reason must not depend on the machine


def test_only_the_first_page_when_asked(corpus, run_step):
    (made,) = run_step("tiff_to_jpeg", corpus / "tiff" / "multipage.tiff", all_pages=False).files

    assert (made.facts["page"], made.facts["pages"]) == (1, 1)


@pytest.mark.parametrize("name", ["g4-multi.tiff", "pyramid_webp.tif", "hopper.Lab.tif", "cmyk-3c-8b.tiff"])
def test_a_repeated_run_gives_the_same_bytes(name, corpus, run_step):
    first = run_step("tiff_to_jpeg", corpus / "tiff" / name)
    second = run_step("tiff_to_jpeg", corpus / "tiff" / name)

    assert [made.path.read_bytes() for made in first.files] == [
        made.path.read_bytes() for made in second.files
    ]
    assert [made.facts for made in first.files] == [made.facts for made in second.files]


def test_quality_is_an_option_and_a_wrong_one_stops_the_work(corpus, run_step):
    source = corpus / "tiff" / "hopper_lzw.tif"
    (fine,) = run_step("tiff_to_jpeg", source).files
    (coarse,) = run_step("tiff_to_jpeg", source, quality=40).files
    assert coarse.path.stat().st_size < fine.path.stat().st_size / 2

    with pytest.raises(Misconfigured, match="qualty"):
        run_step("tiff_to_jpeg", source, qualty=40)
    with pytest.raises(Misconfigured):
        run_step("tiff_to_jpeg", source, quality=400)


def test_a_jpeg_under_a_tiff_name_is_converted(corpus, run_step):
    (made,) = run_step("tiff_to_jpeg", corpus / "image" / "Landscape_6.jpg", name="scan.tif").files

    assert (made.facts["width"], made.facts["height"]) == (1800, 1200)


@pytest.mark.parametrize("name", ["scan[page=1].tif", "scan[1]", "scän 1.tif"])
def test_names_are_not_read_as_options(name, corpus, run_step, tmp_path):
    source = tmp_path / name
    source.write_bytes((corpus / "tiff" / "multipage.tiff").read_bytes())

    assert len(run_step("tiff_to_jpeg", source).files) == 3


def test_an_overview_or_a_mask_is_not_a_page(run_step, write_tiff, rgb_tags, tmp_path):
    picture = bytes(16 * 8 * 3)
    overview = {**rgb_tags, 254: 1}
    mask = {**rgb_tags, 254: 4}
    old_overview = {**rgb_tags, 255: 2}
    pages = [(tags, [picture]) for tags in (rgb_tags, overview, mask, {**rgb_tags, 254: 2}, old_overview)]

    made = run_step("tiff_to_jpeg", write_tiff(tmp_path / "p.tif", *pages)).files

    assert [made_file.facts["page"] for made_file in made] == [1, 2]


def test_planes_without_tiles_are_read(run_step, write_tiff, rgb_tags, mean, tmp_path):
    """Stands for planar-rgb-u8.tif, which is too large for this corpus."""
    planes = [bytes([200]) * 128, bytes([100]) * 128, bytes([50]) * 128]
    source = write_tiff(tmp_path / "planar.tif", ({**rgb_tags, 284: 2}, planes))

    (made,) = run_step("tiff_to_jpeg", source).files

    assert mean(made.path) == pytest.approx((200, 100, 50), abs=2)
