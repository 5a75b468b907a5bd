"""Reads files that strangers name, below one folder: the path may try to lead anywhere, also through links.

Promises: what lies outside of the folder after all links are resolved is not opened, not even when a link
takes its place between the check and the opening; neither are folders, pipes and devices, and nothing waits
for them. Whoever asks for what is not to be read learns no more than that there is no such file.
"""

import os
from pathlib import Path

from quire.tools.input_open import NotRegularError, open_regular

_PIECE_BYTES = 1 << 20
LONGEST_PATH = 4096


class FileTooLargeError(OSError):
    """Larger than the limit, also if it grows while it is read."""


def read_below(root: Path, name: str, *, max_bytes: int) -> bytes:
    """The bytes of the file: `name` is relative to the folder, or absolute and within it. Raises
    FileNotFoundError, also for what lies outside; FileTooLargeError; another OSError when it cannot be read.
    """
    if not name or len(name) > LONGEST_PATH or "\x00" in name:
        raise FileNotFoundError("no such file")
    try:
        folder = root.resolve(strict=True)
        found = (folder / name).resolve(strict=True)
    except (RuntimeError, ValueError, OSError) as error:  # a loop of links, an undecodable name
        if isinstance(error, PermissionError):
            raise
        raise FileNotFoundError("no such file") from error
    if found == folder or not found.is_relative_to(folder):
        raise FileNotFoundError("no such file")
    try:
        descriptor = open_regular(found, below=len(found.relative_to(folder).parts))
    except NotRegularError as error:
        raise FileNotFoundError("no such file") from error
    try:
        return _read(descriptor, max_bytes)
    finally:
        os.close(descriptor)


def _read(descriptor: int, max_bytes: int) -> bytes:
    if os.fstat(descriptor).st_size > max_bytes:
        raise FileTooLargeError(f"larger than {max_bytes} bytes")
    read = bytearray()
    while piece := os.read(descriptor, _PIECE_BYTES):
        read += piece
        if len(read) > max_bytes:
            raise FileTooLargeError(f"larger than {max_bytes} bytes")
    return bytes(read)
