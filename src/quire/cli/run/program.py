"""`quire.run`: a folder through a pipeline, from a Python program.

The same as the command `quire run`, with the same settings: the same call again picks up where it left off.
"""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct

from quire.authoring.loading import make_reference
from quire.authoring.modules import is_loading
from quire.authoring.pipeline import Pipeline
from quire.cli.signals import forget_signals, stop_on_signals
from quire.model.errors import Misconfigured, Reject
from quire.tools.shares import this_machine

if TYPE_CHECKING:
    from quire.batches.batch_run import RunResult

Place: TypeAlias = str | PathLike[str]


class FileResult(Struct, frozen=True, kw_only=True):
    """How one file of the folder ended: `status` is done, failed, skipped or cancelled. `outputs` are paths
    in the folder of results.
    """

    path: str
    status: str
    reason: str | None = None
    error_class: str | None = None
    outputs: tuple[str, ...] = ()
    attempts: int = 0


class _Report(Struct):
    files: list[FileResult]


class FinishedRun(Struct, frozen=True, kw_only=True, dict=True):
    """What came of a run. `counts` says how many files are done, failed, skipped …"""

    batch_id: str
    counts: Mapping[str, int]
    report_path: Path
    seconds: float

    @cached_property
    def files(self) -> list[FileResult]:
        """Every file of the folder, from the report."""
        return msgspec.json.decode(self.report_path.read_bytes(), type=_Report).files


def run(
    folder: Place | Sequence[Place],
    *,
    pipeline: Pipeline | str,
    out: Place = "quire-out",
    home: Place | None = None,
    config: Place | None = None,
    settings: Mapping[str, object] | None = None,
    quiet: bool = False,
) -> FinishedRun:
    """Run a folder (or several, or files) through a pipeline, and write results and a report to `out`.

    Returns when every file is done, failed or skipped; progress is shown on a terminal unless `quiet`.
    `pipeline` is one, or a reference to one, as on the command line. `settings` override those of the
    environment and of the file `config`: `{"workers": 4}`.

    Raises Misconfigured when it cannot run, Reject when the batch is held, KeyboardInterrupt when stopped.
    """
    if module := is_loading():
        raise Misconfigured(
            f"{module} calls quire.run while it is imported, and so would every worker; put the call below "
            '`if __name__ == "__main__":`'
        )
    paths = [Path(one) for one in ([folder] if isinstance(folder, str | PathLike) else folder)]
    shares = this_machine()  # one that does not answer would keep this process
    if missing := [str(path) for path in paths if not shares.hold(path) and not path.exists()]:
        raise Misconfigured(f"no such file or folder: {', '.join(missing)}")
    if isinstance(pipeline, Pipeline):
        pipeline.check()
        pipeline = make_reference(pipeline)
    overrides = dict(settings or {}) | ({} if home is None else {"home": str(home)})
    file = None if config is None else Path(config)
    result = _run_beside_loop(_run(paths, Path(out), pipeline, file, overrides, quiet=quiet))
    return _describe(result)


def _run_beside_loop(work: Coroutine[Any, Any, "RunResult"]) -> "RunResult":
    """In a thread of its own where this one has a running event loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, work).result()


async def _run(
    paths: Sequence[Path],
    out: Path,
    wanted: str,
    config: Path | None,
    overrides: Mapping[str, object],
    *,
    quiet: bool,
) -> "RunResult":
    from quire.assembly.engine import open_engine
    from quire.assembly.left_alone import find_code_warnings
    from quire.assembly.member_pipelines import choose_pipeline
    from quire.batches.folder_run import RunRequest, run_folder
    from quire.cli.console import Reporter
    from quire.cli.run.progress import show_progress
    from quire.settings import load_here

    settings = load_here(config=config, overrides=overrides).settings
    name, pipelines = choose_pipeline(settings, wanted)
    request = RunRequest(roots=paths, out=out, pipeline=name, own_folders=[settings.home])
    reporter = Reporter(json_output=quiet)
    on_main_thread = threading.current_thread() is threading.main_thread()
    stop = stop_on_signals(reporter.say) if on_main_thread else asyncio.Event()
    try:
        with show_progress(reporter) as observer:
            async with open_engine(
                settings, pipelines=pipelines, trouble=reporter.report_outage, starts_ahead=True
            ) as components:
                changed = await find_code_warnings(components.records, pipelines, name)
                reporter.warn([*components.warnings, *changed])
                return await run_folder(request, components.run_context(), observer, stop)
    finally:
        if on_main_thread:
            forget_signals()


def _describe(result: "RunResult") -> FinishedRun:
    batch, summary = result.batch, result.summary
    if batch is not None and batch.hold is not None:
        raise Reject(
            f"batch {batch.id} is held: {batch.hold_reason or batch.hold}; to continue: quire batch resume "
            f"{batch.id}, then run this again"
        )
    if batch is None or summary is None:
        raise KeyboardInterrupt("stopped; run the same again to resume")
    if batch.error is not None:
        raise Misconfigured(f"batch {batch.id} could not continue: {batch.error}")
    return FinishedRun(
        batch_id=batch.id,
        counts={str(name): count for name, count in summary.counts.items()},
        report_path=summary.report,
        seconds=result.seconds,
    )
