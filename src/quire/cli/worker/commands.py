"""`quire conductor` and `quire worker`: the engine and the workers, each alone or together."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from quire.assembly.engine import open_engine
from quire.assembly.queue_worker import open_queue_worker
from quire.batches.work import GRACE_SECONDS, WorkOptions, work
from quire.cli.console import Talk
from quire.cli.errors import told_to_people
from quire.cli.signals import stop_on_signals
from quire.cli.text import shown
from quire.consumers.task_worker import QueueWorker
from quire.settings import Settings, load_here

Json = Annotated[bool, typer.Option("--json", help="What happens as JSON lines on standard output.")]
Home = Annotated[
    Path | None, typer.Option("--home", help="Where state and stored bytes live.", show_default=False)
]
Config = Annotated[Path | None, typer.Option("--config", help="A quire.toml to read.", show_default=False)]
Serve = Callable[[str, WorkOptions, Settings, Talk], Coroutine[Any, Any, None]]
UntilIdle = Annotated[bool, typer.Option("--until-idle", help="End when no batch has anything left to do.")]


def conductor(
    workers: Annotated[int, typer.Option("--workers", "-w", min=0, help="Run so many workers too.")] = 0,
    until_idle: UntilIdle = False,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Run the engine: start batches, find their tasks, fold results, end them.

    Any number of conductors may run at once; each batch is moved by one of them, and when one dies another
    takes over. A conductor alone runs no steps: start workers with `quire worker`, or give --workers.

    Examples:
      quire conductor

      quire conductor --workers 4 --until-idle

    Exit codes: 0 ended as asked, 1 could not run, 2 usage, 130 stopped at once by a second Ctrl-C.
    """
    shift = WorkOptions(conducts=True, workers=workers, until_idle=until_idle)
    _work("conductor", shift, _serve, json_output=json_output, home=home, config=config)


def worker(
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", min=1, help="Worker processes; default: one per core.")
    ] = None,
    from_queue: Annotated[
        bool, typer.Option("--from-queue", help="Take tasks from the queue compute.queue; no database.")
    ] = False,
    until_idle: UntilIdle = False,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Run workers: take tasks of whatever batches there are and do them.

    Any number may run, on any number of machines that share the database (PostgreSQL) and the store; on one
    machine they share a home folder. Work of a machine that dies is done by the others. With --from-queue
    they do the phases whose compute is "queue": then a machine needs the queues and the store alone.

    Examples:
      quire worker

      quire worker --workers 8

      quire worker --from-queue

    Exit codes: 0 ended as asked, 1 could not run, 2 usage, 130 stopped at once by a second Ctrl-C.
    """
    shift = WorkOptions(conducts=False, workers=workers, until_idle=until_idle)
    serve = _serve_queue if from_queue else _serve
    _work("worker", shift, serve, json_output=json_output, home=home, config=config)


def _work(
    kind: str, shift: WorkOptions, serve: Serve, *, json_output: bool, home: Path | None, config: Path | None
) -> None:
    overrides = {} if home is None else {"home": str(home)}
    with told_to_people(json_output=json_output):
        settings = load_here(config=config, overrides=overrides).settings
        asyncio.run(serve(kind, shift, settings, Talk(json_output=json_output, events=True)))


async def _serve(kind: str, shift: WorkOptions, settings: Settings, talk: Talk) -> None:
    stop = stop_on_signals(talk.say)
    async with open_engine(settings, kind=kind, trouble=talk.trouble) as house:
        place = "PostgreSQL" if settings.ledger == "postgres" else str(settings.home)
        talk.warn(house.warnings)
        talk.happened("started", f"A {kind} is at work on {shown(place)}; Ctrl-C ends it.")
        await work(shift, house.run_context(), stop)
    talk.happened("stopped", f"The {kind} has stopped; nothing of its work is lost.")


async def _serve_queue(kind: str, shift: WorkOptions, settings: Settings, talk: Talk) -> None:
    stop = stop_on_signals(talk.say)
    async with open_queue_worker(settings, shift.workers, trouble=talk.trouble) as opened:
        talk.warn(opened.warnings)
        queue = shown(settings.compute.queue)
        talk.happened("started", f"A {kind} is at work on the queue {queue}; Ctrl-C ends it.")
        stopper = asyncio.create_task(_stop_when(stop, opened.worker))
        try:
            await opened.worker.run(grace_seconds=GRACE_SECONDS, until_empty=shift.until_idle)
        finally:
            stopper.cancel()
    talk.happened("stopped", f"The {kind} has stopped; nothing of its work is lost.")


async def _stop_when(stop: asyncio.Event, worker: QueueWorker) -> None:
    await stop.wait()
    worker.stop()
