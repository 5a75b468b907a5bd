"""The process that decodes the photos of one upload: strangers have sent them, and the server must not be the
one that they break. It enters the sandbox, where there is one, before it reads a byte of them.
"""

import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from quire.model.errors import QuireError
from quire.steps.recipe.photo import prepare_photo
from quire.tools import sandbox
from quire.tools.child_process import die_with_parent
from quire.tools.sandbox import SandboxRules


class PhotoOrder(Struct, frozen=True, kw_only=True):
    """Photos lie in `folder` as 0, 1 …; the JPEGs are written beside them as 0.jpg, 1.jpg …"""

    folder: str
    photos: int
    max_pixels: int
    confined: bool


class PhotoResult(Struct, frozen=True, kw_only=True):
    """Without a code the JPEG was written."""

    code: str = ""
    message: str = ""


def main() -> None:
    """The order comes on standard input, the results go to standard output."""
    die_with_parent()
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=PhotoOrder)
    if order.confined:
        sandbox.enter(SandboxRules(readable=(order.folder,), writable=(order.folder,)))
    results = [_prepare(order, number) for number in range(order.photos)]
    sys.stdout.buffer.write(msgspec.json.encode(results))


def _prepare(order: PhotoOrder, number: int) -> PhotoResult:
    source = Path(order.folder) / str(number)
    try:
        prepare_photo(source, source.with_name(f"{number}.jpg"), max_decoded=order.max_pixels)
    except QuireError as error:
        return PhotoResult(code=error.code, message=str(error))
    return PhotoResult()
