"""`quire run`: the embedded run of a pipeline over files and folders."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from quire.assembly.engine import open_engine
from quire.batches.folder_run import RunRequest, RunResult, run_folder
from quire.cli import exits
from quire.cli.console import Talk
from quire.cli.errors import told_to_people
from quire.cli.run.progress import progress_for
from quire.cli.run.summary import show_held, show_interruption, show_summary
from quire.cli.signals import stop_on_signals
from quire.pipelines.registry import PIPELINES
from quire.settings import Settings, load_here


def run(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders to take in.", metavar="PATH…")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where results go.")] = Path("quire-out"),
    pipeline: Annotated[str, typer.Option("--pipeline", "-p", help="Which pipeline.")] = "preprocess",
    json_output: Annotated[
        bool, typer.Option("--json", help="One JSON document on standard output, no progress bars.")
    ] = False,
    priority: Annotated[
        str | None, typer.Option("--priority", help="1_critical to 5_background.", show_default=False)
    ] = None,
    budget_seconds: Annotated[
        float | None,
        typer.Option("--budget-seconds", min=0, help="Hold the batch after so much compute time."),
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option("--budget-tokens", min=0, help="Hold it after so many model tokens.")
    ] = None,
    budget_money: Annotated[
        float | None, typer.Option("--budget-money", min=0, help="Hold it after it has cost so much.")
    ] = None,
    home: Annotated[
        Path | None, typer.Option("--home", help="Where state and stored bytes live.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="A quire.toml to read.", show_default=False)
    ] = None,
) -> None:
    """Run files and folders through a pipeline and lay the results out in a folder.

    Every file comes out: done with its results, or failed or skipped with a reason, in OUT/report.json.
    Running the same command again resumes where it stopped; nothing finished is done twice.

    Examples:
      quire run ./scans

      quire run ./scans ./photos --out ./results

      quire run ./scans --json | jq .counts

    Exit codes: 0 all done, 3 finished with failed files, 4 held (paused, or its budget is spent), 2 usage,
    1 could not run, 130 stopped by Ctrl-C.
    """
    overrides: dict[str, object] = {
        "home": None if home is None else str(home),
        "priority": priority,
        "budget.seconds": budget_seconds,
        "budget.tokens": budget_tokens,
        "budget.money": budget_money,
    }
    with told_to_people(json_output=json_output):
        missing = [path for path in paths if not path.exists()]
        if missing:
            names = ", ".join(str(path) for path in missing)
            raise typer.BadParameter(f"no such file or folder: {names}")
        if pipeline not in PIPELINES:
            known = ", ".join(sorted(PIPELINES))
            raise typer.BadParameter(f"there is no pipeline {pipeline!r}; there are: {known}")
        settings = load_here(config=config, overrides=overrides).settings
        request = RunRequest(roots=paths, out=out, pipeline=pipeline, own_folders=[settings.home])
        ended = asyncio.run(_run(request, settings, Talk(json_output=json_output)))
    raise typer.Exit(_tell(ended, request, json_output=json_output))


async def _run(request: RunRequest, settings: Settings, talk: Talk) -> RunResult:
    stop = stop_on_signals(talk.say)
    with progress_for(talk) as watcher:
        async with open_engine(settings, trouble=talk.trouble) as house:
            talk.warn(house.warnings)
            return await run_folder(request, house.run_context(), watcher, stop)


def _tell(ended: RunResult, request: RunRequest, *, json_output: bool) -> int:
    if ended.batch is not None and ended.batch.hold is not None:
        show_held(ended.batch, json_output=json_output)
        return exits.HELD
    if ended.summary is None:
        show_interruption(ended, json_output=json_output)
        return exits.INTERRUPTED
    if json_output:
        typer.echo(ended.summary.report.read_text(encoding="utf-8"), nl=False)
    else:
        show_summary(ended, request)
    batch = ended.batch
    if batch is not None and batch.error is not None:
        return exits.COULD_NOT_RUN
    return exits.FINISHED_WITH_FAILURES if ended.summary.counts["failed"] else exits.DONE
