"""The traps of bit depths, colour models and transparency, each as a small file made for it."""

import pytest
import pyvips
from PIL import Image

from quire.tools import pillow, vips
from quire.tools.refusals import PixelLimits, Unsupported

WANTED = (180, 90, 40)


@pytest.fixture
def plain():
    vips.probe()  # the library's settings, before the first picture
    return (pyvips.Image.black(32, 32, bands=3) + list(WANTED)).cast("uchar").copy(interpretation="srgb")


def with_srgb_profile(picture):
    source = pyvips.Image.black(1, 1, bands=3).copy(interpretation="srgb")
    blob = source.icc_transform("srgb", input_profile="srgb").get("icc-profile-data")
    picture = picture.copy()
    picture.set_type(pyvips.GValue.blob_type, "icc-profile-data", blob)
    return picture


@pytest.fixture
def converted(run_step, mean, tmp_path):
    def convert(picture, **options):
        picture.tiffsave(str(tmp_path / "in.tif"), **options)
        (made,) = run_step("tiff_to_jpeg", tmp_path / "in.tif", quality=100).files
        return mean(made.path)

    return convert


def test_float_with_a_profile_is_not_black(plain, converted):
    assert converted(with_srgb_profile(plain.colourspace("scrgb"))) == pytest.approx(WANTED, abs=2)


@pytest.mark.parametrize("space", ["lab", "labs", "rgb16", "scrgb"])
def test_colour_spaces_come_back_to_srgb(space, plain, converted):
    assert converted(plain.colourspace(space)) == pytest.approx(WANTED, abs=2)


def test_lab_with_alpha_is_not_white(plain, converted):
    lab = plain.colourspace("labs").bandjoin(32767).copy(interpretation="labs")

    assert converted(lab) == pytest.approx(WANTED, abs=2)


@pytest.mark.parametrize("space", ["srgb", "rgb16"])
@pytest.mark.parametrize("premultiply", [False, True])
@pytest.mark.parametrize("profile", [False, True])
def test_half_transparent_pictures_are_laid_on_white(space, premultiply, profile, plain, converted):
    opaque = plain.icc_transform("p3", input_profile="srgb") if profile else plain
    half = opaque.bandjoin(128).copy(interpretation="srgb").colourspace(space)
    expected = tuple((level + 255) / 2 for level in WANTED)

    assert converted(half, premultiply=premultiply) == pytest.approx(expected, abs=3)


def test_an_unspecified_fourth_band_is_not_transparency(run_step, write_tiff, rgb_tags, mean, tmp_path):
    """Aerial pictures carry infra-red there."""
    tags = {**rgb_tags, 258: (8, 8, 8, 8), 277: 4, 338: 0}
    source = write_tiff(tmp_path / "nir.tif", (tags, [bytes([*WANTED, 3]) * 128]))

    (made,) = run_step("tiff_to_jpeg", source).files

    assert mean(made.path) == pytest.approx(WANTED, abs=2)


def test_a_profile_other_than_srgb_is_honoured(plain, converted):
    wide = plain.icc_transform("p3", input_profile="srgb")
    stored = tuple(wide(0, 0))

    assert converted(wide) == pytest.approx(WANTED, abs=2)
    assert stored != pytest.approx(WANTED, abs=2)


def test_cmyk_with_a_profile_is_converted_by_it(plain, converted):
    assert converted(plain.icc_transform("cmyk", input_profile="srgb")) == pytest.approx(WANTED, abs=12)


GREYS = {
    "uchar": (lambda grey: grey, 106),
    "ushort": (lambda grey: (grey * 256).cast("ushort").copy(interpretation="grey16"), 106),
    "uint": (lambda grey: (grey.cast("uint") * (1 << 24)).cast("uint"), 106),
    "beyond": (lambda grey: grey.cast("float") * 1000, 255),
}


@pytest.mark.parametrize("kind", GREYS)
def test_grey_of_every_depth_has_the_right_brightness(kind, converted):
    grey = (pyvips.Image.black(32, 32) + 106).cast("uchar").copy(interpretation="b-w")
    grey = grey.insert(pyvips.Image.black(32, 16).cast("uchar"), 0, 0)  # upper half black: a range of values
    change, level = GREYS[kind]
    picture = change(grey).copy(interpretation="grey16" if kind == "ushort" else "b-w")

    assert converted(picture) == pytest.approx((level / 2,), abs=2)


def test_float_grey_of_0_to_1_is_linear_light_and_not_black(converted):
    grey = (pyvips.Image.black(16, 16) + 0.5).cast("float").copy(interpretation="b-w")

    assert converted(grey) == pytest.approx((188,), abs=2)


def test_the_second_decoder_shifts_sixteen_bit_grey(corpus, tmp_path):
    Image.new("I;16", (8, 8), 106 * 256 + 7).save(tmp_path / "grey.tif")
    pixels = pillow.decode(tmp_path / "grey.tif", "image/tiff", None, PixelLimits())
    assert (pixels.bands, set(pixels.data)) == (1, {106})

    little = pillow.decode(corpus / "tiff" / "16bit.cropped.tif", "image/tiff", None, PixelLimits())
    big = pillow.decode(corpus / "tiff" / "16bit.MM.cropped.tif", "image/tiff", None, PixelLimits())
    assert little == big


def test_the_second_decoder_turns_and_flattens(corpus, tmp_path):
    turned = pillow.decode(corpus / "image" / "Landscape_6.jpg", "image/jpeg", None, PixelLimits())
    assert turned[1:] == (1800, 1200, 3)

    Image.new("RGBA", (4, 4), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert set(pillow.decode(tmp_path / "clear.png", "image/png", None, PixelLimits()).data) == {255}


def test_the_two_decoders_agree_on_what_both_can_read(corpus):
    """Upright and in colour: they may differ in rounding only."""
    for name in ("g4_orientation_3.tif", "hopper.iccprofile.tif", "rgb-3c-16b.tiff", "miniswhite-1c-1b.tiff"):
        source = corpus / "tiff" / name
        with vips.decoded(source, "image/tiff") as picture:
            first = picture.copy_memory()
        second = vips.from_pixels(*pillow.decode(source, "image/tiff", None, PixelLimits()))
        assert (first.width, first.height, first.bands) == (second.width, second.height, second.bands)
        assert (first - second).abs().avg() < 1


def test_the_second_decoder_tries_wanted_formats_only(corpus):
    with pytest.raises(Unsupported):
        pillow.decode(corpus / "image" / "decompression_bomb.gif", "image/png", None, PixelLimits())
