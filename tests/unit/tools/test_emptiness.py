"""What counts as nothing on a picture: noise does, and a stroke in it does not, however faint."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageDraw, ImageFont

from quire.tools.emptiness import is_empty
from quire.tools.pdfium import PageBitmap

SIDE = 900
PAPER = 225


def bitmap_of(picture: Image.Image) -> PageBitmap:
    return PageBitmap(memoryview(picture.tobytes()), picture.width, picture.height, len(picture.getbands()))


def paper(noise: float, *, mode: str = "L", light: int = PAPER) -> Image.Image:
    """Paper as a scanner sees it; with light below 255 - 5 * noise nothing is cut off."""
    chance = np.random.default_rng(7)
    shape = (SIDE, SIDE) if mode == "L" else (SIDE, SIDE, 3)
    levels = chance.normal(light, noise, shape) if noise else np.full(shape, light)
    return Image.fromarray(np.clip(levels.round(), 0, 255).astype("uint8"))


def write(picture: Image.Image, text: str, *, size: int, contrast: int) -> Image.Image:
    drawn = Image.new("L", picture.size)
    font = ImageFont.load_default(size)
    ImageDraw.Draw(drawn).multiline_text((20, 20), text, font=font, fill=contrast, spacing=0)
    return ImageChops.subtract(picture, drawn)


@pytest.mark.parametrize("noise", [1, 3, 5, 7])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_the_noise_of_a_scanner_on_blank_paper_is_nothing(noise, mode):
    assert is_empty(bitmap_of(paper(noise, mode=mode)))


def test_noise_that_was_a_jpeg_in_colours_is_nothing():
    jpeg = io.BytesIO()
    paper(4, mode="RGB").save(jpeg, "JPEG", quality=90)
    assert is_empty(bitmap_of(Image.open(jpeg)))


def test_a_picture_of_one_shade_is_nothing_however_small():
    assert is_empty(bitmap_of(Image.new("L", (3, 2), 200)))
    assert is_empty(bitmap_of(Image.new("RGB", (SIDE, SIDE), (250, 251, 249))))


@pytest.mark.parametrize("noise", [0.5, 2, 4, 6])
@pytest.mark.parametrize(("size", "contrast"), [(22, 20), (42, 14), (60, 14)])
def test_one_faint_word_is_not_nothing(noise, size, contrast):
    assert not is_empty(bitmap_of(write(paper(noise), "two eggs", size=size, contrast=contrast)))


@pytest.mark.parametrize("noise", [0.5, 2, 4])
@pytest.mark.parametrize("size", [10, 14, 22, 42])
def test_a_page_full_of_faint_lines_without_margins_is_not_nothing(noise, size):
    line = "two eggs and a cup of milk stirred slowly until the butter melts over flour " * 3
    text = "\n".join([line] * (SIDE // size))
    assert not is_empty(bitmap_of(write(paper(noise), text, size=size, contrast=14)))


@given(
    st.floats(0, 6),
    st.floats(20, 200),
    st.tuples(st.integers(0, SIDE - 60), st.integers(0, SIDE - 60)),
    st.integers(12, 50),
    st.integers(2, 8),
)
@settings(max_examples=25, deadline=None)
def test_a_single_stroke_is_not_nothing_wherever_it_is(noise, contrast, at, length, width):
    drawn = Image.new("L", (SIDE, SIDE))
    end = (at[0] + length, at[1] + length // 2)
    ImageDraw.Draw(drawn).line([at, end], fill=int(max(contrast, 6 * noise)), width=width)
    assert not is_empty(bitmap_of(ImageChops.subtract(paper(noise), drawn)))


def test_words_of_another_colour_as_light_as_the_paper_are_not_nothing():
    picture = paper(3, mode="RGB", light=180)
    red, green, blue = picture.split()
    written = Image.new("L", picture.size)
    ImageDraw.Draw(written).text((100, 100), "two eggs", font=ImageFont.load_default(40), fill=20)
    other = Image.merge("RGB", (ImageChops.add(red, written), ImageChops.subtract(green, written), blue))
    assert not is_empty(bitmap_of(other))


def test_noise_is_in_doubt_where_it_is_loud_or_the_picture_small():
    assert not is_empty(bitmap_of(paper(14, light=180)))
    assert not is_empty(bitmap_of(paper(4).crop((0, 0, 300, 100))))
