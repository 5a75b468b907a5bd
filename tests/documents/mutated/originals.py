"""The sound files that are damaged: small ones of every kind and compression that the default install reads,
made by the encoders of Pillow, libvips and qpdf.
"""

from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pikepdf
import pyvips
from PIL import Image

CORPUS = Path(__file__).parent.parent / "corpus"
SIZE = (224, 168)  # large enough for a copy of 200 pixels

Originals = dict[str, bytes]


def of_kind(kind: str) -> Originals:
    return _MAKERS[kind]()


@cache
def photograph() -> Image.Image:
    return Image.open(CORPUS / "image" / "Landscape_1.jpg").convert("RGB").resize(SIZE)


@cache
def drawing() -> Image.Image:
    """A page of a fax: black on white."""
    return Image.open(CORPUS / "tiff" / "fax4.tiff").convert("1").resize(SIZE)


def _saved(picture: Image.Image, kind: str, **options: Any) -> bytes:
    out = BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


@cache
def _jpegs() -> Originals:
    colours, grey = photograph(), photograph().convert("L")
    return {
        "baseline": _saved(colours, "JPEG", quality=85),
        "whole colours": _saved(colours, "JPEG", quality=92, subsampling=0),
        "optimised": _saved(colours, "JPEG", quality=60, optimize=True),
        "progressive": _saved(colours, "JPEG", quality=85, progressive=True),
        "restarts": _saved(colours, "JPEG", quality=85, restart_marker_rows=1),
        "many restarts": _saved(colours, "JPEG", quality=85, restart_marker_blocks=2),
        "grey": _saved(grey, "JPEG", quality=85),
    }


@cache
def _pngs() -> Originals:
    colours = photograph()
    clear = colours.copy()
    clear.putalpha(colours.convert("L"))
    library = pyvips.Image.new_from_memory(colours.tobytes(), *SIZE, 3, "uchar")
    return {
        "colours": _saved(colours, "PNG"),
        "palette": _saved(colours.quantize(64), "PNG"),
        "transparent": _saved(clear, "PNG"),
        "two levels": _saved(drawing(), "PNG"),
        "deep grey": _saved(colours.convert("I;16"), "PNG"),
        "interlaced": library.copy(interpretation="srgb").pngsave_buffer(interlace=True),
    }


@cache
def _webps() -> Originals:
    colours = photograph()
    clear = colours.copy()
    clear.putalpha(colours.convert("L"))
    return {
        "lossy": _saved(colours, "WEBP", quality=80),
        "lossless": _saved(colours, "WEBP", lossless=True),
        "transparent": _saved(clear, "WEBP", quality=80),
    }


@cache
def _tiffs() -> Originals:
    colours = photograph()
    library = pyvips.Image.new_from_memory(colours.tobytes(), *SIZE, 3, "uchar").copy(interpretation="srgb")
    tiles = {"tile": True, "tile_width": 64, "tile_height": 64}
    return {
        "uncompressed": _saved(colours, "TIFF"),
        "lzw": _saved(colours, "TIFF", compression="tiff_lzw"),
        "deflate": _saved(colours, "TIFF", compression="tiff_adobe_deflate"),
        "packbits": _saved(colours, "TIFF", compression="packbits"),
        "jpeg": _saved(colours, "TIFF", compression="jpeg", quality=85),
        "group 3": _saved(drawing(), "TIFF", compression="group3"),
        "group 4": _saved(drawing(), "TIFF", compression="group4"),
        "deep grey": _saved(colours.convert("I;16"), "TIFF", compression="tiff_lzw"),
        "two pages": _saved(
            colours, "TIFF", compression="tiff_lzw", save_all=True, append_images=[colours.rotate(180)]
        ),
        "jpeg tiles": library.tiffsave_buffer(compression="jpeg", Q=85, **tiles),
        "deflate tiles": library.tiffsave_buffer(compression="deflate", predictor="horizontal", **tiles),
        "webp tiles": library.tiffsave_buffer(compression="webp", Q=80, **tiles),
        "bigtiff": library.tiffsave_buffer(compression="lzw", bigtiff=True),
    }


@cache
def _pdfs() -> Originals:
    made = {
        "jpeg": _scan(pikepdf.Name.DCTDecode, _jpegs()["baseline"]),
        "flate": _scan(None, photograph().tobytes()),
    }
    names = ("rotation.pdf", "crazyones.pdf", "manual-3-pages.pdf")
    return made | {name: (CORPUS / "pdf" / name).read_bytes() for name in names}


def _scan(name: pikepdf.Name | None, pixels: bytes) -> bytes:
    """Two pages, one with a picture and one with a drawing; objects in streams, as scanners write them."""
    pdf = pikepdf.new()
    for content in (b"q 224 0 0 168 0 0 cm /I Do Q", b"0 0 1 rg 20 20 100 60 re f"):
        page = pdf.add_blank_page(page_size=SIZE)
        picture = pikepdf.Stream(pdf, pixels)
        picture.Type, picture.Subtype = pikepdf.Name.XObject, pikepdf.Name.Image
        picture.Width, picture.Height = SIZE
        picture.ColorSpace, picture.BitsPerComponent = pikepdf.Name.DeviceRGB, 8
        if name is not None:
            picture.Filter = name
        page.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(I=pdf.make_indirect(picture)))
        page.Contents = pdf.make_stream(content)
    out = BytesIO()
    pdf.save(out, object_stream_mode=pikepdf.ObjectStreamMode.generate, compress_streams=True)
    return out.getvalue()


_MAKERS: dict[str, Callable[[], Originals]] = {
    "jpeg": _jpegs,
    "png": _pngs,
    "webp": _webps,
    "tiff": _tiffs,
    "pdf": _pdfs,
}
KINDS = tuple(_MAKERS)
