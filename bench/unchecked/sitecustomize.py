"""Loaded by every Python process of `bench/fixity.py`, also by the workers that a run starts: with
BENCH_CHECKS=0 it takes the comparison of bytes with their digest out of Quire; with 1 it changes nothing,
so that both sides pay for loading it.

Without checks files are copied as the standard library does it, and stored files are read by those alone who
need their bytes.
"""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

if "BENCH_CHECKS" in os.environ:
    from quire.blobs import checked_reads, fixity

    def believe(path: Path, digest: str) -> bool:  # noqa: ARG001
        return True

    def copy(source: Path, target: Path, digest: str, key: str) -> None:  # noqa: ARG001
        shutil.copyfile(source, target)

    def pass_on(pieces: AsyncIterator[bytes], digest: str, key: str) -> AsyncIterator[bytes]:  # noqa: ARG001
        return pieces

    def stream(blobs: Any, key: str, digest: str = "") -> AsyncIterator[bytes]:  # noqa: ARG001
        return blobs.stream(key)

    if os.environ["BENCH_CHECKS"] == "0":
        fixity.has_digest = believe
        fixity.copy_checked = copy
        fixity.check_pieces = pass_on
        checked_reads.stream = stream
