"""`quire ocr worker`: answers requests for OCR until it is stopped."""

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from quire.cli.console import Reporter
from quire.cli.errors import exit_on_error
from quire.cli.options import Config, Home, JsonEvents
from quire.cli.signals import stop_on_signals
from quire.cli.text import printable

if TYPE_CHECKING:
    from quire.assembly.ocr_worker import OpenOcrWorker
    from quire.consumers.deliveries import DeliveryLogEntry
    from quire.ocr.answering import OcrEvent
    from quire.settings import Settings

GRACE_SECONDS = 30.0
_TOLD = {"message_buried": "dead_letter", "lease_lost": "lost", "message_given_back": "given_back"}


def worker(
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-w", min=1, help="Pictures read at once; default: one per core."),
    ] = None,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Exit when no request is left, not even a delayed one.")
    ] = False,
    json_output: JsonEvents = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Read the pictures that requests for OCR name, until stopped.

    Takes requests from the queue jarvis.ocr.jobs: on Redis lists when redis.url is set, in place of a
    published OCR worker or beside it; otherwise on Quire's own queues. Each request gets one answer, on the
    queue that it names. Any number of workers may run; when one dies, another answers its requests. Ctrl-C
    finishes the requests that are being worked on, and returns those that take too long.

    Examples:
      quire ocr worker
      quire ocr worker --workers 4 --json
      quire ocr worker --until-empty

    Exit codes: 0 stopped as requested, 1 could not run, 2 usage, 130 stopped immediately by a second Ctrl-C.
    """
    from quire.settings import OCR_FALLBACKS, load_here

    given = {"home": home, "ocr.workers": workers}
    overrides = {name: str(value) for name, value in given.items() if value is not None}
    with exit_on_error(json_output=json_output):
        settings = load_here(config=config, overrides=overrides, fallbacks=OCR_FALLBACKS).settings
        printer = _EventPrinter(json_output=json_output)
        asyncio.run(_work(settings, printer, until_empty=until_empty))


async def _work(settings: "Settings", printer: "_EventPrinter", *, until_empty: bool) -> None:
    from quire.assembly.ocr_worker import open_ocr_worker

    stop = stop_on_signals(lambda text: printer.reporter.report("stopping", text))
    async with open_ocr_worker(
        settings, report=printer.tell, log=printer.tell_delivery, trouble=printer.reporter.report_outage
    ) as opened:
        printer.begin(opened)
        stopper = asyncio.create_task(_stop_when(stop, opened))
        try:
            await opened.run(grace_seconds=GRACE_SECONDS, until_empty=until_empty)
        finally:
            stopper.cancel()
    printer.end()


async def _stop_when(stop: asyncio.Event, opened: "OpenOcrWorker") -> None:
    await stop.wait()
    opened.consumer.stop()


class _EventPrinter:
    """One line for each request, for people on stderr, for programs as JSON on stdout."""

    def __init__(self, *, json_output: bool) -> None:
        self.reporter = Reporter(json_output=json_output, events=True)
        self._json = json_output
        self._ended: Counter[str] = Counter()

    def begin(self, opened: "OpenOcrWorker") -> None:
        there = ", ".join(name for name, is_there in opened.providers.items() if is_there) or "none"
        missing = ", ".join(name for name, is_there in opened.providers.items() if not is_there)
        self.reporter.report(
            "started",
            f"The OCR worker is running on {opened.place} with {opened.workers} processes. Engines: {there}"
            + (f" (not there: {missing})" if missing else "")
            + "; press Ctrl-C to stop.",
            engines=there,
            missing=missing,
        )

    def tell(self, event: "OcrEvent") -> None:
        import msgspec

        self._ended[event.kind.value] += 1
        if self._json:
            told = msgspec.to_builtins(event)
            typer.echo(json.dumps({"event": told.pop("kind"), **told}))
        else:
            self.reporter.say(_describe(event))

    def tell_delivery(self, entry: "DeliveryLogEntry") -> None:
        """Only what no event of the service says."""
        told = _TOLD.get(entry.event.value)
        if told is not None:
            self._ended[told] += 1
            words = f"{printable(entry.id)} {told.replace('_', ' ')}: {printable(entry.error) or 'no reason'}"
            self.reporter.report(told, words, id=entry.id, error_class=entry.error_class)

    def end(self) -> None:
        counts = ", ".join(
            f"{number} {name.replace('_', ' ')}" for name, number in sorted(self._ended.items())
        )
        self.reporter.report("stopped", f"The OCR worker has stopped; {counts or 'there was nothing to do'}.")


def _describe(event: "OcrEvent") -> str:
    said = f"{printable(event.job_id)} {event.kind.value}"
    if event.images:
        said += f": {event.valid} of {event.images} pictures have text"
    if event.seconds:
        said += f", {event.seconds:.1f} s"
    if event.attempt > 1:
        said += f", attempt {event.attempt}"
    return said + (f" ({printable(event.error)})" if event.error else "")
