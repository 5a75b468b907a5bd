"""An upload as people and programs see it: bars on a terminal, lines elsewhere, JSON lines with --json."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from quire.cli.console import Talk
from quire.cli.run.progress import amount
from quire.cli.text import many, shown
from quire.client.answers import Finalized, clean_text
from quire.client.folder_upload import UploadObserver, UploadResult
from quire.client.plan import ExcludedFile, PlannedFile, UploadPlan

SHOWN_FAILURES = 20
PLAIN_LINES = 10


@contextmanager
def watcher_for(talk: Talk) -> Iterator[UploadObserver]:
    if talk.quiet:
        yield _Events()
    elif not talk.live:
        yield _Lines(talk)
    else:
        with Progress(
            TextColumn("Uploading"),
            BarColumn(bar_width=32),
            DownloadColumn(),
            TransferSpeedColumn(),
            TextColumn("{task.fields[note]}"),
            console=talk.console,
        ) as bars:
            yield _Bars(talk, bars)


class _Events:
    """A line of data for each thing that happens."""

    def planned(self, plan: UploadPlan) -> None:
        _event("planned", files=len(plan.files), bytes=plan.total_bytes)
        for one in (*plan.skipped, *plan.refused):
            _left_out(one)

    def noted(self, words: str) -> None:
        _event("note", message=clean_text(words))

    def opened(self, batch_id: str, *, resumed: bool) -> None:
        _event("opened", batch_id=batch_id, resumed=resumed)

    def sent(self, count: int) -> None:
        """Only whole files are told."""

    def settled(self, file: PlannedFile, *, there: bool, failure: ExcludedFile | None) -> None:
        if failure is not None:
            _left_out(failure)
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

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._status = ""
        self._said = -1
        self.files = self.total = 0
        self.done = self.bytes = self.failed = 0

    def planned(self, plan: UploadPlan) -> None:
        self.files, self.total = len(plan.files), plan.total_bytes
        more = f"; {len(plan.skipped)} skipped" if plan.skipped else ""
        refused = f"; {len(plan.refused)} refused" if plan.refused else ""
        self._talk.say(f"Found {many(self.files, 'file')}, {amount(self.total)}{more}{refused}")

    def noted(self, words: str) -> None:
        self._talk.say(shown(words))

    def opened(self, batch_id: str, *, resumed: bool) -> None:
        self.done = self.bytes = self.failed = 0
        self._said = -1
        self._talk.say(f"{'Resuming batch' if resumed else 'Batch'} {shown(batch_id)}")

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
            self._talk.say(f"Uploading: {self.done}/{self.files}, {amount(self.bytes)}{self.note()}")

    def note(self) -> str:
        return f", {self.failed} failed" if self.failed else ""

    def finalized(self, batch_id: str, answer: Finalized) -> None:
        self._talk.say(f"Closed batch {shown(batch_id)}: {shown(answer.status)}")
        self._talk.warn([clean_text(words) for words in answer.warnings])

    def looked(self, status: str) -> None:
        if status != self._status:
            self._status = status
            self._talk.say(f"Status: {shown(clean(status))}")


class _Bars(_Lines):
    def __init__(self, talk: Talk, bars: Progress) -> None:
        super().__init__(talk)
        self._bars = bars
        self._row = bars.add_task("", total=None, note="")

    def sent(self, count: int) -> None:
        super().sent(count)
        self._bars.update(self._row, completed=self.bytes, total=self.total)

    def show(self) -> None:
        self._bars.update(self._row, note=f"{self.done}/{many(self.files, 'file')}{self.note()}")


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
            _left_out(one)
        _event("planned", files=len(plan.files), bytes=plan.total_bytes)
        return
    for file in plan.files:
        wanted = " ".join(f"{name}={json.dumps(value)}" for name, value in file.config.items())
        typer.echo(f"{shown(file.logical_path)}  {amount(file.size)}  {shown(wanted)}")
    _listed("Skipped", plan.skipped)
    _listed("Refused", plan.refused)
    typer.echo(f"{many(len(plan.files), 'file')}, {amount(plan.total_bytes)}; nothing was sent")


def show_end(ended: UploadResult, *, json_output: bool) -> None:
    if json_output:
        for one in ended.failed_there:
            _event("failed_there", path=one.path, error_class=one.error_class, reason=one.reason)
        _event(
            "ended",
            batch_id=ended.batch_id,
            uploaded=ended.sent,
            bytes=ended.sent_bytes,
            there=ended.there,
            failed=len(ended.failures),
            skipped=len(ended.plan.skipped),
            finalized=ended.finalized,
            status=ended.status,
            interrupted=ended.stopped,
            failed_there=len(ended.failed_there),
        )
        return
    _listed("Skipped", ended.plan.skipped)
    _listed("Failed", ended.failures)
    there = f", {ended.there} already there" if ended.there else ""
    failed = f", {len(ended.failures)} failed" if ended.failures else ""
    typer.echo(f"{many(ended.sent, 'file')} uploaded, {amount(ended.sent_bytes)}{there}{failed}")
    _listed("Failed there", ended.failed_there)
    typer.echo(_verdict(ended))


def _verdict(ended: UploadResult) -> str:
    if ended.finalized:
        return f"Batch {shown(ended.batch_id)} is closed: {shown(clean(ended.status)) or 'accepted'}"
    if ended.stopped:
        return "Stopped; the same command again goes on where it was."
    if ended.batch_id is None:
        return "Nothing to upload."
    advice = "mend or remove them and run the same command again, or close it without them: --allow-failed"
    return f"Batch {shown(ended.batch_id)} stays open because files failed: {advice}"


def _listed(title: str, left_out: Sequence[ExcludedFile]) -> None:
    for one in left_out[:SHOWN_FAILURES]:
        typer.echo(f"{title}: {shown(one.path)}: {shown(one.reason)} ({one.error_class})")
    if len(left_out) > SHOWN_FAILURES:
        typer.echo(f"{title}: {len(left_out) - SHOWN_FAILURES} more; --json lists all")


def _left_out(one: ExcludedFile) -> None:
    _event("file", path=one.path, state=one.state, error_class=one.error_class, reason=one.reason)


def _event(event: str, **data: object) -> None:
    typer.echo(json.dumps({"event": event, **data}))
