"""`quire run`: a pipeline over files and folders, in this process."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quire.cli import exits
from quire.cli.console import Reporter
from quire.cli.errors import exit_on_error, refuse_unknown_pipelines
from quire.cli.options import Config, Home, Json
from quire.cli.signals import stop_on_signals

if TYPE_CHECKING:
    from quire.assembly.member_pipelines import MemberPipelines
    from quire.batches.batch_run import RunResult
    from quire.batches.folder_run import RunRequest
    from quire.settings import Settings


def run(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders to process.", metavar="PATH")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("quire-out"),
    pipeline: Annotated[
        str,
        typer.Option(
            "--pipeline",
            "-p",
            help="NAME, NAME@VERSION, module:object or file.py[:object].",
            metavar="PIPELINE",
        ),
    ] = "preprocess",
    json_output: Json = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on until Ctrl-C: take files as they arrive.")
    ] = False,
    settle: Annotated[
        float,
        typer.Option(
            "--settle", min=0, help="With --watch: seconds that a file must not change before it is taken."
        ),
    ] = 2.0,
    priority: Annotated[
        str | None,
        typer.Option("--priority", help="Priority, 1_critical to 5_background.", show_default=False),
    ] = None,
    budget_seconds: Annotated[
        float | None,
        typer.Option(
            "--budget-seconds", min=0, help="Hold the batch when it has used this much compute time."
        ),
    ] = None,
    budget_tokens: Annotated[
        int | None,
        typer.Option(
            "--budget-tokens", min=0, help="Hold the batch when it has used this many model tokens."
        ),
    ] = None,
    budget_money: Annotated[
        float | None, typer.Option("--budget-money", min=0, help="Hold the batch when it has cost this much.")
    ] = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Run files and folders through a pipeline.

    The results and a report go to the folder OUT. OUT/report.json lists every file: done with its
    results, or failed or skipped with a reason. The same command run again picks up where it left off;
    finished work is not repeated. A pipeline is a built-in one, one that you have written, or one of the
    setting `pipelines` or of an installed package: see `quire pipeline list`.

    With --watch the command goes on: whenever new files have arrived and stopped growing, they become one
    batch. Each batch has its report in OUT/reports; with --json it prints one line.

    Examples:
      quire run ./scans
      quire run --watch ./inbox --out ./results
      quire run ./scans ./photos --out ./results
      quire run ./scans --pipeline ocr --out ./text
      quire run ./texts --pipeline words.py --out ./results
      quire run ./scans --json | jq .counts

    Exit codes: 0 all done, 3 finished with failed files, 4 held (paused or over budget), 2 usage,
    1 could not run, 130 stopped by Ctrl-C. With --watch, Ctrl-C between two batches ends with 0, or with 3
    if files have failed.
    """
    from quire.assembly.member_pipelines import choose_pipeline
    from quire.batches.folder_run import RunRequest
    from quire.settings import load_here
    from quire.tools.shares import this_machine

    overrides: dict[str, object] = {
        "home": None if home is None else str(home),
        "priority": priority,
        "budget.seconds": budget_seconds,
        "budget.tokens": budget_tokens,
        "budget.money": budget_money,
    }
    with exit_on_error(json_output=json_output):
        shares = this_machine()  # one that does not answer would keep this process
        missing = [path for path in paths if not shares.hold(path) and not path.exists()]
        if missing:
            names = ", ".join(str(path) for path in missing)
            raise typer.BadParameter(f"no such file or folder: {names}")
        settings = load_here(config=config, overrides=overrides).settings
        with refuse_unknown_pipelines():
            name, pipelines = choose_pipeline(settings, pipeline)
        request = RunRequest(roots=paths, out=out, pipeline=name, own_folders=[settings.home])
        reporter = Reporter(json_output=json_output)
        if watch:
            raise typer.Exit(_watch(request, settle, settings, pipelines, reporter))
        result = asyncio.run(_run(request, settings, pipelines, reporter))
    raise typer.Exit(_show_result(result, request, json_output=json_output))


async def _run(
    request: "RunRequest", settings: "Settings", pipelines: "MemberPipelines", reporter: Reporter
) -> "RunResult":
    from quire.assembly.engine import open_engine
    from quire.assembly.left_alone import find_code_warnings
    from quire.batches.folder_run import run_folder
    from quire.cli.run.progress import show_progress

    stop = stop_on_signals(reporter.say)
    with show_progress(reporter) as observer:
        async with open_engine(
            settings, pipelines=pipelines, trouble=reporter.report_outage, starts_ahead=True
        ) as components:
            changed = await find_code_warnings(components.records, pipelines, request.pipeline)
            reporter.warn([*components.warnings, *changed])
            return await run_folder(request, components.run_context(), observer, stop)


def _watch(
    request: "RunRequest",
    settle: float,
    settings: "Settings",
    pipelines: "MemberPipelines",
    reporter: Reporter,
) -> int:
    """Returns the exit code."""
    from quire.batches.watch import WatchRequest
    from quire.cli.run import watch

    wanted = WatchRequest(run=request, settle_seconds=settle)
    result = asyncio.run(watch.watch(wanted, settings, pipelines, reporter))
    return watch.show_end(result, json_output=reporter.quiet)


def _show_result(result: "RunResult", request: "RunRequest", *, json_output: bool) -> int:
    """Returns the exit code."""
    from quire.cli.run.summary import show_held, show_interruption, show_summary

    if result.batch is not None and result.batch.hold is not None:
        show_held(result.batch, json_output=json_output)
        return exits.HELD
    if result.summary is None:
        show_interruption(result, json_output=json_output)
        return exits.INTERRUPTED
    if json_output:
        typer.echo(result.summary.report.read_text(encoding="utf-8"), nl=False)
    else:
        show_summary(result, request)
    batch = result.batch
    if batch is not None and batch.error is not None:
        return exits.COULD_NOT_RUN
    return exits.FINISHED_WITH_FAILURES if result.summary.counts["failed"] else exits.DONE
