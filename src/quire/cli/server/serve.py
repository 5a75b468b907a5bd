"""`quire serve`: the HTTP API, with a conductor and workers in the same process unless told otherwise."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quire.cli.console import Reporter
from quire.cli.errors import exit_on_error
from quire.cli.signals import stop_on_signals
from quire.cli.text import printable
from quire.settings import Settings, load_here

if TYPE_CHECKING:
    pass


def serve(
    host: Annotated[
        str | None,
        typer.Option("--host", help="Address to listen on; default 127.0.0.1.", show_default=False),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            "-p",
            min=0,
            max=65535,
            help="Port; default 8787, 0 takes a free one.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", min=0, help="Worker processes; default: one per core.")
    ] = None,
    api_only: Annotated[
        bool, typer.Option("--api-only", help="No conductor and no workers: those run elsewhere.")
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="What happens as JSON lines on standard output.")
    ] = False,
    home: Annotated[
        Path | None, typer.Option("--home", help="Where state and stored bytes live.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="A quire.toml to read.", show_default=False)
    ] = None,
) -> None:
    """Serve the HTTP API: collections are uploaded, worked on, followed and fetched.

    On 127.0.0.1 no key is needed. On any other address callers need API keys: make the first one with
    `quire key create --scope admin`. The API is described at /docs and, for programs, at /openapi.json.

    Examples:
      quire serve

      quire serve --port 9000 --workers 4

      quire serve --host 0.0.0.0 --api-only

    Exit codes: 0 ended as asked, 1 could not run, 2 usage, 130 stopped at once by a second Ctrl-C.
    """
    # Here: the web framework takes longer to load than most commands take to run.
    from quire.assembly.server import ServeOptions

    given = {"home": home, "serve.host": host, "serve.port": port}
    overrides = {name: str(value) for name, value in given.items() if value is not None}
    with exit_on_error(json_output=json_output):
        settings = load_here(config=config, overrides=overrides).settings
        talk = Reporter(json_output=json_output, events=True)
        asyncio.run(_serve(settings, ServeOptions(api_only=api_only, workers=workers), talk))


async def _serve(settings: Settings, plan: "ServeOptions", talk: Reporter) -> None:
    from quire.assembly.server import run_server

    stop = stop_on_signals(talk.say)

    def started(at: "ServerInfo") -> None:
        talk.warn(at.warnings)
        doors = "no key is needed" if at.anonymous else "callers need an API key"
        talk.report("started", f"Quire answers on {printable(at.url)} ({doors}); Ctrl-C ends it.", url=at.url)

    await run_server(settings, plan, stop, started=started, trouble=talk.report_outage)
    talk.report("stopped", "The server has stopped; nothing that was accepted is lost.")
