"""Checks that all presigned uploads share: lifetime of URLs, number of parts, the list of parts to join.

Promise: S3 and the local store accept the same input. Must not know: any store.
"""

from collections.abc import Sequence
from urllib.parse import quote

from quire.blobs.presigned_uploads import CompletedPart
from quire.model.errors import Reject

MAX_PARTS = 10_000
MAX_SECONDS = 7 * 24 * 3600  # S3 signs for no longer

_MAX_ETAG_LETTERS = 128
_MAX_NAME_LETTERS = 255


def check_seconds(seconds: int) -> int:
    """Raises Reject with code `bad_request`."""
    if not 0 < seconds <= MAX_SECONDS:
        raise Reject(f"URLs are valid for 1 to {MAX_SECONDS} seconds, not for {seconds}.", code="bad_request")
    return seconds


def check_count(parts: int) -> int:
    """Raises Reject with code `bad_request`."""
    if not 0 < parts <= MAX_PARTS:
        raise Reject(
            f"An upload has 1 to {MAX_PARTS} parts, not {parts}: use larger parts.", code="bad_request"
        )
    return parts


def sort_parts(parts: Sequence[CompletedPart]) -> list[CompletedPart]:
    """The parts by number, ETags without quotes. Raises Reject with code `bad_parts`."""
    ordered = sorted(
        (CompletedPart(part.number, _unquote(part.etag)) for part in parts), key=lambda part: part.number
    )
    numbers = [part.number for part in ordered]
    if not ordered or len(set(numbers)) < len(numbers) or not 0 < numbers[0] <= numbers[-1] <= MAX_PARTS:
        raise bad_parts(f"part numbers must be different and from 1 to {MAX_PARTS}")
    if not all(0 < len(part.etag) <= _MAX_ETAG_LETTERS and part.etag.isascii() for part in ordered):
        raise bad_parts("an ETag must be the one that was returned for the PUT of the part")
    return ordered


def bad_parts(reason: str) -> Reject:
    return Reject(f"The parts cannot be joined: {reason}. Send the missing parts again.", code="bad_parts")


def attachment(name: str) -> str:
    """A Content-Disposition that makes browsers save a file of this name, in any script (RFC 6266)."""
    name = "".join(letter for letter in name if letter.isprintable())[-_MAX_NAME_LETTERS:] or "file"
    plain = "".join(letter if letter.isascii() and letter not in '"\\%/' else "_" for letter in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _unquote(etag: str) -> str:
    return etag.strip().removeprefix('"').removesuffix('"')
