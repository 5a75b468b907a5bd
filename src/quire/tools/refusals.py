"""Why a picture is refused: the whole vocabulary, in one place, so that reports can be grouped by it.

    empty_file           there are no bytes
    not_an_image         the bytes are something else (text, a PDF …)
    unsupported_format   a picture, but of a kind that neither decoder reads
    truncated            the end of the file is missing
    corrupt              the bytes contradict themselves
    too_many_pixels      larger than the limit, judged by the header before a pixel is decoded

Decoding is deterministic, so each of these is final (`Reject`): trying again gives the same answer.
"""

from collections.abc import Sequence

from msgspec import Struct

from quire.model.errors import Reject

MEGAPIXEL = 1_000_000
LONGEST_JPEG_SIDE = 65_500  # what libjpeg writes; the format itself ends at 65 535

_SEND_AGAIN = "Send the file again from its source."
_SEND_PICTURE = "Send the picture itself, or give the file the extension of what it is."


class Limits(Struct, frozen=True, kw_only=True):
    """How much may be decoded: per page, and over all pages of a file."""

    max_pixels: int = 500 * MEGAPIXEL
    max_total_pixels: int = 10_000 * MEGAPIXEL


class Unsupported(Reject):
    """One decoder does not know this kind of picture; another one may. Never raised for damaged bytes."""

    code = "unsupported_format"


def empty_file() -> Reject:
    return Reject(f"the file is empty (0 bytes). {_SEND_AGAIN}", code="empty_file")


def not_an_image(wanted: str, looks: str) -> Reject:
    return Reject(f"not {wanted}: it looks like {looks}. {_SEND_PICTURE}", code="not_an_image")


def unsupported(what: str) -> Unsupported:
    return Unsupported(f"{what}. Convert it to an ordinary TIFF, JPEG or PNG and send that.")


def truncated(detail: str) -> Reject:
    return Reject(f"the end of the picture is missing ({detail}). {_SEND_AGAIN}", code="truncated")


def corrupt(detail: str) -> Reject:
    return Reject(f"the picture is damaged ({detail}). {_SEND_AGAIN}", code="corrupt")


def too_many_pixels(what: str) -> Reject:
    advice = "If the file is genuine, raise the limit (setting preprocess.max_megapixels)."
    return Reject(f"{what}. {advice}", code="too_many_pixels")


def check_pixels(sizes: Sequence[tuple[int, int]], limits: Limits) -> None:
    """Refuse what is too large. `sizes` are (width, height) of the pages that would be decoded."""
    for number, (width, height) in enumerate(sizes, 1):
        if width * height > limits.max_pixels:
            page = f"page {number}" if len(sizes) > 1 else "the picture"
            raise too_many_pixels(
                _compared(f"{page} of {width} x {height} pixels", width * height, limits.max_pixels)
            )
    total = sum(width * height for width, height in sizes)
    if total > limits.max_total_pixels:
        what = _compared(f"{len(sizes)} pages together", total, limits.max_total_pixels)
        raise too_many_pixels(what)


def check_jpeg_sides(width: int, height: int) -> None:
    if max(width, height) > LONGEST_JPEG_SIDE:
        message = f"{width} x {height} pixels do not fit in a JPEG, whose sides end at {LONGEST_JPEG_SIDE}"
        raise Reject(f"{message}. Cut the picture into parts.", code="too_many_pixels")


def _compared(what: str, pixels: int, limit: int) -> str:
    return f"{what}: {pixels / MEGAPIXEL:.0f} megapixels, the limit is {limit / MEGAPIXEL:.0f}"
