"""`quire doctor`: shows what the installation consists of and what is wrong with it.

Promise: always answers, even if the settings cannot be read; the answer is on stdout, as one JSON document
with `--json`; exit code 0 means that quire can run. Must not know: how anything is examined.
"""

import asyncio
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from quire.cli import exits
from quire.cli.options import Config, Home, Json

if TYPE_CHECKING:
    from rich.table import Table

    from quire.assembly.examination import Check, Examination, Section
    from quire.blobs.scrub_record import ScrubRecord
    from quire.model.probe import Probe
    from quire.settings import Library
    from quire.steps.ocr.engines import TierState

_STYLES = {"ok": "green", "warning": "yellow", "missing": "red", "failed": "red"}


def doctor(json_output: Json = False, home: Home = None, config: Config = None) -> None:
    """Check the installation, the settings and the store.

    Checks versions, settings, tools, the sandbox in which files are decoded, the engines that read pictures,
    the home folder, the store and the Redis on which envelopes travel, and gives advice for every problem.

    Examples:
      quire doctor
      quire doctor --home scans/.quire
      quire doctor --json | python -m json.tool

    Exit codes: 0 quire can run (there may be warnings), 1 something is missing, or the store fails its
    probe, 2 usage.
    """
    found = asyncio.run(_examine(home, config))
    if json_output:
        import msgspec

        # json, not msgspec: paths may hold bytes that are not UTF-8, and \\u escapes preserve them.
        document = {"fine": found.is_fine, **msgspec.to_builtins(found)}
        typer.echo(json.dumps(document, indent=2))
    elif sys.stdout.isatty():
        from rich.console import Console

        console = Console()
        for section in found.sections:
            console.print(_table(section))
        console.print(_verdict(found))
    else:
        typer.echo(_encodable("\n".join(_lines(found))))
    raise typer.Exit(exits.DONE if found.is_fine else exits.COULD_NOT_RUN)


async def _examine(home: Path | None, config: Path | None) -> "Examination":
    from quire import settings
    from quire.assembly.examination import examine
    from quire.assembly.redis_lists import travels_on_lists
    from quire.model.errors import Misconfigured

    try:
        loaded = settings.load_here(config, {"home": home})
    except Misconfigured as error:
        return await examine(rows=error, cores=settings.cores(), home=None, probe_store=None)
    in_force = loaded.settings

    async def probe() -> Sequence["Probe"]:
        # Here: assembly imports the adapters, and a broken one is a finding, not the end of the examination.
        from quire.assembly.blobs import probe_store

        return await probe_store(in_force)

    async def load_scrub() -> "ScrubRecord | None":
        from quire.assembly.scrub import load_scrub

        return await load_scrub(in_force)

    async def probe_ledger() -> Sequence["Probe"]:
        from quire.assembly.database import probe_server

        return await probe_server(in_force)

    async def probe_envelopes() -> Sequence["Probe"]:
        from quire.assembly.redis_lists import probe_lists

        return await probe_lists(in_force)

    def probe_tiers() -> Sequence["TierState"]:
        from quire.assembly.ocr_reading import build_reading_options
        from quire.steps.ocr import engines

        return engines.probe_tiers(build_reading_options(in_force.ocr))

    return await examine(
        rows=loaded.rows(),
        cores=settings.cores(),
        home=in_force.home,
        probe_store=probe,
        load_scrub=load_scrub,
        sandbox=in_force.sandbox,
        probe_tiers=probe_tiers,
        probe_envelopes=probe_envelopes if travels_on_lists(in_force) else None,
        probe_server=probe_ledger if in_force.ledger == "postgres" else None,
        features={in_force.store, *_needed_converter(in_force.library)},
    )


def _needed_converter(library: "Library") -> Collection[str]:
    """The converter that workers of the library need, if a library is configured."""
    name = library.converter
    return {"pymupdf4llm" if name == "pymupdf" else name} if library.bucket else ()


def _verdict(found: "Examination") -> str:
    checks = [check for section in found.sections for check in section.checks]
    bad = sum(check.state in {"missing", "failed"} for check in checks)
    warnings = sum(check.state == "warning" for check in checks)
    if bad:
        return f"Quire cannot run: {bad} of {len(checks)} checks failed. See the advice for each."
    return f"Quire can run. {len(checks)} checks, {warnings} with a warning."


def _row(check: "Check") -> tuple[str, str, str]:
    parts = [check.detail, check.advice and f"-> {check.advice}", check.source and f"({check.source})"]
    return check.state, check.name, "\n".join(filter(None, parts[:2])) + (f"  {parts[2]}" if parts[2] else "")


def _table(section: "Section") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(title=section.title, title_justify="left", show_header=False)
    for check in section.checks:
        # Text, not str: rich interprets square brackets in a str as markup.
        state, *cells = _row(check)
        table.add_row(Text(state, style=_STYLES[state]), *(Text(_encodable(cell)) for cell in cells))
    return table


def _lines(found: "Examination") -> Iterator[str]:
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


def _encodable(text: str) -> str:
    """With escapes for what the terminal cannot show: an odd path must not end the command."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
