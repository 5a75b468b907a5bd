"""Exports the results of a batch to a folder, by logical path, with `report.json` and `index.html`.

Every file is written under a temporary name and renamed: no half-written file is ever visible. A file that
exists with the same content is left alone.
"""

import asyncio
import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from pathlib import Path
from tempfile import TemporaryFile

from msgspec import Struct

from quire.batches.context import BatchContext, RunContext
from quire.batches.lines import list_failures
from quire.batches.report import ReportWriter, ResultsPage
from quire.blobs.port import Blobs
from quire.ledger.port import InputRecord
from quire.model.batch import Batch, FileOutcome
from quire.model.errors import Bug, Misconfigured, Reject
from quire.model.files import File
from quire.model.pipeline import Pipeline

PAGE = 200
COPYING_AT_ONCE = 4
MAX_NAME_BYTES = 255
MARK = ".quire-out"
KEPT_FAILURES = 100
_HASH_BYTES = 1 << 20


class Summary(Struct, frozen=True, kw_only=True):
    """The result of an export in numbers. `failures` holds the first few, for display."""

    counts: dict[str, int]
    failures: list[tuple[str, str, str]]  # path, error class, reason
    report: Path
    page: Path


async def export_run(
    batch: Batch,
    pipeline: Pipeline,
    out: Path,
    context: RunContext,
    progress: Callable[[int], None],
    seconds: float,
    stop: asyncio.Event,
) -> Summary | None:
    """Copy all results, then write the report, and mark the batch as delivered. May be repeated. None when it
    was stopped before the report.
    """
    summary = await _export(batch, pipeline.name, out, context, progress, seconds, stop)
    if summary is not None:
        await context.uploads.mark_delivered(batch.no, now=context.clock.now())
    return summary


async def export_batch(
    batch_id: str,
    out: Path,
    context: BatchContext,
    *,
    own_folders: Sequence[Path],
    progress: Callable[[int], None],
    stop: asyncio.Event,
) -> tuple[Batch, Summary | None]:
    """Export a batch that has ended, to any folder and as often as wanted. Does not mark it as delivered: a
    run that was stopped during its own export still completes that.
    """
    batch = await context.batches.get_batch(batch_id)
    if not batch.ended:
        raise Reject(
            f"batch {batch.id} has not ended and its results are not all there; wait, or cancel it first",
            code="still_running",
        )
    await asyncio.to_thread(_prepare_export_folder, out, own_folders)
    began = batch.created_at if batch.started_at is None else batch.started_at
    seconds = max(0.0, (batch.completed_at or began) - began)
    return batch, await _export(batch, batch.pipeline, out, context, progress, seconds, stop)


async def _export(
    batch: Batch,
    pipeline: str,
    out: Path,
    context: BatchContext,
    progress: Callable[[int], None],
    seconds: float,
    stop: asyncio.Event,
) -> Summary | None:
    phases = await context.records.count_tasks(batch.no)
    counts = dict.fromkeys(("files", *FileOutcome, "outputs", "bytes_in", "bytes_out"), 0)
    counts["tasks"] = sum(phase.total for phase in phases)
    counts["from_cache"] = sum(phase.cached for phase in phases)
    failures: list[tuple[str, str, str]] = []
    with ReportWriter(out, batch.id, pipeline) as report, ResultsPage(out, batch.id, pipeline) as page:
        after = ""
        while records := await context.records.list_inputs(batch.no, after=after, limit=PAGE):
            if stop.is_set():
                return None
            after = records[-1].path
            for record, outputs in zip(records, await _place_all(records, out, context.blobs), strict=True):
                _count(counts, record)
                if record.outcome is FileOutcome.FAILED and len(failures) < KEPT_FAILURES:
                    failures += [(record.path, *failure) for failure in list_failures(record)]
                report.add(record, outputs)
                page.add(record, outputs)
            progress(len(records))
        page.finish(counts)
        report.finish(counts, batch, phases, seconds)
    return Summary(counts=counts, failures=failures, report=report.path, page=page.path)


def _prepare_export_folder(out: Path, own_folders: Sequence[Path]) -> None:
    place = out.resolve()
    for ours in own_folders:
        if ours.resolve() in {place, *place.parents}:
            raise Reject(
                f"the output folder {out} is inside {ours}, where Quire keeps its state", code="bad_path"
            )
    prepare(out, (), own_folders)


def prepare(out: Path, roots: Sequence[Path], own_folders: Sequence[Path]) -> None:
    """Check the output folder before any work: better to learn now than after hours that it cannot be written
    to, or that other files would be replaced.
    """
    for root in (root.resolve() for root in roots):
        for ours in (out, *own_folders):
            if ours.resolve() in {root, *root.parents}:
                raise Reject(
                    f"the input {root} is inside {ours}, where Quire writes; choose another folder",
                    code="bad_path",
                )
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not (out / MARK).exists():
            if any(out.iterdir()):
                raise Reject(
                    f"the output folder {out} has files that Quire did not write; choose an empty or new one",
                    code="bad_path",
                )
            (out / MARK).write_text("Results of quire; it replaces files in this folder.\n", encoding="utf-8")
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise Misconfigured(
            f"the output folder {out} cannot be written to ({error.strerror}); choose another --out"
        ) from error


def _count(counts: dict[str, int], record: InputRecord) -> None:
    counts["files"] += 1
    counts[record.outcome] += 1
    counts["outputs"] += len(record.made)
    counts["bytes_in"] += record.size
    counts["bytes_out"] += sum(file.size for _, file in record.made)


async def _place_all(records: Sequence[InputRecord], out: Path, blobs: Blobs) -> list[list[str]]:
    files = [file for record in records for _, file in record.made]
    # A few threads with many files each: a hop for every file would cost as much as its copy.
    shares = [files[at::COPYING_AT_ONCE] for at in range(COPYING_AT_ONCE)]
    remote = [
        file
        for left in await asyncio.gather(
            *(asyncio.to_thread(_place_local, share, out, blobs) for share in shares)
        )
        for file in left
    ]
    for file in remote:
        await _place_remote(file, out, blobs)
    return [[fit_path(file.path) for _, file in record.made] for record in records]


def _place_local(files: Sequence[File], out: Path, blobs: Blobs) -> list[File]:
    """Copy the files whose blobs are on this machine; return the others."""
    remote = []
    for file in files:
        target = out / fit_path(file.path)
        if _has_content(target, file):
            continue
        source = blobs.local_path(file.key)
        if source is None:
            remote.append(file)
            continue
        with _replace_file(target) as part:
            shutil.copyfile(source, part)
    return remote


async def _place_remote(file: File, out: Path, blobs: Blobs) -> None:
    with _replace_file(out / fit_path(file.path)) as part, part.open("wb") as target:
        async for piece in blobs.stream(file.key):
            target.write(piece)


@contextmanager
def _replace_file(target: Path) -> Iterator[Path]:
    """A temporary file beside the target; renamed to it at the end."""
    part = target.with_name(f".{hashlib.sha256(target.name.encode()).hexdigest()[:32]}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        advice = "free some space" if error.errno in {ENOSPC, EDQUOT} else "mend that"
        raise Misconfigured(
            f"cannot write {target}: {error.strerror}; {advice} or choose another --out, then run again"
        ) from error


def _has_content(target: Path, file: File) -> bool:
    try:
        if target.is_symlink() or target.stat().st_size != file.size:
            return False
        digest = hashlib.sha256()
        with target.open("rb") as existing:
            while piece := existing.read(_HASH_BYTES):
                digest.update(piece)
    except OSError:
        return False
    return digest.hexdigest() == file.digest


def fit_path(path: str) -> str:
    """A logical path as a path in the folder: names too long for file systems are cut and get a hash of the
    whole name, so that they stay different; extensions are kept. Uploaded paths begin with a slash, which
    stands for the folder.
    """
    segments = path.removeprefix("/").split("/")
    if any(segment in {"", ".", ".."} for segment in segments):
        raise Bug(f"not a logical path: {path!r}")
    return "/".join(_fit_name(segment) for segment in segments)


def _fit_name(name: str) -> str:
    raw = name.encode()
    if len(raw) <= MAX_NAME_BYTES:
        return name
    mark = "~" + hashlib.sha256(raw).hexdigest()[:10]
    dot = name.find(".", max(0, len(name) - 32))
    ending = name[dot:] if dot >= 0 else ""
    room = MAX_NAME_BYTES - len(mark) - len(ending.encode())
    return raw[:room].decode(errors="ignore") + mark + ending
