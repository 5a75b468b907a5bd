"""Opens what is to be stored: a path, or a file that is not opened by its path alone.

Must not know: stores.
"""

from pathlib import Path
from typing import BinaryIO

from quire.blobs.port import SourceFile


def open_source(source: Path | SourceFile) -> BinaryIO:
    """At its beginning. Blocking. Raises OSError."""
    if isinstance(source, Path):
        return source.open("rb")
    return open(source.open_descriptor(), "rb")  # noqa: PTH123 - a descriptor, not a path
