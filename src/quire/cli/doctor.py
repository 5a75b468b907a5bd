"""`quire doctor`: shows what the house is built of and what is wrong with it.

Promise: always answers, also when the settings cannot be read; the answer is on stdout, as one JSON document
with `--json`; exit code 0 means that quire can run. Must not know: how anything is examined.
"""

import asyncio
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quire import settings
from quire.assembly.examination import (
    Check,
    Examination,
    Section,
    examine,
)
from quire.cli import exits
from quire.model.errors import Misconfigured

_STYLES = {"ok": "green", "warning": "yellow", "missing": "red", "failed": "red"}


def doctor(
    *,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    home: Annotated[Path | None, typer.Option(help="Examine this home folder.")] = None,
    config: Annotated[Path | None, typer.Option(help="Read this file in place of quire.toml.")] = None,
) -> None:
    """Check versions, settings, tools, the home folder and the store, with advice for what is wrong.

    Exit code 0: quire can run (warnings allowed).
    1: something needed is missing, or the store fails its probe.
    2: the command line was not understood.

    For example:

    quire doctor

    quire doctor --home scans/.quire

    quire doctor --json | python -m json.tool
    """
    found = asyncio.run(_examined(home, config))
    if json_output:
        # json, not msgspec: paths may hold bytes that are no UTF-8, and \\u escapes carry them through.
        document = {"fine": found.fine, **msgspec.to_builtins(found)}
        typer.echo(json.dumps(document, indent=2))
    elif (console := Console()).is_terminal:
        for section in found.sections:
            console.print(_table(section))
        console.print(_verdict(found))
    else:
        typer.echo(_printable("\n".join(_lines(found))))
    raise typer.Exit(exits.DONE if found.fine else exits.COULD_NOT_RUN)


async def _examined(home: Path | None, config: Path | None) -> Examination:
    try:
        loaded = settings.load_here(config, {"home": home})
    except Misconfigured as error:
        return await examine(rows=error, cores=settings.cores(), home=None, probe_store=None)
    in_force = loaded.settings

    async def probe_store() -> Sequence[str]:
        # Late: assembly brings in every adapter, and a broken one is a finding, not the end.
        from quire.assembly import batches as assembly

        return await assembly.probe_store(in_force)

    return await examine(
        rows=loaded.rows(),
        cores=settings.cores(),
        home=in_force.home,
        probe_store=probe_store,
        features={in_force.store, *_converter(in_force.library)},
    )


def _converter(library: settings.Library) -> Collection[str]:
    """The one that workers of the library need, where there is a library."""
    name = library.converter
    return {"pymupdf4llm" if name == "pymupdf" else name} if library.bucket else ()


def _verdict(found: Examination) -> str:
    checks = [check for section in found.sections for check in section.checks]
    bad = sum(check.state in {"missing", "failed"} for check in checks)
    warnings = sum(check.state == "warning" for check in checks)
    if bad:
        return f"Quire cannot run: {bad} of {len(checks)} checks failed. The advice is beside each."
    return f"Quire can run. {len(checks)} checks, {warnings} with a warning."


def _row(check: Check) -> tuple[str, str, str]:
    said = [check.detail, check.advice and f"-> {check.advice}", check.source and f"({check.source})"]
    return check.state, check.name, "\n".join(filter(None, said[:2])) + (f"  {said[2]}" if said[2] else "")


def _table(section: Section) -> Table:
    table = Table(title=section.title, title_justify="left", show_header=False)
    for check in section.checks:
        # Text, not str: values may hold square brackets, which rich would take for markup.
        state, *cells = _row(check)
        table.add_row(Text(state, style=_STYLES[state]), *(Text(_printable(cell)) for cell in cells))
    return table


def _lines(found: Examination) -> Iterator[str]:
    width = max(len(check.name) for section in found.sections for check in section.checks)
    for section in found.sections:
        yield section.title
        for check in section.checks:
            state, name, text = _row(check)
            first, *others = text.splitlines()
            yield f"  {state:<8} {name:<{width}}  {first}".rstrip()
            yield from (f"  {'':<8} {'':<{width}}  {line}" for line in others)
        yield ""
    yield _verdict(found)


def _printable(text: str) -> str:
    """What the terminal's encoding cannot show, as escapes: an odd path must not end the command."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
