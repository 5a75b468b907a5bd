"""The file list of a batch in the order in which people see it, by folder and path: numbers are the order in
which things finished, and no index has the other one.

Memory stays bounded however many files there are: portions are sorted, kept in temporary files, and merged.
"""

import heapq
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from tempfile import TemporaryFile
from typing import IO

import msgspec

from quire.model.files import File, folder_of

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(File)
_SIZE_BYTES = 4

Pages = AsyncIterator[Sequence[File]]


async def sort_files(pages: Pages, *, held: int, at_once: int) -> AsyncIterator[list[File]]:
    """The files in order of (folder, path), `at_once` at a time; about `held` of them are in memory."""
    with ExitStack() as stack:
        portions: list[Iterator[File]] = []
        files: list[File] = []
        async for page in pages:
            files.extend(page)
            if len(files) >= held:
                files.sort(key=_place)
                portions.append(_keep(files, stack.enter_context(TemporaryFile())))
                files = []
        files.sort(key=_place)
        merged = heapq.merge(*portions, files, key=_place)
        while chunk := list(islice(merged, at_once)):
            yield chunk


def _place(file: File) -> tuple[str, str]:
    return folder_of(file.path), file.path


def _keep(files: Sequence[File], stored: IO[bytes]) -> Iterator[File]:
    """Write sorted files to disk; they are read one after the other, in little memory."""
    for file in files:
        data = _encoder.encode(file)
        stored.write(len(data).to_bytes(_SIZE_BYTES, "big"))
        stored.write(data)
    stored.seek(0)
    return _read(stored)


def _read(stored: IO[bytes]) -> Iterator[File]:
    while size := stored.read(_SIZE_BYTES):
        yield _decoder.decode(stored.read(int.from_bytes(size, "big")))
