"""Commands that keep the library going: worker and janitor."""

import asyncio
import json
import signal
from collections.abc import Callable
from typing import Annotated, Any

import typer

from quire.assembly.library import describe_location
from quire.assembly.library_worker import ManifestLookup, worker_id, worker_options
from quire.cli import exits
from quire.cli.console import Reporter
from quire.cli.library.options import (
    CommonOptions,
    DryRun,
    Verbose,
    default_bucket,
    library_command,
    use_library,
)
from quire.cli.library.output import span
from quire.cli.options import print_json
from quire.cli.signals import forget_signals, stop_twice_on_signals
from quire.cli.text import printable
from quire.library import janitor as janitor_module
from quire.library.context import LibraryContext
from quire.library.manifest import store
from quire.library.worker import loop
from quire.library.worker.run_windows import parse_window
from quire.model.errors import Reject
from quire.settings import LoadedSettings

JsonLines = Annotated[bool, typer.Option("--json", help="Print events as JSON lines to standard output.")]
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_QUIET = {"WARNING", "ERROR", "CRITICAL"}


@library_command(json_lines=True)
def worker(
    common: CommonOptions,
    dry_run: DryRun = False,
    run_once: Annotated[bool, typer.Option("--run-once", help="Convert one document, then exit.")] = False,
    windows: Annotated[
        list[str] | None,
        typer.Option(
            "--run-window",
            help="Work only at these times, such as 22:00-06:00; may be repeated.",
            metavar="HH:MM-HH:MM",
            show_default=False,
        ),
    ] = None,
    abort_outside: Annotated[
        bool,
        typer.Option(
            "--abort-outside-window", help="Return a running document to the queue when the window closes."
        ),
    ] = False,
    isolate: Annotated[
        bool,
        typer.Option("--isolate-conversion", help="No effect: every conversion runs in its own process."),
    ] = False,
) -> None:
    """Convert documents of the library until stopped.

    On INT, TERM, HUP or QUIT the worker returns its document to the queue, without counting the attempt, and
    exits. Any number of workers may run, on any number of machines, alongside workers of the published tools.

    Examples:
      quire library worker
      quire library worker --run-window 22:00-06:00 --abort-outside-window

    Exit codes: 0 stopped as requested, 1 could not run, 2 usage.
    """
    del isolate  # accepted because scripts give it; conversions are always isolated
    for window in windows or ():
        _check_window(window)

    async def work(context: LibraryContext, loaded: LoadedSettings) -> Any:
        settings = loaded.settings
        options = worker_options(
            settings, run_once=run_once, dry_run=dry_run, windows=windows or (), abort_outside=abort_outside
        )
        printer = _EventPrinter(json_output=common.json_output, level=settings.library.log_level)
        stop = stop_on_signals(printer.stopping)
        printer.begin(describe_location(loaded, default_bucket()))
        try:
            return await loop.work(
                context, options, stop, on_event=printer.tell, lookup=ManifestLookup(context)
            )
        finally:
            forget_signals()

    use_library(work, common, probe=not dry_run, shared_rules=True)


def _check_window(text: str) -> None:
    try:
        parse_window(text)
    except Reject as error:
        raise typer.BadParameter(str(error)) from error


def stop_on_signals(said: Callable[[str], None]) -> asyncio.Event:
    """Set by the first signal. After a second one there is a second left to give a job back."""
    return stop_twice_on_signals(_SIGNALS, lambda number: said(number.name))


class _EventPrinter:
    """What a worker tells, for people on stderr, for programs as lines of JSON."""

    def __init__(self, *, json_output: bool, level: str) -> None:
        self._json = json_output
        self._level = level
        self._talk = Reporter(json_output=json_output)
        self._stopping = False

    def begin(self, place: str) -> None:
        if not self._json and self._level not in _QUIET:
            self._talk.say(f"The worker is running on {printable(place)}; press Ctrl-C to stop.")

    def stopping(self, name: str) -> None:
        again = "Still returning" if self._stopping else f"{name}: stopping. Returning"
        self._stopping = True
        self._talk.say(f"{again} the document to the queue …")

    def tell(self, event: Any) -> None:
        kind = str(event.kind.value)
        if self._json:
            typer.echo(json.dumps(_event_document(event, kind)))
        elif (kind == "trouble" or self._level not in _QUIET) and (kind != "idle" or self._level == "DEBUG"):
            self._talk.say(_describe(event, kind))


def _event_document(event: Any, kind: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "event": kind,
        "worker": event.worker,
        "hash": event.job,
        "message": event.text,
    }
    if event.report is not None:
        report = event.report
        document |= {"fate": report.outcome.value, "error": report.error, "seconds": report.seconds}
    return document


def _describe(event: Any, kind: str) -> str:
    job, text = event.job[:12], printable(event.text)
    if event.report is not None:
        report = event.report
        why = f": {printable(report.error or report.trouble)}" if report.error or report.trouble else ""
        return f"{job} {report.outcome.value} after {span(report.seconds)}{why}"
    words = {
        "started": f"worker {event.worker} started",
        "claimed": f"{job} claimed",
        "idle": f"nothing to do; looking again in {text} s" if text else "nothing to do",
        "closed": f"outside the run windows; the next one opens in {text} s",
        "swept": f"maintained the queue: {text}",
        "trouble": f"trouble: {text}",
        "recovered": f"{job}, left by an earlier process: {text}",
        "would_claim": f"would claim {event.job} ({text})",
        "stopped": f"worker {event.worker} stopped",
    }
    return words.get(kind, f"{kind} {job} {text}".strip())


@library_command()
def janitor(common: CommonOptions, dry_run: DryRun = False, verbose: Verbose = False) -> None:
    """Recover stale jobs and queue failed ones again, once.

    Jobs that have failed too often become dead. Workers do this regularly by themselves; run it if
    only workers of the published tools are running.

    Examples:
      quire library janitor --dry-run -v

    Exit codes: 0 done, 1 some jobs could not be checked, or could not run, 2 usage.
    """

    async def work(context: LibraryContext, loaded: LoadedSettings) -> Any:
        manifest = store.LibraryManifest(context)
        name = f"janitor-{worker_id(loaded.settings.library)}"
        return await janitor_module.sweep(context, manifest, dry_run=dry_run, worker=name)

    swept = use_library(work, common, probe=not dry_run, shared_rules=True)
    errors = swept.counts.get("error", 0)
    if common.json_output:
        jobs = [
            {"hash": one.job, "why": one.why, "did": one.done and one.done.value, "error": one.error}
            for one in swept.settled
        ]
        print_json({"dry_run": dry_run, "jobs": swept.jobs, "counts": swept.counts, "settled": jobs})
    else:
        typer.echo(f"{'Dry run: ' if dry_run else ''}{swept.jobs} jobs, {swept.describe()}.")
        for one in swept.settled:
            if verbose or one.done is None:
                did = one.done.value if one.done is not None else "error"
                typer.echo(f"{one.job}  {one.why}: {did} {printable(one.error)}".rstrip())
    raise typer.Exit(exits.COULD_NOT_RUN if errors else exits.DONE)
