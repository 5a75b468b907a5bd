"""`quire serve`: the HTTP API, by default with a scheduler and workers in the same process."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from quire.cli.console import Reporter
from quire.cli.errors import exit_on_error
from quire.cli.options import Config, Home, JsonEvents, OwnPipelines
from quire.cli.signals import stop_on_signals
from quire.cli.text import printable

if TYPE_CHECKING:
    from quire.assembly.server import ServeOptions, ServerInfo
    from quire.settings import Settings


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
            help="Port to listen on; default 8787, 0 picks a free port.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-w", min=0, help="Number of worker processes; default: one per core."),
    ] = None,
    api_only: Annotated[
        bool, typer.Option("--api-only", help="Run no scheduler and no workers in this process.")
    ] = False,
    pipeline: OwnPipelines = None,
    json_output: JsonEvents = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Serve the HTTP API.

    Clients upload collections, follow their progress and download results. On 127.0.0.1 no API key is
    needed. On any other address clients need a key: create the first one with `quire key create --scope
    admin`. The API is documented at /docs and, for programs, at /openapi.json. Uploads go through the
    pipeline that the setting `ingest.pipeline` names.

    Examples:
      quire serve
      quire serve --port 9000 --workers 4
      quire serve --host 0.0.0.0 --api-only
      QUIRE_INGEST_PIPELINE=words quire serve --pipeline words.py

    Exit codes: 0 stopped as requested, 1 could not run, 2 usage, 130 stopped immediately by a second Ctrl-C.
    """
    from quire.assembly.server import ServeOptions
    from quire.settings import OCR_FALLBACKS, load_here

    given = {"home": home, "serve.host": host, "serve.port": port}
    overrides = {name: str(value) for name, value in given.items() if value is not None}
    with exit_on_error(json_output=json_output):
        settings = load_here(config=config, overrides=overrides, fallbacks=OCR_FALLBACKS).settings
        reporter = Reporter(json_output=json_output, events=True)
        options = ServeOptions(api_only=api_only, workers=workers, pipelines=tuple(pipeline or ()))
        asyncio.run(_serve(settings, options, reporter))


async def _serve(settings: "Settings", options: "ServeOptions", reporter: Reporter) -> None:
    from quire.assembly.server import run_server

    stop = stop_on_signals(reporter.say)

    def report_start(server: "ServerInfo") -> None:
        reporter.warn(server.warnings)
        access = "no API key needed" if server.anonymous else "API key required"
        message = f"Quire is listening on {printable(server.url)} ({access}); press Ctrl-C to stop."
        reporter.report("started", message, url=server.url)

    await run_server(
        settings, options, stop, started=report_start, trouble=reporter.report_outage, notice=reporter.notice
    )
    reporter.report("stopped", "The server has stopped; no accepted file is lost.")
