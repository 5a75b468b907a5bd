"""An overview of the library: once (dashboard), or live (watch)."""

import asyncio
import json
from typing import Annotated

import msgspec
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from quire.assembly.library import describe_location
from quire.cli.library.options import CommonOptions, Verbose, default_bucket, library_command, use_library
from quire.cli.library.output import span
from quire.cli.library.workers import stop_on_signals
from quire.cli.options import print_json
from quire.cli.text import printable
from quire.library.context import LibraryContext
from quire.library.dashboard import Dashboard, DashboardView, RunningJob
from quire.settings import LoadedSettings

BAR = 24  # characters
REDRAW_SECONDS = 0.5
FAILURES_SHOWN = 5
_SILENT = 180.0  # seconds after which silence is worth a colour: three beats
JsonLines = Annotated[bool, typer.Option("--json", help="Print each update as a line of JSON.")]


@library_command()
def dashboard(common: CommonOptions, verbose: Verbose = False) -> None:
    """Show an overview of the library.

    -v adds the last failures.

    Examples:
      quire library dashboard -v

    Exit codes: 0 shown, 1 could not run, 2 usage.
    """

    async def work(context: LibraryContext, loaded: LoadedSettings) -> tuple[DashboardView, str, float]:
        view = await Dashboard(context).refresh(mishaps=20 if verbose else 0)
        return view, describe_location(loaded, default_bucket()), context.clock.now()

    view, place, now = use_library(work, common)
    if common.json_output:
        print_json(view)
    else:
        Console(highlight=False).print(draw(view, place, now=now))


@library_command(json_lines=True)
def watch(
    common: CommonOptions,
    seconds: Annotated[
        float, typer.Option("--interval", "-i", min=0.5, max=86_400, help="Seconds between updates.")
    ] = 10.0,
) -> None:
    """Show a live overview of the library until Ctrl-C.

    Lists the queue a thousand documents at a time, so it is fast for a library of any size.

    Examples:
      quire library watch
      quire library watch -i 60 --json

    Exit codes: 0 stopped by Ctrl-C, 1 could not run, 2 usage.
    """

    async def work(context: LibraryContext, loaded: LoadedSettings) -> None:
        place = describe_location(loaded, default_bucket())
        overview = Dashboard(context)
        stop = stop_on_signals(lambda _: None)
        if common.json_output:
            await overview.run(stop, every_seconds=seconds, mishaps=FAILURES_SHOWN, on_round=_print_line)
        else:
            await _draw_live(overview, stop, seconds, place, context)

    use_library(work, common)


def _print_line(view: DashboardView) -> None:
    typer.echo(json.dumps(msgspec.to_builtins(view)))


async def _draw_live(
    overview: Dashboard, stop: asyncio.Event, seconds: float, place: str, context: LibraryContext
) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        await overview.run(
            stop,
            every_seconds=seconds,
            mishaps=FAILURES_SHOWN,
            on_round=lambda view: console.print(draw(view, place, now=context.clock.now())),
        )
        return
    keeping = asyncio.create_task(overview.run(stop, every_seconds=seconds, mishaps=FAILURES_SHOWN))
    try:
        # Drawn more often than it is asked for: ages go on, and a long first round shows how far it is.
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not keeping.done():
                live.update(draw(overview.view(), place, now=context.clock.now(), live=True), refresh=True)
                await asyncio.wait({keeping}, timeout=REDRAW_SECONDS)
    finally:
        stop.set()
        await keeping


def draw(view: DashboardView, place: str, *, now: float, live: bool = False) -> RenderableType:
    parts: list[RenderableType] = [_draw_head(view, place, live=live), Text(), _draw_counts(view)]
    parts += [Text(), _draw_speed(view)] if live or view.per_hour is not None else []
    if view.running:
        parts += [Text(), _draw_running(view, now)]
    if view.mishaps:
        parts += [Text(), _draw_failures(view)]
    if view.trouble:
        parts += [Text(), Text(f"The store does not answer: {printable(view.trouble)}", style="red")]
    return Group(*parts)


def _draw_head(view: DashboardView, place: str, *, live: bool) -> Text:
    head = Text(f"Library {printable(place)}", style="bold", no_wrap=True, overflow="ellipsis")
    if live:
        listed = f"   listed {span(view.age_seconds)} ago in {view.round_seconds:.1f} s   Ctrl-C stops"
        head.append(listed if view.round_seconds else "   listing …", style="dim")
    return head


def _draw_counts(view: DashboardView) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    most = max((*view.todo.values(), 1))
    for tier, number in view.todo.items():
        table.add_row(tier, f"{number:,}", Text("█" * round(BAR * number / most), style="cyan"))
    table.add_row(Text("waiting", style="bold"), Text(f"{view.waiting:,}", style="bold"))
    table.add_row("processing", f"{view.processing:,}")
    table.add_row("failed", Text(f"{view.failed:,}", style="yellow" if view.failed else ""))
    table.add_row("dead", Text(f"{view.dead:,}", style="red" if view.dead else ""))
    if view.done is None:
        table.add_row("done", "…")
    else:
        age = view.done_age_seconds
        table.add_row("done", f"{view.done:,}", Text(_describe_age(age), style="dim"))
    return table


def _describe_age(age: float) -> str:
    return f"counted {span(age)} ago" if age >= 2 else ""


def _draw_speed(view: DashboardView) -> Text:
    if view.per_hour is None:
        return Text("Throughput is known after the second round.", style="dim")
    watched = span(min(view.watched_seconds, 3600))
    words = f"{view.finished:,} finished; {view.per_hour:,.0f} an hour over the last {watched}"
    if view.eta_seconds is not None:
        words += f"; all done in about {span(view.eta_seconds)}"
    return Text(words)


def _draw_running(view: DashboardView, now: float) -> Table:
    table = _table()
    table.add_column("document", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("worker", no_wrap=True, overflow="ellipsis", width=12)
    table.add_column("stage", no_wrap=True, overflow="ellipsis", width=16)
    table.add_column("try", justify="right", no_wrap=True)
    table.add_column("for", justify="right", no_wrap=True, min_width=9)
    table.add_column("heard", justify="right", no_wrap=True, min_width=9)
    for one in view.running:
        table.add_row(
            Text(printable(one.name) or one.job[:16]),
            Text(printable(one.worker)),
            Text(_stage(one)),
            Text(str(one.attempt), style="yellow" if one.attempt > 1 else ""),
            span(now - one.started_at) if one.started_at else "",
            Text(span(one.silent_seconds), style="red" if one.silent_seconds > _SILENT else ""),
        )
    if view.processing > len(view.running):
        table.add_row(Text(f"… and {view.processing - len(view.running)} more", style="dim"))
    return table


def _table() -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=True)


def _stage(one: RunningJob) -> str:
    words = printable(one.stage)
    if one.percent is not None:
        words += f" {one.percent:.0f} %"
    elif one.pages:
        words += f" {one.pages} p."
    return words


def _draw_failures(view: DashboardView) -> Table:
    table = _table()
    table.add_column("failed or dead", no_wrap=True, min_width=16)
    table.add_column("tries", justify="right", min_width=5)
    table.add_column("error", no_wrap=True, overflow="ellipsis", ratio=1)
    for one in view.mishaps:
        error = printable(one.error.splitlines()[0][:300]) if one.error else ""
        table.add_row(one.job[:16], str(one.attempts), Text(error))
    return table
