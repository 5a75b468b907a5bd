"""Damaged, cut-off, oversized and foreign files: refused with the right word, and never half a picture."""

import errno
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image, ImageFile

from quire.model.errors import Reject
from quire.tools import pillow, refusals, vips

CUT_TIFFS = [
    "hopper_lzw.tif",
    "hopper_bigtiff.tif",
    "16bit.cropped.tif",
    "old-style-jpeg-compression.tif",
    "quad-tile.jpg.tiff",
    "pyramid_webp.tif",
    "tiff_tiled_planar_lzw.tiff",
    "hopper.Lab.tif",
    "pport_g4.tif",
    "g4-multi.tiff",
]


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("name", CUT_TIFFS)
def test_a_cut_off_tiff_is_refused_whichever_decoder_would_have_read_it(
    name, share, corpus, run_step, tmp_path
):
    """Of the ten, libvips shows the WebP one with black tiles and Pillow the old-style JPEG half grey."""
    whole = (corpus / "tiff" / name).read_bytes()
    (tmp_path / "cut.tif").write_bytes(whole[: max(5, int(len(whole) * share))])

    with pytest.raises(Reject) as refusal:
        run_step("tiff_to_jpeg", tmp_path / "cut.tif")

    assert refusal.value.code == "truncated"


@pytest.mark.parametrize(
    ("ending", "side"),
    [("jpg", 150), ("jpg", 900), ("jpg", 3000), ("png", 150), ("png", 900), ("webp", 150), ("webp", 900)],
)
def test_a_cut_off_web_picture_is_refused_at_every_size(ending, side, run_step, tmp_path):
    """Also when it is too small for any copy, and when it is shrunk while loading."""
    noise = Image.effect_noise((side, side), 80).convert("RGB")
    noise.save(tmp_path / f"whole.{ending}")
    whole = (tmp_path / f"whole.{ending}").read_bytes()
    (tmp_path / f"cut.{ending}").write_bytes(whole[: len(whole) // 2])

    run_step("image_variants", tmp_path / f"whole.{ending}")
    with pytest.raises(Reject) as refusal:
        run_step("image_variants", tmp_path / f"cut.{ending}")

    assert refusal.value.code in {"truncated", "corrupt"}


def test_pillow_stays_strict():
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


def test_damage_is_never_given_to_the_second_decoder(corpus, run_step, monkeypatch):
    monkeypatch.setattr(pillow, "decode", lambda *_: pytest.fail("asked about a damaged file"))

    with pytest.raises(Reject) as refusal:
        run_step("image_variants", corpus / "image" / "truncated.jpg")
    assert refusal.value.code == "truncated"


@pytest.fixture
def nothing_is_decoded(monkeypatch):
    """Fails when anything but a header is read: every way to pixels is closed."""
    for function in ("decoded", "thumbnail", "verify", "save_jpeg", "smaller"):
        monkeypatch.setattr(vips, function, lambda *_, **__: pytest.fail("pixels were asked for"))
    monkeypatch.setattr(pillow, "decode", lambda *_: pytest.fail("the second decoder was asked"))


@pytest.mark.usefixtures("nothing_is_decoded")
@pytest.mark.parametrize(
    ("step", "name"),
    [("tiff_to_jpeg", "tiff/bomb_g4_60000x60000.tif"), ("image_variants", "image/bomb_50000x50000.png")],
)
def test_a_bomb_is_refused_by_its_header_alone(step, name, corpus, run_step):
    with pytest.raises(Reject, match="megapixels, the limit is 500") as refusal:
        run_step(step, corpus / name)

    assert refusal.value.code == "too_many_pixels"


def test_a_bomb_without_any_pixels_is_refused_for_its_size(write_tiff, rgb_tags, run_step, tmp_path):
    """There is nothing to decode in it, so the answer can only come from the header."""
    source = write_tiff(tmp_path / "bomb.tif", ({**rgb_tags, 256: 60000, 257: 60000, 278: 60000}, [b""]))

    with pytest.raises(Reject) as refusal:
        run_step("tiff_to_jpeg", source)

    assert refusal.value.code == "too_many_pixels"


def test_a_bomb_is_refused_although_its_pixels_are_missing(corpus, run_step, tmp_path):
    """The head of the PNG alone: whoever decoded would call it cut off."""
    whole = (corpus / "image" / "bomb_50000x50000.png").read_bytes()
    (tmp_path / "bomb.png").write_bytes(whole[: whole.index(b"IDAT") + 8])

    with pytest.raises(Reject) as refusal:
        run_step("image_variants", tmp_path / "bomb.png")

    assert refusal.value.code == "too_many_pixels"


@pytest.mark.usefixtures("nothing_is_decoded")
def test_pages_count_together(write_tiff, rgb_tags, run_step, tmp_path):
    source = write_tiff(tmp_path / "pages.tif", *[(rgb_tags, [bytes(384)])] * 5)

    with pytest.raises(Reject, match=r"5 pages together.*max_megapixels") as refusal:
        run_step("tiff_to_jpeg", source, max_total_pixels=600)

    assert refusal.value.code == "too_many_pixels"


@pytest.mark.usefixtures("nothing_is_decoded")
@pytest.mark.parametrize("step", ["tiff_to_jpeg", "image_variants"])
def test_the_pixel_limit_is_an_option(step, corpus, run_step):
    with pytest.raises(Reject, match="max_megapixels"):
        run_step(step, corpus / "image" / "Landscape_1.jpg", max_pixels=2_000_000)


def test_the_second_decoder_has_the_same_limit(corpus):
    source = corpus / "tiff" / "old-style-jpeg-compression.tif"

    with pytest.raises(Reject) as refusal:
        pillow.decode(source, "image/tiff", None, refusals.PixelLimits(max_pixels=1_000_000))
    assert refusal.value.code == "too_many_pixels"


def test_a_picture_wider_than_jpeg_allows_is_refused(run_step, write_tiff, rgb_tags, tmp_path):
    tags = {**rgb_tags, 256: 66_000, 257: 1, 278: 1}
    source = write_tiff(tmp_path / "wide.tif", (tags, [bytes(66_000 * 3)]))

    with pytest.raises(Reject, match="do not fit in a JPEG") as refusal:
        run_step("tiff_to_jpeg", source)
    assert refusal.value.code == "too_many_pixels"


FOREIGN = [
    (b"Dear reader,\nthis is a letter.\n", "not_an_image", "not a TIFF: it looks like plain text"),
    (b"%PDF-1.7\n...", "not_an_image", "not a TIFF: it looks like a PDF"),
    (b'{"url": "https://example.org"}', "not_an_image", "not a TIFF: it looks like JSON text"),
    (bytes(700), "not_an_image", "not a TIFF: it looks like nothing but zero bytes"),
    (b"\x01\x02\x03\x04" * 9, "not_an_image", "not a TIFF: it looks like data of an unknown kind"),
    (b"GIF89a" + bytes(40), "unsupported_format", "not a TIFF: it is a GIF picture"),
    (b"", "empty_file", "the file is empty"),
]


@pytest.mark.parametrize(("content", "code", "message"), FOREIGN)
def test_a_foreign_file_under_a_tiff_name_is_named_for_what_it_is(content, code, message, run_step, tmp_path):
    (tmp_path / "scan.tif").write_bytes(content)

    with pytest.raises(Reject) as refusal:
        run_step("tiff_to_jpeg", tmp_path / "scan.tif")

    assert refusal.value.code == code
    assert str(refusal.value).startswith(message)
    assert str(refusal.value).count(". ") >= 1  # and then what to do


@pytest.mark.parametrize("scheme", [9, 34712, 34892, 52546, 60000])
def test_a_compression_that_nobody_reads_is_not_called_damage(
    scheme, write_tiff, rgb_tags, run_step, tmp_path
):
    """Sending it again would not help: it must be converted."""
    source = write_tiff(tmp_path / "odd.tif", ({**rgb_tags, 259: scheme}, [bytes(384)]))

    with pytest.raises(Reject, match="Convert it") as refusal:
        run_step("tiff_to_jpeg", source)
    assert refusal.value.code == "unsupported_format"


def test_circular_directories_are_refused(write_tiff, rgb_tags, run_step, tmp_path):
    source = write_tiff(tmp_path / "loop.tif", (rgb_tags, [bytes(384)]))
    content = bytearray(source.read_bytes())
    content[-4:] = content[4:8]  # the next directory is the first one
    source.write_bytes(content)

    with pytest.raises(Reject, match="leads back") as refusal:
        run_step("tiff_to_jpeg", source)
    assert refusal.value.code == "corrupt"


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bytes_never_raise_anything_but_a_refusal(seed, corpus, run_step, tmp_path):
    import random

    chance = random.Random(seed)
    name = chance.choice(["hopper_lzw.tif", "multipage.tiff", "hopper.Lab.tif", "hopper.iccprofile.tif"])
    content = bytearray((corpus / "tiff" / name).read_bytes())
    for _ in range(chance.randint(1, 30)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    (tmp_path / "odd.tif").write_bytes(content)

    with suppress(Reject):
        run_step("tiff_to_jpeg", tmp_path / "odd.tif", max_pixels=10_000_000)


def test_running_out_of_memory_is_not_the_pictures_fault(corpus, run_step, monkeypatch):
    def exhausted(*_):
        raise MemoryError

    monkeypatch.setattr(vips, "save_jpeg", exhausted)
    with pytest.raises(MemoryError):
        run_step("tiff_to_jpeg", corpus / "tiff" / "hopper_lzw.tif")


def test_a_full_disk_is_not_the_pictures_fault(corpus):
    with (
        pytest.raises(OSError, match="No space left"),
        vips.decoded(corpus / "image" / "exif.png", "image/png") as picture,
    ):
        vips.save_jpeg(picture, Path("/dev/full"), 85)
    with pytest.raises(OSError, match=r".*") as missing:
        pillow.decode(corpus / "absent.tif", "image/tiff", None, refusals.PixelLimits())
    assert missing.value.errno == errno.ENOENT
