"""`quire conductor` and `quire worker`: the engine and the workers, each alone or together."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from quire.assembly.house import open_house
from quire.cli.errors import told_to_people
from quire.cli.shown import shown
from quire.cli.stopping import stop_on_signals
from quire.cli.talk import Talk
from quire.service.work import Shift, work
from quire.settings import Settings, load_here

Json = Annotated[bool, typer.Option("--json", help="What happens as JSON lines on standard output.")]
Home = Annotated[
    Path | None, typer.Option("--home", help="Where state and stored bytes live.", show_default=False)
]
Config = Annotated[Path | None, typer.Option("--config", help="A quire.toml to read.", show_default=False)]
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
    shift = Shift(conducts=True, workers=workers, until_idle=until_idle)
    _work("conductor", shift, json_output=json_output, home=home, config=config)


def worker(
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", min=1, help="Worker processes; default: one per core.")
    ] = None,
    until_idle: UntilIdle = False,
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Run workers: take tasks of whatever batches there are and do them.

    Any number may run, on any number of machines that share the database (PostgreSQL) and the store; on one
    machine they share a home folder. Work of a machine that dies is done by the others.

    Examples:
      quire worker

      quire worker --workers 8

    Exit codes: 0 ended as asked, 1 could not run, 2 usage, 130 stopped at once by a second Ctrl-C.
    """
    shift = Shift(conducts=False, workers=workers, until_idle=until_idle)
    _work("worker", shift, json_output=json_output, home=home, config=config)


def _work(kind: str, shift: Shift, *, json_output: bool, home: Path | None, config: Path | None) -> None:
    overrides = {} if home is None else {"home": str(home)}
    with told_to_people(json_output=json_output):
        settings = load_here(config=config, overrides=overrides).settings
        asyncio.run(_serve(kind, shift, settings, Talk(json_output=json_output, events=True)))


async def _serve(kind: str, shift: Shift, settings: Settings, talk: Talk) -> None:
    stop = stop_on_signals(talk.say)
    async with open_house(settings, kind=kind, trouble=talk.trouble) as house:
        place = "PostgreSQL" if settings.ledger == "postgres" else str(settings.home)
        talk.warn(house.warnings)
        talk.happened("started", f"A {kind} is at work on {shown(place)}; Ctrl-C ends it.")
        await work(shift, house, stop)
    talk.happened("stopped", f"The {kind} has stopped; nothing of its work is lost.")
