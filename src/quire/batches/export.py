"""Exports the results of a batch to a folder, by logical path, with `report.json` and `index.html`.

Every file is written under a temporary name and renamed: no half-written file is ever visible. A file that
exists with the same content is left alone.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryFile

from msgspec import Struct
from msgspec.structs import replace

from quire.batches.context import BatchContext, RunContext
from quire.batches.layout import Layout
from quire.batches.lines import list_failures
from quire.batches.placing import fit_path, place_files, remove_file
from quire.batches.report import ReportWriter, ResultsPage, is_doubtful, keep_report
from quire.ledger.port import InputRecord
from quire.model.batch import Batch, FileOutcome
from quire.model.errors import DamagedBlob, Misconfigured, Reject
from quire.tools.shares import this_machine

PAGE = 200
MARK = ".quire-out"
KEPT_FAILURES = 100


class Summary(Struct, frozen=True, kw_only=True):
    """The result of an export in numbers. `failures` holds the first few, for display."""

    counts: dict[str, int]
    failures: list[tuple[str, str, str]]  # path, error class, reason
    report: Path
    page: Path


async def export_run(
    batch: Batch,
    out: Path,
    context: RunContext,
    progress: Callable[[int], None],
    seconds: float,
    stop: asyncio.Event,
    layout: Layout | None = None,
    *,
    keeps_report: bool = False,
) -> Summary | None:
    """Copy the results that `layout` has not laid out yet, then write the report, and mark the batch as
    delivered. May be repeated. None when it was stopped before the report.
    """
    summary = await _export(batch, out, context, progress, seconds, stop, layout)
    if summary is not None:
        if keeps_report:
            await asyncio.to_thread(keep_report, out, batch.id)
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
    return batch, await _export(batch, out, context, progress, seconds, stop)


async def _export(
    batch: Batch,
    out: Path,
    context: BatchContext,
    progress: Callable[[int], None],
    seconds: float,
    stop: asyncio.Event,
    layout: Layout | None = None,
) -> Summary | None:
    pipeline = batch.pipeline
    phases = await context.records.count_tasks(batch.no)
    counts = dict.fromkeys(("files", *FileOutcome, "doubtful", "outputs", "bytes_in", "bytes_out"), 0)
    counts["tasks"] = sum(phase.total for phase in phases)
    counts["from_cache"] = sum(phase.cached for phase in phases)
    failures: list[tuple[str, str, str]] = []
    with ReportWriter(out, batch.id, pipeline) as report, ResultsPage(out, batch.id, pipeline) as page:
        after = ""
        while records := await context.records.list_inputs(batch.no, after=after, limit=PAGE):
            if stop.is_set():
                return None
            after = records[-1].path
            missing = [one for one in records if layout is None or not layout.has(one)]
            lost = await place_files([file for one in missing for _, file in one.made], out, context.blobs)
            damaged = {file.path for file in lost}
            for record in (_without_damaged(one, damaged) for one in records):
                outputs = [fit_path(file.path) for _, file in record.made]
                _count(counts, record)
                if record.outcome is FileOutcome.FAILED and len(failures) < KEPT_FAILURES:
                    failures += [(record.path, *failure) for failure in list_failures(record)]
                report.add(record, outputs)
                page.add(record, outputs)
            progress(sum(layout is None or not layout.was_counted(one) for one in records))
        await _remove_withdrawn(batch, out, context)
        page.finish(counts)
        report.finish(counts, batch, phases, seconds)
    return Summary(counts=counts, failures=failures, report=report.path, page=page.path)


def _without_damaged(record: InputRecord, damaged: set[str]) -> InputRecord:
    """The record as it is told: what the store has lost is not among its results, and it has failed."""
    lost = [file for _, file in record.made if file.path in damaged]
    if not lost:
        return record
    return replace(
        record,
        outcome=FileOutcome.FAILED,
        error_class=DamagedBlob.code,
        reason=(
            f"Quire's stored copy of the result {lost[0].path!r} is damaged or gone, so it was not laid out; "
            "the file that was sent is not to blame. Run again: the result is made anew"
        ),
        made=[one for one in record.made if one[1].path not in damaged],
    )


async def _remove_withdrawn(batch: Batch, out: Path, context: BatchContext) -> None:
    """What a later round withdrew and nothing replaced leaves the folder."""
    after = 0
    while batch.position.round > 1 and (
        page := await context.intake.list_withdrawn(batch.no, after=after, limit=PAGE)
    ):
        after = page[-1][0]
        for _, file in page:
            await asyncio.to_thread(remove_file, file, out)


def _prepare_export_folder(out: Path, own_folders: Sequence[Path]) -> None:
    place = this_machine().resolve(out)
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
    for root in map(this_machine().resolve, roots):
        for ours in (out, *own_folders):
            if this_machine().resolve(ours) in {root, *root.parents}:
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
    counts["doubtful"] += is_doubtful(record)
    counts["outputs"] += len(record.made)
    counts["bytes_in"] += record.size
    counts["bytes_out"] += sum(file.size for _, file in record.made)
