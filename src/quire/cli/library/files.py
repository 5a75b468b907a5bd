"""Commands that bring files in and out: ingest, convert, hydrate, download, preview."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from quire.assembly.library_worker import convert_file, ingest_options
from quire.cli import exits
from quire.cli.console import Reporter
from quire.cli.errors import exit_on_error
from quire.cli.library.options import (
    CommonOptions,
    DryRun,
    Hash,
    Priority,
    library_command,
    load_settings,
    use_document,
    use_library,
)
from quire.cli.library.output import size_of
from quire.cli.options import Config, Json, print_json
from quire.cli.text import printable
from quire.library import archives, hydration
from quire.library.context import LibraryContext
from quire.library.hydration import HydratedFile, HydrationCounts, HydrationOutcome, HydrationSource
from quire.library.ingest import checksums, pdf_search, run
from quire.library.protocol import layout
from quire.library.protocol.bodies import DEFAULT_TIER
from quire.model.errors import Missing
from quire.settings import LoadedSettings

Paths = Annotated[
    list[str], typer.Argument(help="PDFs, folders or patterns.", metavar="PATH…", show_default=False)
]
SAID_EVERY = 100  # documents


@library_command()
def ingest(common: CommonOptions, paths: Paths, tier: Priority = None, dry_run: DryRun = False) -> None:
    """Add PDFs to the library and queue them for conversion.

    Each PDF is stored once and indexed under every path. PDFs that are already stored are
    skipped. Git LFS pointers count as the files they refer to.

    Examples:
      quire library ingest ./books
      quire library ingest ./books --priority 2_high --dry-run

    Exit codes: 0 done, 1 some files failed, or could not run, 2 usage.
    """
    talk = Reporter(json_output=common.json_output)

    async def work(context: LibraryContext, loaded: LoadedSettings) -> Any:
        options = ingest_options(loaded.settings, tier=tier or DEFAULT_TIER, dry_run=dry_run)
        return await run.ingest(context, paths, options, _print_counts(talk))

    tally = use_library(work, common, probe=not dry_run)
    if common.json_output:
        print_json(tally)
    else:
        for failure in tally.failures:
            typer.echo(f"{printable(failure.path)}: {printable(failure.reason)}", err=True)
        for problem in tally.problems:
            typer.echo(f"Warning: {printable(problem)}", err=True)
        if dry_run:
            typer.echo("Dry run: nothing was changed.")
        for word in ("found", "uploaded", "queued", "skipped"):
            typer.echo(f"{word.capitalize()}: {getattr(tally, word)}")
        if tally.failed:
            typer.echo(f"Failed: {tally.failed}")
    raise typer.Exit(exits.COULD_NOT_RUN if tally.failed else exits.DONE)


def _print_counts(talk: Reporter) -> Any:
    last = 0

    def tell(tally: Any) -> None:
        nonlocal last
        if tally.found >= last + SAID_EVERY:
            last = tally.found
            talk.say(f"{tally.found} found, {tally.uploaded} uploaded, {tally.queued} queued …")

    return tell


def convert(
    path: Annotated[Path, typer.Argument(help="A PDF.", metavar="PATH", exists=True, dir_okay=False)],
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the result.", show_default="./<stem>/")
    ] = None,
    json_output: Json = False,
    config: Config = None,
) -> None:
    """Convert one PDF on this machine, without a bucket.

    Examples:
      quire library convert book.pdf
      quire library convert book.pdf -o ./converted

    Exit codes: 0 converted, 1 could not run, 2 usage.
    """
    talk = Reporter(json_output=json_output)
    with exit_on_error(json_output=json_output):
        settings = load_settings(CommonOptions(json_output=json_output, config=config)).settings
        target = out or Path(path.stem)
        target.mkdir(parents=True, exist_ok=True)
        text, number = asyncio.run(convert_file(settings, path, target, _progress(talk)))
    if json_output:
        print_json({"markdown": str(text), "assets": number})
    else:
        typer.echo(f"{printable(text)}, with {number} pictures.")


def _progress(talk: Reporter) -> Any:
    hydrated = ""

    def tell(sign: Any) -> None:
        nonlocal hydrated
        share = f"{10 * (10 * sign.done // sign.total)} %" if sign.total else ""
        words = f"{sign.stage} {share}".strip()
        if words != hydrated:
            hydrated = words
            talk.say(words)

    return tell


@library_command()
def hydrate_files(
    common: CommonOptions,
    paths: Paths,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Write results next to the PDFs they were made from.

    Writes `<stem>.md` and `<stem>.assets/`. Existing files are kept. A document without a result
    is not an error.

    Examples:
      quire library hydrate ./books
      quire library hydrate ./books --force --dry-run

    Exit codes: 0 done, 1 some could not be written, or could not run, 2 usage.
    """
    talk = Reporter(json_output=common.json_output)
    hydrated: list[HydratedFile] = []

    def on_each(one: HydratedFile) -> None:
        hydrated.append(one)
        if one.outcome is HydrationOutcome.FAILED:
            talk.say(f"{printable(one.path)}: {printable(one.error)}")

    async def work(context: LibraryContext, _loaded: LoadedSettings) -> tuple[HydrationCounts, list[Any]]:
        refused: list[Any] = []
        wanted = _wanted(paths, context, refused)
        return await hydration.hydrate(
            context, wanted, force=force, dry_run=dry_run, on_each=on_each
        ), refused

    tally, refused = use_library(work, common)
    failed = tally.outcomes.get(HydrationOutcome.FAILED, 0) + len(refused)
    counts = {outcome.value: tally.outcomes.get(outcome, 0) for outcome in HydrationOutcome}
    if common.json_output:
        files = [
            {"path": str(one.path), "hash": one.hash, "fate": one.outcome.value, "error": one.error}
            for one in hydrated
        ]
        lost = [{"path": one.path, "hash": "", "fate": "failed", "error": one.reason} for one in refused]
        print_json({**counts, "failed": failed, "dry_run": dry_run, "files": [*files, *lost]})
    else:
        for one in refused:
            typer.echo(f"{printable(one.path)}: {printable(one.reason)}", err=True)
        typer.echo(f"{'Would write' if dry_run else 'Written'}: {counts['written']}")
        typer.echo(f"Kept: {counts['kept']}")
        typer.echo(f"Without a result: {counts['missing']}")
        typer.echo(f"Failed: {failed}")
    raise typer.Exit(exits.COULD_NOT_RUN if failed else exits.DONE)


async def _wanted(
    paths: list[str], context: LibraryContext, refused: list[Any]
) -> AsyncIterator[HydrationSource]:
    """Every PDF with its hash, some at a time and in a thread, as they are read for that."""
    found: Iterator[Any] = pdf_search.find_pdfs(paths)
    sums = checksums.Checksums(context.clock.now)

    def hashed() -> list[HydrationSource | None]:
        """None for what is no PDF: an empty list is the end."""
        wanted: list[HydrationSource | None] = []
        for one in islice(found, 16):
            if isinstance(one, pdf_search.RefusedFile):
                refused.append(one)
                wanted.append(None)
            elif isinstance(one, pdf_search.FoundPdf):
                try:
                    digest = one.pointer.oid if one.pointer else sums.sum(one.path).digest
                except OSError as error:
                    reason = error.strerror or str(error)
                    refused.append(
                        pdf_search.RefusedFile(path=one.relative, code="unreadable", reason=reason)
                    )
                    wanted.append(None)
                else:
                    wanted.append(HydrationSource(one.path, digest))
            else:
                wanted.append(None)
        return wanted

    while some := await asyncio.to_thread(hashed):
        for one in some:
            if one is not None:
                yield one


@library_command()
def download(
    common: CommonOptions,
    name: Hash,
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File, or an existing folder.", show_default="./<hash>.zip"),
    ] = None,
) -> None:
    """Download the result of a document.

    The result is an archive with the Markdown, the pictures and a description of the document.

    Examples:
      quire library download 3f2a9c41 -o book.zip

    Exit codes: 0 written, 1 there is no result, or could not run, 2 usage.
    """

    async def work(context: LibraryContext, job: str) -> tuple[Path, int]:
        target = out or Path(f"{job}.zip")
        if target.is_dir():
            target /= f"{job}.zip"
        part_file = target.with_name(f".{target.name}.{context.ids.ulid()}.part")
        try:
            size = await _fetch_result(context, job, part_file)
            part_file.replace(target)
        finally:
            part_file.unlink(missing_ok=True)
        return target, size

    target, size = use_document(work, name, common)
    if common.json_output:
        print_json({"path": str(target), "bytes": size})
    else:
        typer.echo(f"{printable(target)}: {size_of(size)}")


@library_command()
def preview(
    common: CommonOptions,
    name: Hash,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=100_000, help="Number of lines.")] = 50,
) -> None:
    """Show the first lines of the Markdown of a document.

    Examples:
      quire library preview 3f2a9c41 -n 20

    Exit codes: 0 shown, 1 there is no result, or could not run, 2 usage.
    """

    async def work(context: LibraryContext, job: str) -> list[str]:
        with TemporaryDirectory(prefix="quire-preview-") as folder:
            path = Path(folder, "result.zip")
            await _fetch_result(context, job, path)
            with archives.ResultArchive(path) as archive:
                return archive.lines(lines)

    found = use_document(work, name, common)
    if common.json_output:
        print_json({"lines": found})
    for line in () if common.json_output else found:
        typer.echo(printable(line))


async def _fetch_result(context: LibraryContext, job: str, target: Path) -> int:
    try:
        return await hydration.fetch_result(context, job, target)
    except Missing as error:
        raise Missing(f"{job} has no result ({layout.out(job)}); `status` shows its state.") from error
