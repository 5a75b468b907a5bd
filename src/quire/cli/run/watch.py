"""`quire run --watch`: one line of data or one summary for each batch."""

import json
from typing import TYPE_CHECKING

import typer

from quire.batches.batch_run import RunResult
from quire.batches.report import KEPT_REPORTS
from quire.batches.watch import WatchRequest, WatchResult, watch_folder
from quire.cli import exits
from quire.cli.console import Reporter
from quire.cli.run.progress import show_progress
from quire.cli.run.summary import show_held, show_interruption, show_summary
from quire.cli.signals import stop_on_signals

if TYPE_CHECKING:
    from quire.assembly.member_pipelines import MemberPipelines
    from quire.settings import Settings


async def watch(
    request: WatchRequest, settings: "Settings", pipelines: "MemberPipelines", reporter: Reporter
) -> WatchResult:
    from quire.assembly.engine import open_engine
    from quire.assembly.left_alone import find_code_warnings

    stop = stop_on_signals(reporter.say)
    async with open_engine(settings, pipelines=pipelines, trouble=reporter.report_outage) as components:
        changed = await find_code_warnings(components.records, pipelines, request.run.pipeline)
        reporter.warn([*components.warnings, *changed])
        reporter.say("Watching; press Ctrl-C to end.")
        return await watch_folder(
            request,
            components.run_context(),
            lambda: show_progress(reporter),
            lambda result: _show_batch(result, request, json_output=reporter.quiet),
            stop,
        )


def _show_batch(result: RunResult, request: WatchRequest, *, json_output: bool) -> None:
    if not json_output:
        show_summary(result, request.run)
        return
    batch, summary = result.batch, result.summary
    if batch is None or summary is None:
        return
    line = {
        "batch_id": batch.id,
        "status": batch.status,
        "error": batch.error,
        "counts": summary.counts,
        "seconds": round(result.seconds, 3),
        "report": str(request.run.out / KEPT_REPORTS / f"{batch.id}.json"),
    }
    typer.echo(json.dumps(line))


def show_end(result: WatchResult, *, json_output: bool) -> int:
    """Returns the exit code."""
    last = result.last
    if last is None:
        return exits.FINISHED_WITH_FAILURES if result.failed else exits.DONE
    if last.batch is not None and last.batch.hold is not None:
        show_held(last.batch, json_output=json_output)
        return exits.HELD
    if last.summary is None:
        show_interruption(last, json_output=json_output)
        return exits.INTERRUPTED
    return exits.COULD_NOT_RUN
