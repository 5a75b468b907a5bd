"""Progress of a run: bars on a terminal, otherwise a line for each tenth, nothing with --json."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quire.batches.batch_run import RunObserver
from quire.cli.console import Reporter
from quire.cli.text import format_bytes, plural, printable
from quire.model.batch import Batch, Hold, PhaseCounts

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LABELS = {"PDF_SPLIT": "PDF pages", "TIFF_CONVERSION": "TIFF → JPEG", "IMAGE_PROCESSING": "Image variants"}
PLAIN_LINES_PER_PHASE = 10


@contextmanager
def show_progress(reporter: Reporter) -> Iterator[RunObserver]:
    if not reporter.live:
        lines = _Lines(reporter)
        yield lines
        lines.say_last()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        console=reporter.console,
    ) as bars:
        yield _Bars(reporter, bars)


def label(name: str) -> str:
    return LABELS.get(name, name.replace("_", " ").capitalize())


def _describe_scan(files: int, total_bytes: int, passed_over: int) -> str:
    more = f"; {passed_over} not accepted (see the report)" if passed_over else ""
    return f"Found {plural(files, 'file')}, {format_bytes(total_bytes)}{more}"


def _describe_batch(batch: Batch, *, resumed: bool) -> str:
    return f"{'Resuming' if resumed else 'Batch'} {batch.id}"


class _Progress:
    """What bars and lines have in common."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._total = 0  # files found so far
        self._is_whole = False

    def scanned(self, files: int, total_bytes: int, passed_over: int, *, whole: bool) -> None:
        self._total = files
        self._is_whole = whole
        if whole:
            self._reporter.say(_describe_scan(files, total_bytes, passed_over))

    def opened(self, batch: Batch, *, resumed: bool) -> None:
        self._reporter.say(_describe_batch(batch, resumed=resumed))

    def held(self, batch: Batch) -> None:
        if batch.hold is None:
            self._reporter.say("Resumed.")
        elif batch.hold is Hold.PAUSED:
            why = f": {printable(batch.hold_reason)}" if batch.hold_reason else ""
            self._reporter.say(f"Paused{why}. Waiting; to continue: quire batch resume {batch.id}")


class _Bars(_Progress):
    def __init__(self, reporter: Reporter, bars: "Progress") -> None:
        super().__init__(reporter)
        self._bars = bars
        self._rows: dict[str, TaskID] = {}

    def scanned(self, files: int, total_bytes: int, passed_over: int, *, whole: bool) -> None:
        super().scanned(files, total_bytes, passed_over, whole=whole)
        for name in ("Importing", "Exporting"):
            if name in self._rows:
                self._bars.update(self._rows[name], total=files)

    def uploaded(self, files: int) -> None:
        self._bars.advance(self._row("Importing", self._total), files)

    def progressed(self, counts: Sequence[PhaseCounts]) -> None:
        for phase in counts:
            row = self._row(label(phase.name), phase.total)
            note = f"[red]{phase.failed} failed[/red]" if phase.failed else ""
            self._bars.update(row, completed=phase.settled, total=phase.total, note=note)

    def exported(self, files: int) -> None:
        self._bars.advance(self._row("Exporting", self._total), files)

    def _row(self, name: str, total: int) -> "TaskID":
        if name not in self._rows:
            self._rows[name] = self._bars.add_task(name, total=total, note="")
        return self._rows[name]


class _Lines(_Progress):
    """For logs and pipes: a line per tenth of a phase. While folders are still being scanned nobody knows
    what a tenth is, so there are none.
    """

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._taken = 0
        self._said: dict[str, int] = {}
        self._last: dict[str, str] = {}  # line of each phase
        self._unsaid: dict[str, str] = {}

    def uploaded(self, files: int) -> None:
        self._taken += files
        self._line("Importing", self._taken, self._total, "")

    def progressed(self, counts: Sequence[PhaseCounts]) -> None:
        for phase in counts:
            if phase.total and self._taken >= self._total:
                note = f", {phase.failed} failed" if phase.failed else ""
                self._line(label(phase.name), phase.settled, phase.total, note)

    def exported(self, files: int) -> None:
        """The summary says so."""

    def say_last(self) -> None:
        """How phases stand in the end, whose totals have grown since their last line."""
        for line in self._unsaid.values():
            self._reporter.say(line)

    def _line(self, name: str, done: int, total: int, note: str) -> None:
        if not self._is_whole:
            return
        tenth = PLAIN_LINES_PER_PHASE * done // total if total else PLAIN_LINES_PER_PHASE
        line = f"{name}: {done}/{total}{note}"
        if tenth > self._said.get(name, -1):
            self._said[name] = tenth
            self._last[name] = line
            self._unsaid.pop(name, None)
            self._reporter.say(line)
        elif line != self._last[name]:
            self._unsaid[name] = line
