"""Shared by the image steps: identifies the input, refuses what is no picture, tries the second decoder
after the first.

Runs in a worker process. Reads the source file only; needs pyvips and Pillow installed. The decoders' order
is the rule of this module: Pillow is used only when libvips does not know the kind, never when it found
damage.
"""

from pathlib import Path
from typing import TypeVar

import msgspec

from quire.model.errors import Misconfigured
from quire.model.step import StepInput
from quire.tools import pillow, refusals, sniff, tiff, vips
from quire.tools.refusals import PixelLimits, Unsupported

Options = TypeVar("Options", bound=msgspec.Struct)

_READABLE = frozenset({"image/jpeg", "image/png", "image/webp", "image/tiff"})


def options_of(step_input: StepInput, kind: type[Options]) -> Options:
    """Decode the step's options: a misspelt one stops the work instead of being ignored."""
    try:
        return msgspec.convert(step_input.options, kind)
    except msgspec.ValidationError as error:
        known = ", ".join(kind.__struct_fields__)
        raise Misconfigured(
            f"wrong step option: {error}. The options are {known}.", code="wrong_option"
        ) from error


def content_type(source: Path, wanted: str) -> str:
    """What the file is by its own bytes. `wanted` ("a TIFF") is what a refusal says it should have been."""
    with source.open("rb") as stream:
        head = stream.read(sniff.HEAD_BYTES)
    if not head:
        raise refusals.empty_file()
    found = sniff.signature(head)
    looks = sniff.looks_like(head)
    if found is None or not found.startswith("image/"):
        raise refusals.not_an_image(wanted, looks)
    if found not in _READABLE:
        raise refusals.unsupported(f"not {wanted}: it is {looks}")
    return found


def pages(source: Path, kind: str, limits: PixelLimits, *, all_pages: bool) -> list[tiff.TiffPage | None]:
    """The pages to convert, within the limits and complete; None is the only picture of another format."""
    if kind != "image/tiff":
        known = vips.header(source, kind)
        refusals.check_pixels([(known.width, known.height)], limits)
        return [None]
    found = tiff.pages(source)
    chosen = found if all_pages else found[:1]
    refusals.check_pixels([(page.width, page.height) for page in chosen], limits)
    tiff.check_complete(source, chosen)
    return [*chosen]


def page_to_jpeg(
    source: Path, kind: str, page: tiff.TiffPage | None, target: Path, *, quality: int, limits: PixelLimits
) -> tuple[int, int]:
    """Write one page as a JPEG; return its width and height, upright."""
    try:
        with vips.decoded(source, kind, page) as picture:
            refusals.check_jpeg_sides(picture.width, picture.height)
            vips.save_jpeg(picture, target, quality)
    except Unsupported as first:
        picture = second_opinion(source, kind, page, limits, first)
        vips.save_jpeg(picture, target, quality)
    return picture.width, picture.height


def second_opinion(
    source: Path, kind: str, page: tiff.TiffPage | None, limits: PixelLimits, first: Unsupported
) -> vips.VipsImage:
    """Decode with Pillow. When it does not know the kind either, the error gives both reasons."""
    try:
        return vips.from_pixels(*pillow.decode(source, kind, page, limits))
    except Unsupported as second:
        raise Unsupported(f"{first} The second decoder: {second}") from second
