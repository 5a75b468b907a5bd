"""`quire scheduler` and `quire worker`: the engine and its workers, each alone or together."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quire.cli.console import Reporter
from quire.cli.errors import exit_on_error
from quire.cli.options import Config, Home, JsonEvents, OwnPipelines
from quire.cli.signals import stop_on_signals
from quire.cli.text import printable

if TYPE_CHECKING:
    from quire.assembly.member_pipelines import MemberPipelines
    from quire.batches.work import WorkOptions
    from quire.consumers.task_worker import QueueWorker
    from quire.settings import Settings

UntilIdle = Annotated[bool, typer.Option("--until-idle", help="Exit when no batch has work left.")]


def scheduler(
    workers: Annotated[
        int, typer.Option("--workers", "-w", min=0, help="Also run this many worker processes.")
    ] = 0,
    pipeline: OwnPipelines = None,
    until_idle: UntilIdle = False,
    json_output: JsonEvents = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Run the scheduler, which starts, moves and ends batches.

    Any number of schedulers may run at once. Each batch is moved by one of them; if it dies, another
    takes over. A scheduler alone runs no tasks: start workers with `quire worker`, or use --workers. It
    moves batches of the built-in pipelines, of the setting `pipelines` and of --pipeline; others it leaves
    alone.

    Examples:
      quire scheduler
      quire scheduler --workers 4 --until-idle

    Exit codes: 0 stopped as requested, 1 could not run, 2 usage, 130 stopped immediately by a second Ctrl-C.
    """
    from quire.batches.work import WorkOptions

    options = WorkOptions(schedules=True, workers=workers, until_idle=until_idle)
    _start("scheduler", options, pipeline or (), json_output=json_output, home=home, config=config)


def worker(
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-w", min=1, help="Number of worker processes; default: one per core."),
    ] = None,
    from_queue: Annotated[
        bool, typer.Option("--from-queue", help="Take tasks from the queue compute.queue; needs no database.")
    ] = False,
    pipeline: OwnPipelines = None,
    until_idle: UntilIdle = False,
    json_output: JsonEvents = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Run workers, which execute the tasks of batches.

    Any number of workers may run, on any number of machines that share the database (PostgreSQL) and the
    store; on one machine they share a home folder. If a machine dies, the others take over its tasks.
    With --from-queue workers execute the phases whose compute is "queue"; such a machine needs only the
    queues and the store. Code of your own pipelines comes from the setting `pipelines` and from --pipeline
    of this process; tasks of pipelines that it does not have are left to others.

    Examples:
      quire worker
      quire worker --workers 8
      quire worker --from-queue
      quire worker --pipeline words.py

    Exit codes: 0 stopped as requested, 1 could not run, 2 usage, 130 stopped immediately by a second Ctrl-C.
    """
    from quire.batches.work import WorkOptions

    options = WorkOptions(schedules=False, workers=workers, until_idle=until_idle)
    _start(
        "worker",
        options,
        pipeline or (),
        from_queue=from_queue,
        json_output=json_output,
        home=home,
        config=config,
    )


def _start(
    name: str,
    options: "WorkOptions",
    given: Sequence[str],
    *,
    from_queue: bool = False,
    json_output: bool,
    home: Path | None,
    config: Path | None,
) -> None:
    from quire.assembly.member_pipelines import find_own_pipelines
    from quire.settings import load_here

    overrides = {} if home is None else {"home": str(home)}
    with exit_on_error(json_output=json_output):
        settings = load_here(config=config, overrides=overrides).settings
        run = _run_from_queue if from_queue else _run
        reporter = Reporter(json_output=json_output, events=True)
        asyncio.run(run(name, options, settings, find_own_pipelines(settings, given), reporter))


async def _run(
    name: str, options: "WorkOptions", settings: "Settings", pipelines: "MemberPipelines", reporter: Reporter
) -> None:
    from quire.assembly.engine import open_engine
    from quire.batches.work import work

    stop = stop_on_signals(reporter.say)
    async with open_engine(
        settings, pipelines=pipelines, kind=name, trouble=reporter.report_outage, notice=reporter.notice
    ) as components:
        place = "PostgreSQL" if settings.ledger == "postgres" else str(settings.home)
        reporter.warn(components.warnings)
        reporter.report("started", f"The {name} is running on {printable(place)}; press Ctrl-C to stop.")
        await work(options, components.run_context(), stop)
    reporter.report("stopped", f"The {name} has stopped; no work is lost.")


async def _run_from_queue(
    name: str, options: "WorkOptions", settings: "Settings", pipelines: "MemberPipelines", reporter: Reporter
) -> None:
    from quire.assembly.queue_worker import open_queue_worker
    from quire.batches.work import GRACE_SECONDS

    stop = stop_on_signals(reporter.say)
    async with open_queue_worker(
        settings, options.workers, pipelines=pipelines, trouble=reporter.report_outage, notice=reporter.notice
    ) as opened:
        reporter.warn(opened.warnings)
        queue = printable(settings.compute.queue)
        reporter.report("started", f"The {name} is running on the queue {queue}; press Ctrl-C to stop.")
        stopper = asyncio.create_task(_stop_when(stop, opened.worker))
        try:
            await opened.worker.run(grace_seconds=GRACE_SECONDS, until_empty=options.until_idle)
        finally:
            stopper.cancel()
    reporter.report("stopped", f"The {name} has stopped; no work is lost.")


async def _stop_when(stop: asyncio.Event, worker: "QueueWorker") -> None:
    await stop.wait()
    worker.stop()
