"""One conversion: the step `pdf_markdown` on a compute of its own, and the archive of what it made.

Promises: the compute's process, where native code may crash, hang or run out of memory, ends with the
conversion; it is stopped when the conversion takes too long for the pages it has, shows no progress for too
long, or is cancelled; every end is reported in words. The process knows the job's folder, and no keys. Must
not know: the bucket.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from quire.blobs import fixity
from quire.blobs.port import Blobs
from quire.compute.pool.values import load_value
from quire.compute.pool.worker_handle import OnProgress
from quire.library import archives
from quire.library.worker.source import run_to_end
from quire.model.errors import Misconfigured, QuireError, Reject
from quire.model.files import File
from quire.model.signal import Signal
from quire.model.work import Compute, Order, Outcome, Report, StepCall, StepResult
from quire.steps import converters
from quire.steps.registry import STEPS

STEP = "pdf_markdown"
SOURCE, RESULT = "source.pdf", "result.zip"
CONVERTING, PACKAGING = "converting", "packaging"
LOG_BYTES = 64 << 10
LONGEST_SECONDS = 7 * 24 * 3600.0  # however many pages a document claims to have
_TRACEBACK = "Traceback (most recent call last):"
# The fault of this machine, not of the document.
_MACHINE_FAULTS = frozenset({"missing_tool", "wrong_option", "misconfigured", "unknown_step"})


class SourceInfo(Struct, frozen=True, kw_only=True):
    """What the archive records about its source."""

    hash: str
    original_filename: str
    worker_id: str
    converted_at: str
    size_bytes: int
    tags: tuple[str, ...] = ()


class ConversionProgress(Struct, frozen=True, kw_only=True):
    """Pages done, and pages in all as soon as they are known."""

    stage: str = ""
    done: int = 0
    total: int = 0


class ConversionLimits(Struct, frozen=True, kw_only=True):
    """`silent_seconds` is the longest time without progress."""

    seconds: float = 3600.0
    seconds_per_page: float = 60.0
    silent_seconds: float = 3600.0
    memory_mb: int = 4096

    def allowed(self, pages: int) -> float:
        return min(max(self.seconds, self.seconds_per_page * pages), max(self.seconds, LONGEST_SECONDS))


class ConversionResult(Struct, frozen=True, kw_only=True):
    """`error` is empty when the conversion succeeded. `log` is the end of the process's other output."""

    error: str = ""
    traceback: str = ""
    log: str = ""
    stage: str = CONVERTING
    trouble: bool = False  # the fault of this machine, not of the document: a tool is missing


class ConversionCompute(Struct, frozen=True, kw_only=True):
    """A compute for one conversion. `signal` is set when there are reports; `blobs` is its store."""

    compute: Compute
    signal: Signal
    blobs: Blobs


class StartCompute(Protocol):
    def __call__(
        self, folder: Path, on_progress: OnProgress, on_stderr: Callable[[bytes], None]
    ) -> ConversionCompute:
        """Start a compute with a process of its own. Its store is the folder: a file there is a blob by its
        name.
        """
        ...


class ConversionContext(Struct, frozen=True, kw_only=True):
    """What every conversion needs. `options` are those of the step."""

    start: StartCompute
    limits: ConversionLimits
    options: dict[str, Any] = field(default_factory=dict)


class Conversion:
    """`on_progress` is called for each sign of progress."""

    def __init__(self, context: ConversionContext, on_progress: Callable[[ConversionProgress], None]) -> None:
        self._context = context
        self._on_progress = on_progress
        self._log = bytearray()
        self._pages = 0
        self._began = 0.0
        self._deadline: asyncio.Timeout | None = None

    async def run(self, about: SourceInfo, folder: Path) -> ConversionResult:
        """Convert `source.pdf` in the folder to `result.zip` there."""
        started = self._context.start(folder, self._take_progress, self._add_log)
        try:
            report = await self._wait_for_report(started, about)
        finally:
            await started.compute.stop(0)
        if not isinstance(report, Report):
            return self._fail(report.error, trouble=report.trouble)
        if report.result is None:
            return self._explain(report)
        self._on_progress(ConversionProgress(stage=PACKAGING, done=self._pages, total=self._pages))
        try:
            info = await build_info(about, report, started.blobs)
            await run_to_end(partial(pack, report.result, started.blobs, info, folder / RESULT))
        except QuireError as error:
            return self._fail(str(error), stage=PACKAGING)
        return ConversionResult(log=self._read_log(), stage=PACKAGING)

    async def _wait_for_report(
        self, started: ConversionCompute, about: SourceInfo
    ) -> Report | ConversionResult:
        limits, options = self._context.limits, {"links": archives.ASSETS, **self._context.options}
        is_silent = converters.converts_whole(options.get("converter", converters.DEFAULT))
        call = StepCall(
            step=STEP,
            version=STEPS[STEP].version,
            options=options,
            timeout_seconds=max(limits.seconds, LONGEST_SECONDS),  # the limit here comes before it
            stall_seconds=0.0 if is_silent else limits.silent_seconds,
            memory_mb=limits.memory_mb,
        )
        source = File(
            key=SOURCE, path=SOURCE, name=SOURCE, size=about.size_bytes, content_type="application/pdf"
        )
        self._began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(self._began + limits.allowed(0)) as self._deadline:
                await started.compute.submit(call, [Order(1, 1, 1, source)])
                while not (reports := started.compute.take_reports()):
                    await started.signal.wait()
                return reports[0]
        except Misconfigured as error:  # no process can be started
            return ConversionResult(error=str(error), trouble=True)
        except TimeoutError:
            spent = f"{limits.allowed(self._pages):.0f} seconds, the limit for {self._pages} pages"
            return ConversionResult(error=f"the conversion was stopped after {spent}")
        finally:
            self._deadline = None

    def _take_progress(self, _order: Order, done: int, total: int) -> None:
        self._pages = total
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(self._began + self._context.limits.allowed(total))
            self._on_progress(ConversionProgress(stage=CONVERTING, done=done, total=total))

    def _explain(self, report: Report) -> ConversionResult:
        trouble = report.outcome is Outcome.INTERRUPTED or report.error_class in _MACHINE_FAULTS
        error = report.error
        if report.outcome is Outcome.OUT_OF_MEMORY:
            limit = self._context.limits.memory_mb
            error = f"the conversion needed more than its limit of {limit} MB; raise library.memory_mb"
        return self._fail(error, trouble=trouble)

    def _fail(self, error: str, *, stage: str = CONVERTING, trouble: bool = False) -> ConversionResult:
        log = self._read_log()
        trace = log[log.rfind(_TRACEBACK) :] if _TRACEBACK in log else ""
        return ConversionResult(error=error, traceback=trace, log=log, stage=stage, trouble=trouble)

    def _add_log(self, piece: bytes) -> None:
        self._log += piece
        del self._log[:-LOG_BYTES]

    def _read_log(self) -> str:
        return self._log.decode(errors="replace").strip()


async def build_info(about: SourceInfo, report: Report, blobs: Blobs) -> dict[str, Any]:
    """The content of info.json: what is known here, then what the step found out."""
    known = {
        "hash": about.hash,
        "converted_at": about.converted_at,
        "worker_id": about.worker_id,
        "original_filename": about.original_filename,
        "tags": list(about.tags),
        "size_bytes": about.size_bytes,
    }
    value = None if report.result is None else report.result.value
    found = None if value is None else await load_value(blobs, value)
    if not isinstance(found, dict):
        raise Reject("the conversion told nothing about its result", code="bad_result")
    return {**known, **found, **known, "seconds": round(report.seconds, 3)}


def pack(result: StepResult, blobs: Blobs, info: dict[str, Any], target: Path) -> None:
    """Write the archive, then check it: the process that reported its parts has read an untrusted document.
    Raises Reject.
    """
    pictures: dict[str, Path] = {}
    texts: list[Path] = []
    for product in result.products:
        path = blobs.local_path(product.key)
        if path is None:
            raise Reject(f"the conversion's {product.name[:80]!r} is not in its store", code="bad_result")
        fixity.check_file(path, product.digest, product.key)
        if product.role == converters.PICTURE_ROLE:
            pictures[product.name] = path
        else:
            texts.append(path)
    if len(texts) != 1:
        raise Reject("the conversion ended well but left no Markdown", code="bad_result")
    archives.write_archive(target, texts[0], pictures, info)
    with archives.ResultArchive(target) as archive:
        archive.check(info["hash"])
