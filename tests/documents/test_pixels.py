"""The pixels, not that it ran: every picture of the corpus and of the samples beside an independent decoding.

The reference is Pillow with LittleCMS, told what Pillow does not do by itself: 16 bits are shifted and not
clipped, transparency lies on white, EXIF turns the picture. Both are shrunk to a few dozen pixels before they
are compared, so that what is left of the difference is colour and place, not the noise of JPEG. A file that
is in no table fails: whoever adds one says what must come of it.
"""

from io import BytesIO
from pathlib import Path

import pytest
from msgspec import Struct, structs
from PIL import Image, ImageChops, ImageCms, ImageOps, ImageStat
from PIL.Image import Transpose

from quire.model.errors import Reject

SAMPLES = Path(__file__).parents[2] / "samples" / "collection"
ENDINGS = {".jpg", ".png", ".tif", ".tiff", ".gif", ".webp"}
GRID = 48
WHITE = (255, 255, 255)


class Expected(Struct, frozen=True, kw_only=True):
    """`within` is the mean difference over all samples of the shrunk pictures, in levels of 255. One and a
    half is rounding and JPEG at quality 95; what is wrong in polarity, depth, colour or place is beyond 10.
    """

    sizes: tuple[tuple[int, int], ...]
    within: float = 1.5
    flat: bool = False  # looks the same from all sides: it cannot be told whether it lies right


def one(width: int, height: int, **said: object) -> Expected:
    return Expected(sizes=((width, height),), **said)


# CMYK without a profile has no right answer: Pillow's plain formula is brighter than any press. That the
# colours are not far off, and not inverted, is looked at apart.
BY_FORMULA = 42.0
OF_COPIES = 2.5  # quality 85, and another way of shrinking

EXPECTED = {
    "tiff/16bit.MM.cropped.tif": one(64, 64),
    "tiff/16bit.cropped.tif": one(64, 64),
    "tiff/cmyk-3c-16b.tiff": one(157, 151, within=BY_FORMULA),
    "tiff/cmyk-3c-8b.tiff": one(157, 151, within=BY_FORMULA),
    "tiff/fax4.tiff": one(1080, 671),
    "tiff/g4-multi.tiff": Expected(sizes=((3307, 4677),) * 3, flat=True),
    "tiff/g4_orientation_3.tif": one(590, 88),
    "tiff/hopper.Lab.tif": one(128, 128),
    "tiff/hopper.iccprofile.tif": one(128, 128),
    "tiff/hopper_bigtiff.tif": one(128, 128),
    "tiff/hopper_lzw.tif": one(128, 128),
    "tiff/miniswhite-1c-1b.tiff": one(157, 151),
    "tiff/multipage.tiff": Expected(sizes=((10, 10), (10, 10), (20, 20)), flat=True),
    "tiff/old-style-jpeg-compression.tif": one(4160, 870),
    "tiff/pport_g4.tif": one(2548, 3296),
    "tiff/pyramid_webp.tif": one(1024, 2048),
    "tiff/quad-tile.jpg.tiff": one(512, 384),
    "tiff/rgb-3c-16b.tiff": one(157, 151),
    "tiff/tiff_tiled_planar_lzw.tiff": one(278, 374),
    "image/Landscape_1.jpg": one(1800, 1200),
    "image/Landscape_3.jpg": one(1800, 1200),
    "image/Landscape_6.jpg": one(1800, 1200),
    "image/Landscape_8.jpg": one(1800, 1200),
    "image/exif.png": one(512, 512),
    "image/invalid-exif.jpg": one(200, 200),
    "image/pil_sample_cmyk.jpg": one(100, 100, within=BY_FORMULA),
    "image/phototest-rotated-R.png": one(480, 640),
    "letters 1884/fax #4, 100%.tif": one(1080, 671),
    "letters 1884/three pages.tiff": Expected(sizes=((3307, 4677),) * 3, flat=True),
    "letters 1884/typed page.tif": one(640, 480),
    "photos/bunch of “flowers” 🌷.png": one(512, 512),
    "photos/portrait-icc.tif": one(128, 128),
    "photos/portrait.tif": one(128, 128),
    "photos/print-cmyk.jpg": one(100, 100, within=BY_FORMULA),
    "photos/sixteen-bit.tiff": one(157, 151),
    "photos/turned.jpg": one(1800, 1200),
}

REFUSED = {
    "tiff/crash-86214e58da443d2b80820cff9677a38a33dcbbca.tif": {"truncated", "corrupt"},
    "tiff/libtiff_segfault.tif": {"corrupt", "unsupported_format"},
    "tiff/bomb_g4_60000x60000.tif": {"too_many_pixels"},
    "image/truncated.jpg": {"truncated"},
    "image/bomb_50000x50000.png": {"too_many_pixels"},
    "image/decompression_bomb.gif": {"unsupported_format"},
    "broken/half a photo.jpg": {"truncated"},
    "broken/bomb.tif": {"too_many_pixels"},
    "broken/empty.png": {"empty_file"},
    "broken/corrupt.tif": {"corrupt", "unsupported_format"},
    "broken/letter.tif": {"not_an_image"},
}


def all_pictures(corpus: Path) -> dict[str, Path]:
    return {
        path.relative_to(root).as_posix(): path
        for root in (corpus, SAMPLES)
        for path in sorted(root.rglob("*"))
        if path.suffix.lower() in ENDINGS and path.parent != root / "scan"  # those are for reading
    }


def tiled(opened: Image.Image, path: Path) -> Image.Image:
    """Each WebP tile by itself, since Pillow's TIFF reader knows no WebP."""
    whole, data = Image.new("RGBA", opened.size), path.read_bytes()
    side, offsets, counts = opened.tag_v2[322], opened.tag_v2[324], opened.tag_v2[325]
    across = -(-opened.width // side)
    for number, (offset, count) in enumerate(zip(offsets, counts, strict=True)):
        with Image.open(BytesIO(data[offset : offset + count])) as tile:
            whole.paste(tile.convert("RGBA"), (number % across * side, number // across * side))
    return whole


def reference(path: Path, index: int = 0) -> Image.Image:
    """RGB, upright, on white; independent of the decoder and of all rules of the product."""
    with Image.open(path) as opened:
        opened.seek(index)
        if opened.info.get("compression") == "webp":
            clear = tiled(opened, path)
            return Image.alpha_composite(Image.new("RGBA", clear.size, WHITE), clear).convert("RGB")
        opened.load()
        picture = ImageOps.exif_transpose(opened)
        profile = opened.info.get("icc_profile")
        if picture.mode.startswith("I"):
            return picture.convert("I").point(lambda level: level * (1 / 256)).convert("L").convert("RGB")
        if picture.has_transparency_data:
            clear = picture.convert("RGBA")
            return Image.alpha_composite(Image.new("RGBA", clear.size, WHITE), clear).convert("RGB")
        srgb = ImageCms.createProfile("sRGB")
        if picture.mode == "LAB":
            lab = ImageCms.createProfile("LAB")
            return ImageCms.profileToProfile(picture, lab, srgb, outputMode="RGB")
        if profile and picture.mode in {"RGB", "CMYK"}:
            # Relative to the paper's white, as the product does it: paper is white on a screen.
            paper = ImageCms.Intent.RELATIVE_COLORIMETRIC
            return ImageCms.profileToProfile(picture, BytesIO(profile), srgb, paper, "RGB")
        return picture.convert("RGB")


def shrunk(picture: Image.Image) -> Image.Image:
    return picture.convert("RGB").resize((GRID, GRID), Image.Resampling.BOX)


def apart(one_picture: Image.Image, other: Image.Image) -> float:
    bands = ImageStat.Stat(ImageChops.difference(shrunk(one_picture), shrunk(other))).mean
    return sum(bands) / len(bands)


def check(made: Path, wanted: Image.Image, expected: Expected) -> None:
    with Image.open(made) as picture:
        picture.load()
        assert picture.mode in {"L", "RGB"}
        distance = apart(picture, wanted)
        assert distance <= expected.within
        assert apart(picture, ImageOps.invert(wanted)) > distance or expected.flat
        if not expected.flat:
            turned = [
                apart(picture, wanted.transpose(way))
                for way in (Transpose.FLIP_LEFT_RIGHT, Transpose.FLIP_TOP_BOTTOM, Transpose.ROTATE_180)
            ]
            assert distance < min(turned), "it lies the wrong way"


def test_every_picture_is_in_one_of_the_tables(corpus):
    assert set(all_pictures(corpus)) == EXPECTED.keys() | REFUSED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_picture_converted_is_the_picture(name, corpus, run_step):
    source, expected = all_pictures(corpus)[name], EXPECTED[name]
    made = run_step("tiff_to_jpeg", source).files
    assert len(made) == len(expected.sizes)
    for index, (page, size) in enumerate(zip(made, expected.sizes, strict=True)):
        wanted = reference(source, index)
        with Image.open(page.path) as picture:
            assert picture.size == wanted.size == size
        check(page.path, wanted, expected)


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.endswith((".jpg", ".png"))])
def test_smaller_copies_are_the_picture(name, corpus, run_step):
    source, expected = all_pictures(corpus)[name], EXPECTED[name]
    wanted = reference(source)
    for one_made in run_step("image_variants", source).files:
        if one_made.role == "ref":
            continue
        with Image.open(one_made.path) as picture:
            size, longest = picture.size, max(wanted.size)
        assert size == tuple(pytest.approx(side * max(size) / longest, abs=1) for side in wanted.size)
        small = wanted.resize(size, Image.Resampling.LANCZOS)
        check(one_made.path, small, structs.replace(expected, within=max(expected.within, OF_COPIES)))


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_shown_whole_is_refused(name, corpus, run_step):
    source = all_pictures(corpus)[name]
    step = "tiff_to_jpeg" if source.suffix.startswith(".tif") else "image_variants"
    with pytest.raises(Reject) as refusal:
        run_step(step, source)
    assert refusal.value.code in REFUSED[name]


@pytest.mark.parametrize("name", ["tiff/cmyk-3c-8b.tiff", "tiff/cmyk-3c-16b.tiff"])
def test_printing_colours_without_a_profile_are_near_those_of_the_same_photograph(name, corpus, run_step):
    (made,) = run_step("tiff_to_jpeg", corpus / name).files
    rgb = reference(corpus / "tiff/rgb-3c-16b.tiff")
    with Image.open(made.path) as picture:
        assert apart(picture, rgb) < 30
        assert apart(picture, ImageOps.invert(rgb)) > 60


QUARTERS = ((220, 30, 30), (30, 200, 40), (40, 50, 220), (240, 230, 60))  # from the top left, row by row


def quartered(mode: str = "RGB", size: tuple[int, int] = (480, 320)) -> Image.Image:
    picture = Image.new("RGB", size)
    width, height = size[0] // 2, size[1] // 2
    for number, colour in enumerate(QUARTERS):
        box = (number % 2 * width, number // 2 * height)
        picture.paste(colour, (*box, box[0] + width, box[1] + height))
    return picture.convert(mode)


def corners(path: Path) -> list[tuple[int, ...]]:
    with Image.open(path) as picture:
        width, height = picture.size
        rgb = picture.convert("RGB")
        places = [(x, y) for y in (height // 8, height * 7 // 8) for x in (width // 8, width * 7 // 8)]
        return [rgb.getpixel(place) for place in places]


def near(found, wanted, within=6) -> bool:
    return all(
        abs(level - other) <= within
        for one_colour, another in zip(found, wanted, strict=True)
        for level, other in zip(one_colour, another, strict=True)
    )


# What must be done to the upright picture so that the tag makes it upright again.
UNDONE = {
    1: None,
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_90,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_270,
}


@pytest.mark.parametrize("orientation", UNDONE)
@pytest.mark.parametrize(("kind", "step"), [("TIFF", "tiff_to_jpeg"), ("JPEG", "image_variants")])
def test_each_of_the_eight_orientations_comes_out_upright(kind, step, orientation, run_step, tmp_path):
    way = UNDONE[orientation]
    stored = quartered() if way is None else quartered().transpose(way)
    exif = Image.Exif()
    exif[0x0112] = orientation
    source = tmp_path / "turned.bin"
    stored.save(source, kind, exif=exif, **({"quality": 95} if kind == "JPEG" else {}))
    made = run_step(step, source).files[0]
    with Image.open(made.path) as picture:
        assert picture.width > picture.height
    assert near(corners(made.path), QUARTERS)


@pytest.mark.parametrize("ending", ["png", "webp", "tif"])
def test_transparency_lies_on_white_and_what_is_opaque_stays(ending, run_step, tmp_path):
    picture = quartered("RGBA")
    alpha = Image.new("L", picture.size, 255)
    alpha.paste(0, (0, 0, 240, 160))
    alpha.paste(128, (240, 0, 480, 160))
    picture.putalpha(alpha)
    picture.save(
        tmp_path / f"clear.{ending}", **({"lossless": True, "exact": True} if ending == "webp" else {})
    )
    step = "tiff_to_jpeg" if ending == "tif" else "image_variants"
    made = run_step(step, tmp_path / f"clear.{ending}").files[0]
    half = tuple(round((level * 128 + 255 * 127) / 255) for level in QUARTERS[1])
    assert near(corners(made.path), (WHITE, half, QUARTERS[2], QUARTERS[3]))


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_a_palette_gives_its_colours(ending, run_step, tmp_path):
    quartered().quantize(8).save(tmp_path / f"few.{ending}")
    step = "tiff_to_jpeg" if ending == "tif" else "image_variants"
    made = run_step(step, tmp_path / f"few.{ending}").files[0]
    assert near(corners(made.path), QUARTERS)


def test_a_palette_with_a_clear_colour_lies_on_white(run_step, tmp_path):
    few = quartered().quantize(8)
    few.save(tmp_path / "few.png", transparency=few.getpixel((10, 10)))
    made = run_step("image_variants", tmp_path / "few.png").files[0]
    assert near(corners(made.path), (WHITE, *QUARTERS[1:]))


@pytest.mark.parametrize("photometric", [0, 1], ids=["zero is white", "zero is black"])
def test_one_bit_has_the_right_polarity(photometric, run_step, write_tiff, tmp_path):
    """The left half has all bits set."""
    tags = {256: 16, 257: 8, 258: 1, 259: 1, 262: photometric, 277: 1, 278: 8}
    source = write_tiff(tmp_path / "bits.tif", (tags, [b"\xff\x00" * 8]))
    (made,) = run_step("tiff_to_jpeg", source).files
    left, right = (0, 255) if photometric == 0 else (255, 0)
    assert near(corners(made.path), ((left,) * 3, (right,) * 3) * 2, within=12)


@pytest.mark.parametrize("order", ["little", "big"])
def test_sixteen_bit_grey_is_shifted_and_not_clipped(order, run_step, tmp_path):
    levels = (0, 40, 128, 250)
    rows = b"".join(
        b"".join((levels[row // 32 * 2 + column // 32] * 257).to_bytes(2, order) for column in range(64))
        for row in range(64)
    )
    Image.frombytes("I;16B" if order == "big" else "I;16", (64, 64), rows).save(tmp_path / "deep.tif")
    (made,) = run_step("tiff_to_jpeg", tmp_path / "deep.tif").files
    assert near(corners(made.path), [(level,) * 3 for level in levels], within=2)


def test_twelve_bit_grey_is_read_by_the_second_decoder(run_step, write_tiff, tmp_path):
    tags = {256: 16, 257: 8, 258: 12, 259: 1, 262: 1, 277: 1, 278: 8}
    level = 0x9A0  # two samples in three bytes
    source = write_tiff(tmp_path / "twelve.tif", (tags, [(level << 12 | level).to_bytes(3, "big") * 64]))
    (made,) = run_step("tiff_to_jpeg", source).files
    assert near(corners(made.path), [(0x9A,) * 3] * 4, within=2)


def test_printing_colours_with_a_profile_follow_it(run_step, tmp_path):
    """The profile of libvips for the way there, LittleCMS by itself for the reference."""
    import pyvips

    quartered().save(tmp_path / "rgb.png")
    rgb = pyvips.Image.new_from_memory(quartered().tobytes(), 480, 320, 3, "uchar").copy(
        interpretation="srgb"
    )
    printed = rgb.icc_transform("cmyk", input_profile="srgb")
    printed.tiffsave(str(tmp_path / "print.tif"))
    printed.jpegsave(str(tmp_path / "print.jpg"), Q=98)
    for name, step in (("print.tif", "tiff_to_jpeg"), ("print.jpg", "image_variants")):
        made = run_step(step, tmp_path / name).files[0]
        check(made.path, reference(tmp_path / name), one(480, 320, within=3.0))
        with Image.open(tmp_path / name) as stored:
            assert stored.mode == "CMYK"
            assert apart(stored.convert("RGB"), reference(tmp_path / name)) > 10  # the formula would be seen


def test_light_as_numbers_that_pillow_does_not_read_has_the_values_worked_out_by_hand(run_step, tmp_path):
    """Linear light of a half is level 188 of sRGB; L* of a half without colour is level 119."""
    import pyvips

    half = (pyvips.Image.black(64, 64, bands=3) + 0.5).cast("float").copy(interpretation="scrgb")
    half.tiffsave(str(tmp_path / "float.tif"))
    lab = pyvips.Image.black(64, 64, bands=3).linear(1, [50, 0, 0]).cast("float").copy(interpretation="lab")
    lab.tiffsave(str(tmp_path / "lab.tif"))
    for name, level in (("float.tif", 188), ("lab.tif", 119)):
        (made,) = run_step("tiff_to_jpeg", tmp_path / name).files
        assert near(corners(made.path), [(level,) * 3] * 4, within=2), name
