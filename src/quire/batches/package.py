"""The results of a batch as one ZIP, built while it is sent: plain, or as a bag (BagIt, RFC 8493).

Promise: memory holds a page of names and a piece of one file, whatever the batch's size. A file that is gone
or has changed breaks off the stream: a partial package cannot be mistaken for a whole one.
"""

import hashlib
import tempfile
import zipfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import IO, Any, Self

import msgspec

from quire import __version__
from quire.batches.context import BatchContext
from quire.batches.lines import build_step_lines
from quire.batches.placing import fit_path
from quire.blobs import checked_reads
from quire.ledger.port import InputRecord
from quire.model.batch import Batch
from quire.model.errors import Bug, Reject
from quire.model.files import File

PAGE = 200
SPOOLED_BYTES = 4 << 20
_ZIP64_FROM = 2 << 30
_EARLIEST = 1980
_encoder = msgspec.json.Encoder()


async def stream_package(
    context: BatchContext, batch_id: str, *, bag: bool, inputs: bool
) -> AsyncIterator[bytes]:
    """With `inputs` the package includes the input files. Raises Missing, and Reject `still_running`, before
    the first piece.
    """
    batch = await context.batches.get_batch(batch_id)
    if not batch.ended:
        raise Reject(
            f"batch {batch.id} has not ended and its results are not all there; wait, or cancel it first",
            code="still_running",
        )
    with _Package(context, batch, bag=bag) as package:
        yield b""  # everything that may be refused has been checked
        async for record in _read_inputs(context, batch):
            package.report(record)
            for file in _list_files(record, inputs=inputs):
                # Closed in order, also when the client is gone: the entry before the ZIP.
                async with aclosing(package.add(file)) as pieces:
                    async for piece in pieces:
                        yield piece
        async with aclosing(package.end()) as pieces:
            async for piece in pieces:
                yield piece


async def _read_inputs(context: BatchContext, batch: Batch) -> AsyncIterator[InputRecord]:
    after = ""
    while page := await context.records.list_inputs(batch.no, after=after, limit=PAGE):
        after = page[-1].path
        for record in page:
            yield record


def _list_files(record: InputRecord, *, inputs: bool) -> Iterator[File]:
    for _, file in record.made:
        yield file
    if inputs and record.key:
        yield File(
            key=record.key,
            path=record.path,
            name=record.path.rpartition("/")[2],
            size=record.size,
            content_type="",
            digest=record.digest,
        )


class _Package:
    def __init__(self, context: BatchContext, batch: Batch, *, bag: bool) -> None:
        self._blobs = context.blobs
        self._batch = batch
        self._bag = bag
        self._folder = f"{batch.id}/data/" if bag else ""
        self._out = _Pipe()
        self._zip = _Zip(self._out, "w", zipfile.ZIP_STORED, allowZip64=True)
        moment = datetime.fromtimestamp(batch.completed_at or batch.updated_at, tz=UTC)
        self._moment = (max(_EARLIEST, moment.year), *moment.timetuple()[1:6])
        self._date = moment.date().isoformat()
        # Both are closed when the package is.
        self._manifest: IO[bytes] = tempfile.SpooledTemporaryFile(SPOOLED_BYTES)  # noqa: SIM115
        self._lines: IO[bytes] = tempfile.SpooledTemporaryFile(SPOOLED_BYTES)  # noqa: SIM115
        self._seen: set[bytes] = set()
        self._octets = self._streams = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()  # nothing reads what it writes now
        self._manifest.close()
        self._lines.close()

    def report(self, record: InputRecord) -> None:
        line = {
            "path": record.path,
            "status": record.outcome,
            "reason": record.reason or None,
            "error_class": record.error_class or None,
            "outputs": [fit_path(file.path) for _, file in record.made],
            "size": record.size,
            "steps": build_step_lines(record),
        }
        self._lines.write(_encoder.encode(line) + b"\n")

    async def add(self, file: File) -> AsyncGenerator[bytes, None]:
        name = fit_path(file.path)
        mark = hashlib.blake2b(name.encode(), digest_size=16).digest()
        if mark in self._seen:
            return
        self._seen.add(mark)
        digest, size = hashlib.sha256(), 0
        with self._entry(name, file.size) as entry:
            async for piece in checked_reads.stream(self._blobs, file.key, file.digest):
                digest.update(piece)
                size += len(piece)
                entry.write(piece)
                yield self._out.take()
        if size != file.size:
            raise Bug(
                f"{file.path!r} of batch {self._batch.id} is not what was stored; the package is broken off"
            )
        self._add_to_manifest(name, digest.hexdigest(), size)

    async def end(self) -> AsyncGenerator[bytes, None]:
        digest, size = hashlib.sha256(), self._lines.tell()
        self._lines.seek(0)
        with self._entry("report.jsonl", size) as entry:
            while piece := self._lines.read(1 << 20):
                digest.update(piece)
                entry.write(piece)
                yield self._out.take()
        self._add_to_manifest("report.jsonl", digest.hexdigest(), size)
        if self._bag:
            async with aclosing(self._write_bag_files()) as pieces:
                async for piece in pieces:
                    yield piece
        self._zip.close()
        yield self._out.take()

    async def _write_bag_files(self) -> AsyncGenerator[bytes, None]:
        info = (
            f"Bag-Software-Agent: quire {__version__}\nBagging-Date: {self._date}\n"
            f"External-Identifier: {self._batch.id}\nPayload-Oxum: {self._octets}.{self._streams}\n"
        )
        tags = {
            "bagit.txt": b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n",
            "bag-info.txt": info.encode(),
        }
        sums = []
        self._folder = f"{self._batch.id}/"
        for name, content in tags.items():
            sums.append((hashlib.sha256(content).hexdigest(), name))
            with self._entry(name, len(content)) as entry:
                entry.write(content)
        digest = hashlib.sha256()
        size = self._manifest.tell()
        self._manifest.seek(0)
        with self._entry("manifest-sha256.txt", size) as entry:
            while piece := self._manifest.read(1 << 20):
                digest.update(piece)
                entry.write(piece)
                yield self._out.take()
        sums.append((digest.hexdigest(), "manifest-sha256.txt"))
        with self._entry("tagmanifest-sha256.txt", 0) as entry:
            entry.write("".join(f"{one} {name}\n" for one, name in sums).encode())

    def _add_to_manifest(self, name: str, digest: str, size: int) -> None:
        self._octets += size
        self._streams += 1
        if self._bag:
            kept = name.replace("%", "%25").replace("\n", "%0A").replace("\r", "%0D")
            self._manifest.write(f"{digest} data/{kept}\n".encode())

    def _entry(self, name: str, size: int) -> IO[bytes]:
        entry = zipfile.ZipInfo(self._folder + name, self._moment)
        entry.external_attr = 0o644 << 16
        return self._zip.open(entry, "w", force_zip64=size >= _ZIP64_FROM)


class _Zip(zipfile.ZipFile):
    def __del__(self) -> None:
        """Not closed by the garbage collection, which may come while an entry is open and then complains."""


class _Pipe:
    """Collects what the ZIP writer writes until `take`. Deliberately not a Python stream: it cannot seek."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        return len(self._pieces[-1])

    def flush(self) -> None:
        """Nothing is buffered elsewhere."""

    def close(self) -> None:
        """Nothing is held open."""

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
