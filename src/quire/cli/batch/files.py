"""The files of a batch, written as they are read: lines for people, JSON lines, or CSV for a spreadsheet."""

import csv
import io
from collections.abc import AsyncIterator, Callable, Sequence
from enum import StrEnum

import typer

from quire.batches.lines import FileLine
from quire.cli.batch.lines import file_lines
from quire.cli.options import print_json
from quire.cli.text import plural, printable

# Scripts rely on these: a new column goes to the end.
COLUMNS = ("path", "status", "error_class", "reason", "attempts", "size", "outputs")
# Characters that start a formula in spreadsheets; some accept the full-width forms too.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class FileFormat(StrEnum):
    PEOPLE = "people"
    JSON = "json"
    CSV = "csv"


async def write_files(files: AsyncIterator[FileLine], form: FileFormat) -> None:
    if form is FileFormat.CSV:
        _echo_row(COLUMNS)
    written = 0
    async for file in files:
        _WRITERS[form](file)
        written += 1
    if form is FileFormat.PEOPLE:
        typer.echo(f"{plural(written, 'file')}.", err=True)


def csv_row(cells: Sequence[object]) -> str:
    """Text from outside is never interpreted: no control characters, and no formula."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow([_format_cell(cell) for cell in cells])
    return out.getvalue()


def _format_cell(value: object) -> str:
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _write_text(file: FileLine) -> None:
    for line in file_lines(file):
        typer.echo(line)


def _write_json(file: FileLine) -> None:
    print_json(file, indent=None)


def _write_csv(file: FileLine) -> None:
    words = (file.path, file.status.value, file.error_class or "", file.reason or "")
    _echo_row((*words, file.attempts, file.size, len(file.outputs)))


def _echo_row(cells: Sequence[object]) -> None:
    typer.echo(csv_row(cells))


_WRITERS: dict[FileFormat, Callable[[FileLine], None]] = {
    FileFormat.PEOPLE: _write_text,
    FileFormat.JSON: _write_json,
    FileFormat.CSV: _write_csv,
}
