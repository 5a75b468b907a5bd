"""The files of a batch, written as they are read: lines for people, JSON lines, or CSV for a spreadsheet."""

import csv
import io
from collections.abc import AsyncIterator, Callable, Sequence
from enum import StrEnum

import typer

from quire.batches.lines import FileLine
from quire.cli.batch.options import print_json
from quire.cli.batch.output import file_lines
from quire.cli.text import many, shown

# Scripts rely on these: a new column goes to the end.
COLUMNS = ("path", "status", "error_class", "reason", "attempts", "size", "outputs")
# What spreadsheets begin a formula with; the wide forms are taken for the others by some.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class Form(StrEnum):
    PEOPLE = "people"
    JSON = "json"
    CSV = "csv"


async def write_files(files: AsyncIterator[FileLine], form: Form) -> None:
    if form is Form.CSV:
        _echo_row(COLUMNS)
    written = 0
    async for file in files:
        _WRITERS[form](file)
        written += 1
    if form is Form.PEOPLE:
        typer.echo(f"{many(written, 'file')}.", err=True)


def csv_row(cells: Sequence[object]) -> str:
    """Text from outside is shown, not obeyed: no control characters, and no formula."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow([_cell(cell) for cell in cells])
    return out.getvalue()


def _cell(value: object) -> str:
    text = shown(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _people(file: FileLine) -> None:
    for line in file_lines(file):
        typer.echo(line)


def _json(file: FileLine) -> None:
    print_json(file, indent=None)


def _csv(file: FileLine) -> None:
    words = (file.path, file.status.value, file.error_class or "", file.reason or "")
    _echo_row((*words, file.attempts, file.size, len(file.outputs)))


def _echo_row(cells: Sequence[object]) -> None:
    typer.echo(csv_row(cells))


_WRITERS: dict[Form, Callable[[FileLine], None]] = {
    Form.PEOPLE: _people,
    Form.JSON: _json,
    Form.CSV: _csv,
}
