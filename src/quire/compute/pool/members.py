"""The list of documents that a task about a folder or the batch is given as its input."""

from pathlib import Path

import msgspec

from quire.model.errors import Reject
from quire.model.files import File
from quire.model.work import MemberFile

_decoder = msgspec.json.Decoder(tuple[MemberFile, ...])


def read_members(listing: Path, unit: File) -> tuple[MemberFile, ...]:
    """The documents of the folder or batch `unit`. Raises Reject `bad_members`."""
    return decode_members(listing.read_bytes(), unit)


def decode_members(data: bytes, unit: File) -> tuple[MemberFile, ...]:
    """The same, from the bytes of the list."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Reject(
            f"the list of members {unit.path!r} is not a JSON array of files: {error}", code="bad_members"
        ) from error
