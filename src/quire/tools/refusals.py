"""Why a picture or a PDF is refused: all codes in one place, so that reports can be grouped.

    empty_file           there are no bytes
    not_an_image         the bytes are something else (text, a PDF …)
    unsupported_format   a picture, but of a kind that neither decoder reads
    truncated            the end of the file is missing
    corrupt              the bytes contradict themselves
    too_many_pixels      larger than the limit, judged by the header before a pixel is decoded
    not_a_pdf            the bytes are something else than a PDF
    encrypted            a PDF that does not open without its password
    no_pages             a PDF without a single page
    too_many_pages       more pages than the limit, counted before one is drawn
    too_many_bytes       its pages take more room than the limit, judged while they are written
    not_pdfa             a PDF that cannot become PDF/A

Decoding is deterministic, so each of these is final (`Reject`): trying again gives the same answer.
"""

from collections.abc import Sequence

from msgspec import Struct

from quire.model.errors import Reject

MEGAPIXEL = 1_000_000
LONGEST_JPEG_SIDE = 65_500  # what libjpeg writes; the format itself ends at 65 535

_SEND_AGAIN = "Send the file again from its source."
_SEND_PICTURE = "Send the picture itself, or give the file the extension of what it is."


class PixelLimits(Struct, frozen=True, kw_only=True):
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


def truncated(detail: str, what: str = "picture") -> Reject:
    return Reject(f"the end of the {what} is missing ({detail}). {_SEND_AGAIN}", code="truncated")


def corrupt(detail: str, what: str = "picture") -> Reject:
    return Reject(f"the {what} is damaged ({detail}). {_SEND_AGAIN}", code="corrupt")


def too_many_pixels(what: str) -> Reject:
    advice = "If the file is genuine, raise the limit (setting preprocess.max_megapixels)."
    return Reject(f"{what}. {advice}", code="too_many_pixels")


def check_pixels(sizes: Sequence[tuple[int, int]], limits: PixelLimits) -> None:
    """Refuse what is too large. `sizes` are (width, height) of the pages that would be decoded."""
    for number, (width, height) in enumerate(sizes, 1):
        if width * height > limits.max_pixels:
            page = f"page {number}" if len(sizes) > 1 else "the picture"
            raise too_many_pixels(
                _compare_limit(f"{page} of {width} x {height} pixels", width * height, limits.max_pixels)
            )
    total = sum(width * height for width, height in sizes)
    if total > limits.max_total_pixels:
        what = _compare_limit(f"{len(sizes)} pages together", total, limits.max_total_pixels)
        raise too_many_pixels(what)


def check_jpeg_sides(width: int, height: int) -> None:
    if max(width, height) > LONGEST_JPEG_SIDE:
        message = f"{width} x {height} pixels do not fit in a JPEG, whose sides end at {LONGEST_JPEG_SIDE}"
        raise Reject(f"{message}. Cut the picture into parts.", code="too_many_pixels")


def not_a_pdf(looks: str) -> Reject:
    advice = "Send the PDF itself, or give the file the extension of what it is."
    return Reject(f"not a PDF: it looks like {looks}. {advice}", code="not_a_pdf")


def encrypted() -> Reject:
    advice = "Remove the password and send the file again."
    return Reject(f"the PDF is protected by a password. {advice}", code="encrypted")


def not_pdfa(why: str) -> Reject:
    advice = (
        "Switch PDF/A off (setting ocr.pdfa) and run again for an ordinary searchable PDF; "
        "its pages are not read again."
    )
    return Reject(f"the PDF cannot be written as PDF/A-2b: {why}. {advice}", code="not_pdfa")


def no_pages() -> Reject:
    return Reject(f"the PDF has no pages. {_SEND_AGAIN}", code="no_pages")


def check_pages(pages: int, limit: int) -> None:
    if pages > limit:
        advice = "Raise the limit (setting preprocess.pdf_max_pages), or cut the PDF into parts."
        raise Reject(f"the PDF has {pages} pages, the limit is {limit}. {advice}", code="too_many_pages")


def check_page_pixels(number: int, width: int, height: int, limit: int) -> None:
    """Check a page before it is drawn."""
    if width * height > limit:
        what = _compare_limit(f"page {number} of {width} x {height} pixels", width * height, limit)
        advice = "Lower preprocess.pdf_dpi, or raise preprocess.pdf_max_megapixels if the page is genuine."
        raise Reject(f"{what}. {advice}", code="too_many_pixels")
    check_jpeg_sides(width, height)


def check_total_bytes(written: int, number: int, pages: int, limit: int) -> None:
    if written > limit:
        size = f"{written / 1_000_000:.0f} MB, the limit is {limit / 1_000_000:.0f}"
        advice = "Raise the limit (setting preprocess.pdf_max_megabytes), or lower preprocess.pdf_dpi."
        raise Reject(f"{number} of {pages} pages take {size}. {advice}", code="too_many_bytes")


def _compare_limit(what: str, pixels: int, limit: int) -> str:
    return f"{what}: {pixels / MEGAPIXEL:.0f} megapixels, the limit is {limit / MEGAPIXEL:.0f}"
