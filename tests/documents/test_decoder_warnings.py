"""Oddities of real writers about which decoders warn, and which cost no pixel: each is let through. They were
seen in files of scanners, cameras and image programs, and are made anew here with an encoder.
"""

import struct
import zlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageCms

from quire.model.errors import Reject
from quire.tools import colour, decoder_warnings, tiff, vips

SIDE = (64, 48)
PIXELS = bytes(range(256)) * (SIDE[0] * SIDE[1] * 3 // 256)
TEXT, SHORT, LONG, UNDEFINED = 2, 3, 4, 7
Entry = tuple[int, int, int, int | bytes]


def picture() -> Image.Image:
    return Image.frombytes("RGB", SIDE, PIXELS)


def saved(kind: str, **options: object) -> bytes:
    out = BytesIO()
    picture().save(out, kind, **options)
    return out.getvalue()


def tiff_with(
    entries: Sequence[Entry] = (), *, without: int = 0, pixels: bytes = PIXELS, in_order: bool = True
) -> bytes:
    """A page of RGB strips whose directory has these entries: tag, type, count, value."""
    plain: list[Entry] = [
        *((256, LONG, 1, SIDE[0]), (257, LONG, 1, SIDE[1]), (258, SHORT, 3, struct.pack("<3H", 8, 8, 8))),
        *((259, SHORT, 1, 1), (262, SHORT, 1, 2), (273, LONG, 1, 8), (277, SHORT, 1, 3)),
        *((278, LONG, 1, SIDE[1]), (279, LONG, 1, len(pixels)), (284, SHORT, 1, 1)),
    ]
    named = {entry[0]: entry for entry in [*plain, *entries] if entry[0] != without}
    out = bytearray(b"II*\0\0\0\0\0" + pixels)
    rows = []
    for tag, kind, count, value in sorted(named.values()) if in_order else named.values():
        place = len(out)
        if isinstance(value, int):
            place = value
        elif len(value) > 4:
            out += value
        else:
            place = int.from_bytes(value.ljust(4, b"\0"), "little")
        rows.append(struct.pack("<HHII", tag, kind, count, place))
    out[4:8] = struct.pack("<I", len(out))
    return bytes(out + struct.pack("<H", len(rows)) + b"".join(rows) + bytes(4))


def jpeg_strip(jpeg: bytes) -> bytes:
    halved = struct.pack("<2H", 2, 2)
    return tiff_with([(259, SHORT, 1, 7), (262, SHORT, 1, 6), (530, SHORT, 2, halved)], pixels=jpeg)


def png_with(kind: bytes, content: bytes, checksum: int | None = None) -> bytes:
    whole = saved("PNG")
    found = zlib.crc32(kind + content) if checksum is None else checksum
    chunk = len(content).to_bytes(4) + kind + content + found.to_bytes(4)
    return whole[:33] + chunk + whole[33:]


NO_PROFILE = b"nonsense" * 20
LAB = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
JPEG = saved("JPEG", quality=90)

HARMLESS = {
    "a count of two where one belongs": tiff_with([(296, SHORT, 2, struct.pack("<2H", 2, 2))]),
    "a page number without its total": tiff_with([(297, SHORT, 1, 0)]),
    "bits of two samples of three": tiff_with([(258, SHORT, 2, struct.pack("<2H", 8, 8))]),
    "a text without its end": tiff_with([(305, TEXT, 7, b"Scanner")]),
    "a text with an end within it": tiff_with([(305, TEXT, 7, b"Sc\0nne\0")]),
    "entries in disorder": tiff_with([(254, LONG, 1, 0)], in_order=False),
    "no sizes of strips": tiff_with(without=279),
    "sizes of strips that are zero": tiff_with([(279, LONG, 1, 0)]),
    "a strip filled up to a word": jpeg_strip(JPEG[:-2] + bytes(8) + JPEG[-2:]),
    "a profile that is none, in a TIFF": tiff_with([(34675, UNDEFINED, 160, NO_PROFILE)]),
    "a profile that is none, in a PNG": saved("PNG", icc_profile=NO_PROFILE),
    "a profile that is none, in a WebP": saved("WEBP", lossless=True, icc_profile=NO_PROFILE),
    "a profile of other colours": saved("WEBP", lossless=True, icc_profile=LAB),
    "a damaged text in a PNG": png_with(b"tEXt", b"a\0b", 1),
    "a date that is too short": png_with(b"tIME", b"\0\0\0"),
}


def set_byte(content: bytes, at: int, value: int) -> bytes:
    return content[:at] + bytes([value]) + content[at + 1 :]


ADOBE = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\x07"  # the transform 7 is not defined
ROWS = JPEG.index(b"\xff\xda") + 14

# libjpeg warns of these, too; their header is corrected before it sees it.
CORRECTED = {
    "a later revision of JFIF": set_byte(JPEG, 11, 2),
    "an unknown transform of colours": JPEG[:2] + ADOBE + JPEG[20:],
    "a part of the coefficients": set_byte(JPEG, ROWS - 2, 0),
    "bytes between the segments of the header": JPEG[:20] + b"\0\0\0" + JPEG[20:],
}

# And of these nobody warns, although bytes are left over after the last row.
PADDED = {
    "a zero before the end": JPEG[:-2] + b"\0" + JPEG[-2:],
    "a sector of zeros before the end": JPEG[:-2] + bytes(4096) + JPEG[-2:],
    "filled up with ones": JPEG[:-2] + b"\xff" * 50 + JPEG[-2:],
    "a restart before the end": JPEG[:-2] + b"\xff\xd0" + JPEG[-2:],
    "another file after the end": JPEG + JPEG,
    "a profile that is none": saved("JPEG", quality=90, icc_profile=NO_PROFILE),
}


def read(path: Path) -> bytes:
    """Decoded in its full size and shrunk while it is read; a profile is looked at as if it were new."""
    colour._is_srgb.cache_clear()
    head = path.read_bytes()[:4]
    kind = {b"II*\0": "image/tiff", b"\x89PNG": "image/png", b"RIFF": "image/webp"}.get(head, "image/jpeg")
    (page,) = tiff.pages(path) if kind == "image/tiff" else [None]
    if page is None:
        assert vips.thumbnail(path, kind, vips.header(path, kind), 20).width == 20
        colour._is_srgb.cache_clear()
    with vips.decoded(path, kind, page) as found:
        return found.write_to_memory()


@pytest.mark.parametrize("name", HARMLESS)
def test_what_costs_no_pixel_is_let_through_by_the_list_alone(name, tmp_path, monkeypatch):
    source = tmp_path / "odd"
    source.write_bytes(HARMLESS[name])
    if name in {"a strip filled up to a word", "a profile of other colours"}:
        assert len(read(source)) == len(PIXELS)
    else:
        assert read(source) == PIXELS

    monkeypatch.setattr(decoder_warnings, "_HARMLESS", ())
    with pytest.raises(Reject):
        read(source)


def test_every_entry_of_the_list_has_a_file(tmp_path, monkeypatch):
    """Without one entry, one of the files above is refused."""
    source = tmp_path / "odd"
    entries = decoder_warnings._HARMLESS
    for left_out in entries:
        kept = tuple(entry for entry in entries if entry is not left_out)
        monkeypatch.setattr(decoder_warnings, "_HARMLESS", kept)
        refused = []
        for name, content in HARMLESS.items():
            source.write_bytes(content)
            try:
                read(source)
            except Reject:
                refused.append(name)
        assert refused, left_out.pattern


@pytest.mark.parametrize("name", CORRECTED | PADDED)
def test_a_jpeg_with_an_oddity_gives_the_picture_of_the_sound_one(name, tmp_path):
    (tmp_path / "sound.jpg").write_bytes(JPEG)
    (tmp_path / "odd.jpg").write_bytes((CORRECTED | PADDED)[name])

    assert read(tmp_path / "odd.jpg") == read(tmp_path / "sound.jpg")


def test_rows_that_are_left_over_are_no_padding(tmp_path):
    (tmp_path / "odd.jpg").write_bytes(JPEG[:-2] + JPEG[ROWS : ROWS + 200] + JPEG[-2:])

    with pytest.raises(Reject, match="left over after the last row") as refusal:
        read(tmp_path / "odd.jpg")
    assert refusal.value.code == "corrupt"


@pytest.mark.parametrize("folder", ["image", "tiff"])
def test_no_file_of_the_corpus_is_lost(folder, corpus, run_step):
    """What decoded before still does: all but those that are damaged on purpose."""
    refused = set()
    for source in sorted((corpus / folder).iterdir()):
        try:
            assert run_step("tiff_to_jpeg", source).files
        except Reject:
            refused.add(source.name)
    assert (
        refused
        == {
            "image": {"bomb_50000x50000.png", "decompression_bomb.gif", "truncated.jpg"},
            "tiff": {
                "bomb_g4_60000x60000.tif",
                "crash-86214e58da443d2b80820cff9677a38a33dcbbca.tif",
                "libtiff_segfault.tif",
            },
        }[folder]
    )
