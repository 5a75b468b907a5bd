"""Live progress: bars on a terminal, plain lines now and then elsewhere, silence with --json."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from quire.batches.folder_run import RunObserver
from quire.cli.console import Talk
from quire.cli.text import many, shown
from quire.model.batch import Batch, Hold, PhaseCounts

LABELS = {"PDF_SPLIT": "PDF pages", "TIFF_CONVERSION": "TIFF → JPEG", "IMAGE_PROCESSING": "Image variants"}
PLAIN_LINES_PER_PHASE = 10


@contextmanager
def progress_for(talk: Talk) -> Iterator[RunObserver]:
    if not talk.live:
        yield _Lines(talk)
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        console=talk.console,
    ) as bars:
        yield _Bars(talk, bars)


def label(name: str) -> str:
    return LABELS.get(name, name.replace("_", " ").capitalize())


def _greeting(files: int, total_bytes: int, passed_over: int) -> str:
    more = f"; {passed_over} not taken in (reasons in the report)" if passed_over else ""
    return f"Found {many(files, 'file')}, {amount(total_bytes)}{more}"


def _opening(batch: Batch, *, resumed: bool) -> str:
    return f"{'Resuming' if resumed else 'Batch'} {batch.id}"


def amount(number_of_bytes: int) -> str:
    size = float(number_of_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


class _Voice:
    """What both ways of showing have in common."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._total = 0

    def scanned(self, files: int, total_bytes: int, passed_over: int) -> None:
        self._total = files
        self._talk.say(_greeting(files, total_bytes, passed_over))

    def opened(self, batch: Batch, *, resumed: bool) -> None:
        self._talk.say(_opening(batch, resumed=resumed))

    def held(self, batch: Batch) -> None:
        if batch.hold is None:
            self._talk.say("Going on.")
        elif batch.hold is Hold.PAUSED:
            why = f": {shown(batch.hold_reason)}" if batch.hold_reason else ""
            self._talk.say(f"Paused{why}. Waiting; to go on: quire batch resume {batch.id}")


class _Bars(_Voice):
    def __init__(self, talk: Talk, bars: Progress) -> None:
        super().__init__(talk)
        self._bars = bars
        self._rows: dict[str, TaskID] = {}

    def took_in(self, files: int) -> None:
        self._bars.advance(self._row("Taking in", self._total), files)

    def moved(self, counts: Sequence[PhaseCounts]) -> None:
        for phase in counts:
            row = self._row(label(phase.name), phase.total)
            note = f"[red]{phase.failed} failed[/red]" if phase.failed else ""
            self._bars.update(row, completed=phase.settled, total=phase.total, note=note)

    def laid_out(self, files: int) -> None:
        self._bars.advance(self._row("Laying out", self._total), files)

    def _row(self, name: str, total: int) -> TaskID:
        if name not in self._rows:
            self._rows[name] = self._bars.add_task(name, total=total, note="")
        return self._rows[name]


class _Lines(_Voice):
    """For logs and pipes: a line per tenth of a phase."""

    def __init__(self, talk: Talk) -> None:
        super().__init__(talk)
        self._taken = 0
        self._said: dict[str, int] = {}

    def took_in(self, files: int) -> None:
        self._taken += files
        self._line("Taking in", self._taken, self._total, "")

    def moved(self, counts: Sequence[PhaseCounts]) -> None:
        for phase in counts:
            if phase.total:
                note = f", {phase.failed} failed" if phase.failed else ""
                self._line(label(phase.name), phase.settled, phase.total, note)

    def laid_out(self, files: int) -> None:
        """Said by the summary."""

    def _line(self, name: str, done: int, total: int, note: str) -> None:
        tenth = PLAIN_LINES_PER_PHASE * done // total if total else PLAIN_LINES_PER_PHASE
        if tenth > self._said.get(name, -1):
            self._said[name] = tenth
            self._talk.say(f"{name}: {done}/{total}{note}")
