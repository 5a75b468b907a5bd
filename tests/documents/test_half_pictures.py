"""Half pictures: damage that decoders show as grey or smeared areas without failing. Each is refused, in
every step that decodes, whatever the size of what is made.
"""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pikepdf
import pytest
import pyvips
from PIL import Image

from quire.model.errors import Reject

WAYS: list[tuple[str, dict[str, int]]] = [
    ("image_variants", {}),  # shrunk while it is read
    ("image_variants", {"tile_size": 128, "tiles_above": 300}),
    ("tiff_to_jpeg", {}),  # in its full size
]
HALF = {"truncated", "corrupt"}


def saved(corpus: Path, **options: object) -> bytes:
    out = BytesIO()
    with Image.open(corpus / "image" / "Landscape_1.jpg") as picture:
        picture.resize((900, 600)).save(out, "JPEG", quality=85, **options)
    return out.getvalue()


def rows_of(jpeg: bytes) -> int:
    """Where the coded rows begin."""
    at = jpeg.index(b"\xff\xda")
    return at + 2 + int.from_bytes(jpeg[at + 2 : at + 4])


def half_with_an_end(jpeg: bytes) -> bytes:
    return jpeg[: len(jpeg) // 2] + b"\xff\xd9"


def times_as_high(jpeg: bytes, factor: float) -> bytes:
    at = next(at for at in (jpeg.find(b"\xff\xc0"), jpeg.find(b"\xff\xc2")) if at > 0) + 5
    height = int(int.from_bytes(jpeg[at : at + 2]) * factor)
    return jpeg[:at] + height.to_bytes(2) + jpeg[at + 2 :]


def zeroed(content: bytes, at: int = 0, length: int = 2000) -> bytes:
    at = at or len(content) // 2
    return content[:at] + bytes(length) + content[at + length :]


def without_a_restart(jpeg: bytes) -> bytes:
    at = jpeg.index(b"\xff\xd3", rows_of(jpeg))
    return jpeg[:at] + jpeg[at + 2 :]


def without_a_part(jpeg: bytes) -> bytes:
    at = jpeg.index(b"\xff\xd3", rows_of(jpeg))
    return jpeg[:at] + jpeg[jpeg.index(b"\xff\xd4", at) :]


def without_an_end(jpeg: bytes) -> bytes:
    return jpeg[:-2]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "half with an end": half_with_an_end,
    "twice as high": lambda jpeg: times_as_high(jpeg, 2),
    "ten times as high": lambda jpeg: times_as_high(jpeg, 10),
    "half as high": lambda jpeg: times_as_high(jpeg, 0.5),
    "zeroed": zeroed,
    "zeroed at its end": lambda jpeg: zeroed(jpeg, len(jpeg) - 2100),
    "without an end": without_an_end,
    "another marker for its end": lambda jpeg: without_an_end(jpeg) + b"\xff\xfb",
}


@pytest.mark.parametrize(("step", "options"), WAYS, ids=["copies", "tiles", "full size"])
@pytest.mark.parametrize("kind", ["baseline", "progressive", "restarts"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_jpeg_is_refused_and_the_sound_one_is_not(
    damage, kind, step, options, corpus, run_step, tmp_path
):
    more = {"baseline": {}, "progressive": {"progressive": True}, "restarts": {"restart_marker_rows": 1}}
    whole = saved(corpus, **more[kind])
    (tmp_path / "whole.jpg").write_bytes(whole)
    (tmp_path / "half.jpg").write_bytes(DAMAGES[damage](whole))

    assert run_step(step, tmp_path / "whole.jpg", **options).files
    with pytest.raises(Reject) as refusal:
        run_step(step, tmp_path / "half.jpg", **options)
    assert refusal.value.code in HALF


@pytest.mark.parametrize(("step", "options"), WAYS, ids=["copies", "tiles", "full size"])
@pytest.mark.parametrize("damage", [without_a_restart, without_a_part])
def test_a_lost_restart_is_damage(damage, step, options, corpus, run_step, tmp_path):
    (tmp_path / "lost.jpg").write_bytes(damage(saved(corpus, restart_marker_rows=1)))

    with pytest.raises(Reject) as refusal:
        run_step(step, tmp_path / "lost.jpg", **options)
    assert refusal.value.code == "corrupt"


def test_a_picture_too_small_for_any_copy_is_looked_through_as_well(corpus, run_step, tmp_path):
    out = BytesIO()
    with Image.open(corpus / "image" / "Landscape_1.jpg") as picture:
        picture.resize((180, 120)).save(out, "JPEG", quality=90)
    (tmp_path / "small.jpg").write_bytes(half_with_an_end(out.getvalue()))

    with pytest.raises(Reject) as refusal:
        run_step("image_variants", tmp_path / "small.jpg")
    assert refusal.value.code == "truncated"


def test_a_turned_jpeg_is_judged_as_well(corpus, run_step, tmp_path):
    """It is decoded whole, in two passes."""
    whole = (corpus / "image" / "Landscape_6.jpg").read_bytes()
    (tmp_path / "half.jpg").write_bytes(times_as_high(whole, 0.5))

    for step, options in WAYS:
        with pytest.raises(Reject) as refusal:
            run_step(step, tmp_path / "half.jpg", **options)
        assert refusal.value.code == "corrupt"


SCHEMES = {
    "jpeg strips": {"compression": "jpeg", "Q": 85},
    "jpeg tiles": {"compression": "jpeg", "Q": 85, "tile": True},
    "webp tiles": {"compression": "webp", "Q": 85, "tile": True},
    "deflate strips": {"compression": "deflate"},
    "deflate tiles": {"compression": "deflate", "tile": True},
    "lzw": {"compression": "lzw"},
    "packbits": {"compression": "packbits"},
    "fax": {"compression": "ccittfax4", "bitdepth": 1},
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_zeroed_run_within_a_tiff_is_refused(scheme, corpus, run_step, tmp_path):
    picture = pyvips.Image.new_from_file(str(corpus / "image" / "Landscape_1.jpg")).resize(0.5)
    if scheme == "fax":
        picture = picture.colourspace("b-w")
    picture.tiffsave(str(tmp_path / "whole.tif"), **SCHEMES[scheme])
    whole = (tmp_path / "whole.tif").read_bytes()
    (tmp_path / "half.tif").write_bytes(zeroed(whole))

    assert run_step("tiff_to_jpeg", tmp_path / "whole.tif").files
    with pytest.raises(Reject) as refusal:
        run_step("tiff_to_jpeg", tmp_path / "half.tif")
    assert refusal.value.code in HALF


@pytest.mark.parametrize("side", [150, 900])
@pytest.mark.parametrize("last", [b"IDAT", b"IEND"])
def test_a_png_whose_checksums_are_wrong_or_missing_is_refused(last, side, run_step, tmp_path):
    """Its decoder stops at the last row, before the last checksum."""
    out = BytesIO()
    Image.effect_noise((side, side), 80).save(out, "PNG")
    whole = bytearray(out.getvalue())
    if last == b"IDAT":
        whole[whole.rindex(b"IEND") - 5] ^= 1  # the checksum of the last pixels
    else:
        del whole[whole.rindex(b"IEND") :]
    (tmp_path / "odd.png").write_bytes(whole)

    with pytest.raises(Reject) as refusal:
        run_step("image_variants", tmp_path / "odd.png")
    assert refusal.value.code == ("corrupt" if last == b"IDAT" else "truncated")


def write_scan(path: Path, jpeg: bytes, content: bytes = b"q 200 0 0 100 0 0 cm /I Do Q") -> Path:
    pdf = pikepdf.new()
    page = pdf.add_blank_page(page_size=(200, 100))
    picture = pikepdf.Stream(pdf, jpeg)
    picture.Type, picture.Subtype = pikepdf.Name.XObject, pikepdf.Name.Image
    picture.Width, picture.Height = 900, 600
    picture.ColorSpace, picture.BitsPerComponent = pikepdf.Name.DeviceRGB, 8
    picture.Filter = pikepdf.Name.DCTDecode
    page.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(I=pdf.make_indirect(picture)))
    page.Contents = pdf.make_stream(content)
    pdf.save(path, compress_streams=True)
    return path


@pytest.mark.parametrize("damage", [half_with_an_end, zeroed, lambda jpeg: jpeg[: len(jpeg) // 2]])
def test_a_half_picture_on_a_page_of_a_pdf_is_refused(damage, corpus, run_step, tmp_path):
    jpeg = saved(corpus)
    whole = write_scan(tmp_path / "whole.pdf", jpeg)
    half = write_scan(tmp_path / "half.pdf", damage(jpeg))

    assert len(run_step("pdf_split", whole, pages="images").files) == 1
    with pytest.raises(Reject, match="page 1: a picture is damaged") as refusal:
        run_step("pdf_split", half, pages="images")
    assert refusal.value.code == "corrupt"


def test_a_picture_in_a_pdf_without_its_end_marker_is_whole(corpus, run_step, tmp_path):
    """Some writers leave it out, and every row is there."""
    source = write_scan(tmp_path / "scan.pdf", without_an_end(saved(corpus)))

    assert len(run_step("pdf_split", source, pages="images").files) == 1


def test_half_a_drawing_on_a_page_of_a_pdf_is_refused(corpus, run_step, tmp_path):
    lines = b"\n".join(b"%d %d m %d %d l S" % (one, one % 7, one % 11, one) for one in range(2000))
    source = write_scan(tmp_path / "lines.pdf", saved(corpus), lines)
    content = source.read_bytes()
    at = next(
        at
        for at in range(len(content))
        if content.startswith(b"stream\n", at) and content[at + 7] == 0x78  # as zlib begins
    )
    source.write_bytes(content[: at + 200] + bytes(100) + content[at + 300 :])

    with pytest.raises(Reject, match="page 1: its content is damaged") as refusal:
        run_step("pdf_split", source, pages="images")
    assert refusal.value.code == "corrupt"


def test_a_wrong_byte_among_the_packed_objects_of_a_pdf_is_damage(corpus, run_step, tmp_path):
    """The page would come out without its picture, or with another one."""
    source = write_scan(tmp_path / "scan.pdf", saved(corpus))
    with pikepdf.open(source) as pdf:
        pdf.save(tmp_path / "packed.pdf", object_stream_mode=pikepdf.ObjectStreamMode.generate)
    whole = (tmp_path / "packed.pdf").read_bytes()
    first = whole.index(b"stream", whole.index(b"/ObjStm")) + 7
    last = whole.index(b"endstream", first)
    assert len(run_step("pdf_split", tmp_path / "packed.pdf", pages="both").files) == 2

    for at in range(first + 10, last - 10, 7):
        source.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        for step, options in {"pdf_split": {"pages": "pdfs"}, "pdf_markdown": {}}.items():
            with pytest.raises(Reject) as refusal:
                run_step(step, source, **options)
            assert refusal.value.code in HALF | {"no_pages"}


@pytest.mark.parametrize("word", [b"/ColorSpace", b"/Filter /DCTDecode", b"/Height", b"/Width"])
def test_a_picture_in_a_pdf_that_does_not_say_what_it_is_is_damaged(word, corpus, run_step, tmp_path):
    """The renderer would leave it out."""
    source = write_scan(tmp_path / "scan.pdf", saved(corpus))
    whole = source.read_bytes()
    assert whole.count(word) == 1
    source.write_bytes(whole.replace(word, b"/\x01" + word[2:]))

    with pytest.raises(Reject, match="page 1: a picture is damaged") as refusal:
        run_step("pdf_split", source, pages="images")
    assert refusal.value.code == "corrupt"


def test_a_stream_of_a_pdf_whose_dictionary_cannot_be_read_is_damaged(corpus, run_step, tmp_path):
    """Bytes that are gone can make a picture the content of its page, which would be blank."""
    source = write_scan(tmp_path / "scan.pdf", saved(corpus))
    whole = source.read_bytes()
    assert whole.count(b"/BitsPerComponent") == 1
    source.write_bytes(whole.replace(b"/BitsPerComponent", b"\0\0\0\0\0\0\0\0component"))

    with pytest.raises(Reject, match="page 1: a picture is damaged") as refusal:
        run_step("pdf_split", source, pages="images")
    assert refusal.value.code == "corrupt"


def test_a_picture_in_a_pdf_that_begins_as_no_jpeg_does_is_damaged(corpus, run_step, tmp_path):
    """The renderer looks further for the next marker, other readers show nothing."""
    jpeg = saved(corpus)
    source = write_scan(tmp_path / "scan.pdf", jpeg[:2] + b"\x7f" + jpeg[3:])

    with pytest.raises(Reject, match="page 1: a picture is damaged") as refusal:
        run_step("pdf_split", source, pages="images")
    assert refusal.value.code == "corrupt"


def test_a_webp_tile_of_a_tiff_that_claims_more_bytes_is_damaged(corpus, run_step, tmp_path):
    picture = pyvips.Image.new_from_file(str(corpus / "image" / "Landscape_1.jpg"))
    whole = picture.tiffsave_buffer(compression="webp", tile=True)
    at = whole.index(b"RIFF", whole.index(b"RIFF") + 4) + 5  # of the second tile
    source = tmp_path / "scan.tif"
    source.write_bytes(whole)
    assert run_step("tiff_to_jpeg", source).files

    source.write_bytes(whole[:at] + bytes([whole[at] + 1]) + whole[at + 1 :])
    with pytest.raises(Reject, match="tile 2 is not a whole WebP") as refusal:
        run_step("tiff_to_jpeg", source)
    assert refusal.value.code == "corrupt"


@pytest.mark.parametrize("tiled", [False, True])
def test_a_tiff_that_claims_half_its_height_has_parts_left_over(tiled, corpus, run_step, tmp_path):
    picture = pyvips.Image.new_from_file(str(corpus / "image" / "Landscape_1.jpg"))
    source = tmp_path / "scan.tif"
    source.write_bytes(picture.tiffsave_buffer(compression="packbits", tile=tiled))
    whole = source.read_bytes()
    assert run_step("tiff_to_jpeg", source).files

    entry = b"\x01\x01\x03\x00\x01\x00\x00\x00"  # of the height, as a short number
    at = whole.index(entry) + len(entry)
    half = int.from_bytes(whole[at : at + 2], "little") // 2
    source.write_bytes(whole[:at] + half.to_bytes(2, "little") + whole[at + 2 :])
    with pytest.raises(Reject, match="are left over after the last row") as refusal:
        run_step("tiff_to_jpeg", source)
    assert refusal.value.code == "corrupt"


def test_a_tiff_whose_predictor_cannot_be_read_is_damaged(corpus, run_step, tmp_path):
    """The decoder would take it for 1, and each row for what it is not."""
    out = BytesIO()
    with Image.open(corpus / "image" / "Landscape_1.jpg") as picture:
        picture.save(out, "TIFF", compression="tiff_lzw", tiffinfo={317: 2})
    entry = b"\x3d\x01\x03\x00\x01\x00\x00\x00\x02\x00"
    assert out.getvalue().count(entry) == 1
    (tmp_path / "whole.tif").write_bytes(out.getvalue())
    (tmp_path / "damaged.tif").write_bytes(
        out.getvalue().replace(entry, b"\x3d\x01\x03\x00\x02\x00\x00\x00\x02\x00")
    )

    assert run_step("tiff_to_jpeg", tmp_path / "whole.tif").files
    with pytest.raises(Reject) as refusal:
        run_step("tiff_to_jpeg", tmp_path / "damaged.tif")
    assert refusal.value.code == "corrupt"


def test_a_fax_whose_only_plane_is_said_to_be_separate_is_no_black_page(corpus, run_step, tmp_path):
    out = BytesIO()
    with Image.open(corpus / "tiff" / "fax4.tiff") as picture:
        picture.convert("1").save(out, "TIFF", compression="group4")
    whole, entry = out.getvalue(), b"\x1c\x01\x03\x00\x01\x00\x00\x00\x01\x00"
    assert whole.count(entry) == 1
    source = tmp_path / "fax.tif"
    source.write_bytes(whole.replace(entry, entry[:-2] + b"\x02\x00"))

    (made,) = run_step("tiff_to_jpeg", source).files
    with Image.open(made.path) as page:
        assert page.convert("L").getextrema() == (0, 255)
