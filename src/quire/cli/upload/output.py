"""An upload as text: bars on a terminal, otherwise lines; with --json events as JSON lines."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from quire.cli.console import Reporter
from quire.cli.text import format_bytes, plural, printable
from quire.client.answers import Finalized, clean_text
from quire.client.folder_upload import UploadObserver, UploadResult
from quire.client.plan import ExcludedFile, PlannedFile, UploadPlan

SHOWN_FAILURES = 20
PLAIN_LINES = 10


@contextmanager
def show_progress(reporter: Reporter) -> Iterator[UploadObserver]:
    if reporter.quiet:
        yield _Events()
    elif not reporter.live:
        yield _Lines(reporter)
    else:
        with Progress(
            TextColumn("Uploading"),
            BarColumn(bar_width=32),
            DownloadColumn(),
            TransferSpeedColumn(),
            TextColumn("{task.fields[note]}"),
            console=reporter.console,
        ) as bars:
            yield _Bars(reporter, bars)


class _Events:
    """A line of data for each event."""

    def planned(self, plan: UploadPlan) -> None:
        _event("planned", files=len(plan.files), bytes=plan.total_bytes)
        for one in (*plan.skipped, *plan.refused):
            _print_excluded_event(one)

    def noted(self, words: str) -> None:
        _event("note", message=clean_text(words))

    def opened(self, batch_id: str, *, resumed: bool) -> None:
        _event("opened", batch_id=batch_id, resumed=resumed)

    def sent(self, count: int) -> None:
        """There are events for whole files only."""

    def settled(self, file: PlannedFile, *, there: bool, failure: ExcludedFile | None) -> None:
        if failure is not None:
            _print_excluded_event(failure)
        else:
            state = "there" if there else "uploaded"
            _event("file", path=file.path, state=state, logical_path=file.logical_path, size=file.size)

    def finalized(self, batch_id: str, answer: Finalized) -> None:
        warnings = [clean_text(words) for words in answer.warnings]
        _event(
            "finalized",
            batch_id=batch_id,
            status=answer.status,
            files_uploaded=answer.files_uploaded,
            total_bytes=answer.total_bytes,
            warnings=warnings,
        )

    def looked(self, status: str) -> None:
        _event("status", status=clean_text(status))


class _Lines:
    """For logs and pipes: a line for each tenth."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._status = ""
        self._said = -1
        self.files = self.total = 0
        self.done = self.bytes = self.failed = 0

    def planned(self, plan: UploadPlan) -> None:
        self.files, self.total = len(plan.files), plan.total_bytes
        more = f"; {len(plan.skipped)} skipped" if plan.skipped else ""
        refused = f"; {len(plan.refused)} refused" if plan.refused else ""
        self._reporter.say(f"Found {plural(self.files, 'file')}, {format_bytes(self.total)}{more}{refused}")

    def noted(self, words: str) -> None:
        self._reporter.say(printable(words))

    def opened(self, batch_id: str, *, resumed: bool) -> None:
        self.done = self.bytes = self.failed = 0
        self._said = -1
        self._reporter.say(f"{'Resuming batch' if resumed else 'Batch'} {printable(batch_id)}")

    def sent(self, count: int) -> None:
        self.bytes += count

    def settled(self, file: PlannedFile, *, there: bool, failure: ExcludedFile | None) -> None:
        self.done += 1
        self.failed += failure is not None
        if there:
            self.sent(file.size)
        self.show()

    def show(self) -> None:
        tenth = PLAIN_LINES * self.done // self.files
        if tenth > self._said:
            self._said = tenth
            self._reporter.say(
                f"Uploading: {self.done}/{self.files}, {format_bytes(self.bytes)}{self.note()}"
            )

    def note(self) -> str:
        return f", {self.failed} failed" if self.failed else ""

    def finalized(self, batch_id: str, answer: Finalized) -> None:
        self._reporter.say(f"Closed batch {printable(batch_id)}: {printable(answer.status)}")
        self._reporter.warn([clean_text(words) for words in answer.warnings])

    def looked(self, status: str) -> None:
        if status != self._status:
            self._status = status
            self._reporter.say(f"Status: {printable(clean_text(status))}")


class _Bars(_Lines):
    def __init__(self, reporter: Reporter, bars: Progress) -> None:
        super().__init__(reporter)
        self._bars = bars
        self._row = bars.add_task("", total=None, note="")

    def sent(self, count: int) -> None:
        super().sent(count)
        self._bars.update(self._row, completed=self.bytes, total=self.total)

    def show(self) -> None:
        self._bars.update(self._row, note=f"{self.done}/{plural(self.files, 'file')}{self.note()}")


def show_plan(plan: UploadPlan, *, json_output: bool) -> None:
    if json_output:
        for file in plan.files:
            _event(
                "file",
                path=file.path,
                state="would_send",
                logical_path=file.logical_path,
                size=file.size,
                processing_config=dict(file.config),
            )
        for one in (*plan.skipped, *plan.refused):
            _print_excluded_event(one)
        _event("planned", files=len(plan.files), bytes=plan.total_bytes)
        return
    for file in plan.files:
        wanted = " ".join(f"{name}={json.dumps(value)}" for name, value in file.config.items())
        typer.echo(f"{printable(file.logical_path)}  {format_bytes(file.size)}  {printable(wanted)}")
    _print_excluded("Skipped", plan.skipped)
    _print_excluded("Refused", plan.refused)
    typer.echo(f"{plural(len(plan.files), 'file')}, {format_bytes(plan.total_bytes)}; nothing was sent")


def show_result(result: UploadResult, *, json_output: bool) -> None:
    if json_output:
        for one in result.failed_there:
            _event("failed_there", path=one.path, error_class=one.error_class, reason=one.reason)
        _event(
            "ended",
            batch_id=result.batch_id,
            uploaded=result.sent,
            bytes=result.sent_bytes,
            there=result.there,
            failed=len(result.failures),
            skipped=len(result.plan.skipped),
            finalized=result.finalized,
            status=result.status,
            interrupted=result.stopped,
            failed_there=len(result.failed_there),
        )
        return
    _print_excluded("Skipped", result.plan.skipped)
    _print_excluded("Failed", result.failures)
    there = f", {result.there} already uploaded" if result.there else ""
    failed = f", {len(result.failures)} failed" if result.failures else ""
    typer.echo(f"{plural(result.sent, 'file')} uploaded, {format_bytes(result.sent_bytes)}{there}{failed}")
    _print_excluded("Failed on the server", result.failed_there)
    typer.echo(_verdict(result))


def _verdict(result: UploadResult) -> str:
    if result.finalized:
        status = printable(clean_text(result.status)) or "accepted"
        return f"Batch {printable(result.batch_id)} is closed: {status}"
    if result.stopped:
        return "Stopped. Run the same command again to pick up where it left off."
    if result.batch_id is None:
        return "Nothing to upload."
    advice = (
        "fix or remove them and run the same command again, or close the batch without them: --allow-failed"
    )
    return f"Batch {printable(result.batch_id)} stays open because files failed: {advice}"


def _print_excluded(title: str, left_out: Sequence[ExcludedFile]) -> None:
    for one in left_out[:SHOWN_FAILURES]:
        typer.echo(f"{title}: {printable(one.path)}: {printable(one.reason)} ({one.error_class})")
    if len(left_out) > SHOWN_FAILURES:
        typer.echo(f"{title}: {len(left_out) - SHOWN_FAILURES} more; --json lists all")


def _print_excluded_event(one: ExcludedFile) -> None:
    _event("file", path=one.path, state=one.state, error_class=one.error_class, reason=one.reason)


def _event(event: str, **data: object) -> None:
    typer.echo(json.dumps({"event": event, **data}))
