"""Commands of the library that only look: status, list, workers, logs, and what the index knows."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from quire.assembly.library import describe_location
from quire.cli import exits
from quire.cli.library.options import (
    CommonOptions,
    Hash,
    Verbose,
    default_bucket,
    library_command,
    print_field,
    use_document,
    use_library,
)
from quire.cli.library.output import size_of
from quire.cli.options import print_json
from quire.cli.text import plural, printable
from quire.library import listing
from quire.library.context import LibraryContext
from quire.library.listing import QueueListing
from quire.library.logs import JobLogs, read_logs
from quire.library.manifest import search as manifest_search
from quire.library.manifest import store
from quire.library.protocol.operator import JobStatus
from quire.library.status import DocumentStatus, read_status
from quire.library.worker.registration import RegisteredWorker, list_workers
from quire.model.errors import Missing
from quire.model.objects import ObjectInfo
from quire.settings import LoadedSettings

MOST_SHOWN = 100

FIRST_LINES = {
    JobStatus.DONE: "DONE",
    JobStatus.DEAD: "DEAD (exceeded max retries)",
    JobStatus.FAILED: "FAILED (pending retry)",
    JobStatus.PROCESSING: "PROCESSING",
    JobStatus.QUEUED: "QUEUED",
    JobStatus.RAW: "RAW ONLY (not queued)",
    JobStatus.UNKNOWN: "UNKNOWN (not found)",
}


@library_command()
def show_status(common: CommonOptions, name: Hash) -> None:
    """Show the state of a document.

    The state is done, dead, failed, being processed, queued, stored only or unknown.

    Examples:
      quire library status 3f2a9c41

    Exit codes: 0 found, 1 unknown or could not run, 2 usage.
    """

    async def work(context: LibraryContext, loaded: LoadedSettings) -> tuple[DocumentStatus, str]:
        try:
            job = await listing.resolve_hash(context, name)
        except Missing:
            if not common.json_output:
                typer.echo(f"Status: {FIRST_LINES[JobStatus.UNKNOWN]}")
            raise
        found = await read_status(context, job)
        return found, describe_location(loaded, default_bucket())

    found, place = use_library(work, common)
    if common.json_output:
        print_json(found)
    else:
        typer.echo(f"Status: {FIRST_LINES[found.standing]}")
        _print_status(found, place)
    unknown = found.standing is JobStatus.UNKNOWN
    raise typer.Exit(exits.COULD_NOT_RUN if unknown else exits.DONE)


def _print_status(found: DocumentStatus, place: str) -> None:
    print_field("Hash", found.hash)
    print_field("Name", found.name)
    if found.size is not None:
        print_field("Size", size_of(found.size))
    if found.output:
        print_field("Output", f"{place.rstrip('/')}/{found.output} ({size_of(found.output_bytes)})")
        print_field("Finished", format_time(found.finished_at))
    print_field("Last error" if found.standing is JobStatus.QUEUED else "Error", found.error)
    print_field("Worker", found.worker)
    print_field("Priority", found.priority)
    if found.attempts:
        print_field("Attempts", found.attempts)
    if found.standing is JobStatus.PROCESSING:
        print_field("Started", format_time(found.started_at))
        print_field("Heartbeat", format_time(found.heartbeat_at))
        print_field("Progress", _progress(found.progress))
    if found.mishap and found.standing in {JobStatus.DEAD, JobStatus.FAILED}:
        said = found.mishap.get("context")
        print_field("Stage", said.get("stage") if isinstance(said, dict) else "")
        typer.echo(f"For the traceback and the converter output: logs {found.hash[:12]}")


def _progress(said: Mapping[str, Any]) -> str:
    inner = said.get("marker")
    known = [said.get("stage"), inner.get("tqdm_stage") if isinstance(inner, dict) else None]
    percent = said.get("percent") or (inner.get("percent") if isinstance(inner, dict) else None)
    pages = said.get("page_count")
    words = [str(one) for one in known if isinstance(one, str) and one]
    words += [f"{percent:.0f} %"] if isinstance(percent, int | float) else []
    words += [f"{pages} pages"] if isinstance(pages, int) else []
    return ", ".join(words)


@library_command()
def show_list(common: CommonOptions, verbose: Verbose = False) -> None:
    """Count documents by state and priority.

    Examples:
      quire library list
      quire library list -v

    Exit codes: 0 listed, 1 could not run, 2 usage.
    """
    found = use_library(lambda context, _: listing.list_queue(context), common)
    if common.json_output:
        print_json(_listing_document(found, verbose=verbose))
        return
    typer.echo("TODO")
    for tier, jobs in found.todo.items():
        typer.echo(f"  {tier}: {len(jobs)}")
        _print_names(jobs, verbose=verbose)
    typer.echo(f"  TOTAL: {found.waiting}")
    sections = {"PROCESSING": found.processing, "FAILED": found.failed, "DEAD-LETTER": found.dead}
    for title, there in sections.items():
        typer.echo(f"{title}: {len(there)}")
        _print_names(there, verbose=verbose)
    typer.echo(f"DONE: {found.done}")


def _print_names(jobs: Mapping[str, ObjectInfo] | list[str], *, verbose: bool) -> None:
    if not verbose:
        return
    for job in list(jobs)[:MOST_SHOWN]:
        when = f"  {format_time(jobs[job].modified_at)}" if isinstance(jobs, Mapping) else ""
        typer.echo(f"    {job}{when}")
    if len(jobs) > MOST_SHOWN:
        typer.echo(f"    … and {len(jobs) - MOST_SHOWN} more; --json has all of them")


def _listing_document(found: QueueListing, *, verbose: bool) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "todo": {tier: len(jobs) for tier, jobs in found.todo.items()},
        "todo_total": found.waiting,
        "processing": len(found.processing),
        "failed": len(found.failed),
        "dead": len(found.dead),
        "done": found.done,
    }
    if verbose:
        jobs = {"todo": dict(found.todo), "processing": sorted(found.processing)}
        counts["jobs"] = jobs | {"failed": sorted(found.failed), "dead": sorted(found.dead)}
    return counts


@library_command()
def show_workers(
    common: CommonOptions,
    active: Annotated[bool, typer.Option("--active", help="Only recently seen workers.")] = False,
    verbose: Verbose = False,
) -> None:
    """List registered workers, most recently seen first.

    Examples:
      quire library workers --active

    Exit codes: 0 listed, even if there are none, 1 could not run, 2 usage.
    """
    found: list[RegisteredWorker] = use_library(
        lambda context, _: list_workers(context), common, shared_rules=True
    )
    chosen = [one for one in found if one.active or not active]
    if common.json_output:
        print_json({"workers": chosen})
        return
    if not chosen:
        typer.echo("No worker is active." if active else "No worker has registered yet.")
    for one in chosen:
        said = one.said
        job = str(said.get("current_job") or "")[:12]
        busy = f" on {printable(job)}" if job and one.active else ""
        state = one.status if one.active or one.status == "stopped" else f"silent (was {one.status})"
        typer.echo(
            f"{printable(one.worker_id)}  {printable(state)}{busy}  {printable(said.get('hostname', ''))}  "
            f"seen {format_time(one.seen_at)}"
        )
        metrics = said.get("metrics")
        if verbose and isinstance(metrics, dict):
            for name, value in metrics.items():
                typer.echo(f"    {printable(name)}: {printable(value)}")


@library_command()
def show_logs(
    common: CommonOptions,
    name: Hash,
    kind: Annotated[
        str | None, typer.Option("--type", "-t", help="Only this log; `error` is the last error.")
    ] = None,
) -> None:
    """Show the last error of a document and its converter output.

    Examples:
      quire library logs 3f2a9c41
      quire library logs 3f2a9c41 -t conversion

    Exit codes: 0 shown, 1 there are none or could not run, 2 usage.
    """
    found: JobLogs = use_document(lambda context, job: read_logs(context, job, kind), name, common)
    nothing = not found.error and not found.texts
    if common.json_output:
        print_json(found)
    elif nothing:
        known = f" There are: {', '.join(found.kinds)}." if found.kinds else ""
        typer.echo(f"There is no {kind + ' log' if kind else 'log'} of this document.{known}", err=True)
    else:
        _print_logs(found)
    raise typer.Exit(exits.COULD_NOT_RUN if nothing else exits.DONE)


def _print_logs(found: JobLogs) -> None:
    if found.error:
        print_field("Error", found.error.get("error"))
        print_field("At", found.error.get("timestamp"))
        said = found.error.get("context")
        for key, value in said.items() if isinstance(said, dict) else ():
            print_field(printable(key), value)
        _print_block(str(found.error.get("traceback") or ""))
    for name, text in found.texts.items():
        typer.echo(f"--- {name}.log")
        _print_block(text)


def _print_block(text: str) -> None:
    for line in text.splitlines():
        typer.echo(printable(line.replace("\t", "    ")))


async def _read_manifest(context: LibraryContext) -> Any:
    """Warns of unreadable parts: a damaged manifest must not look like an empty one."""
    view = await store.LibraryManifest(context).read()
    for problem in view.problems:
        typer.echo(f"Warning: {printable(problem)}", err=True)
    return view


@library_command()
def look_up(
    common: CommonOptions,
    by_hash: Annotated[
        str | None, typer.Option("--hash", help="Hash, or its first digits.", metavar="HASH")
    ] = None,
    path: Annotated[str | None, typer.Option("--path", help="Path as ingested, or the end of it.")] = None,
) -> None:
    """Look up a document in the manifest.

    Shows its paths, size, tags and hash.

    Examples:
      quire library lookup --path DnD/PHB.pdf
      quire library lookup --hash 3f2a9c41

    Exit codes: 0 found, 1 not found or could not run, 2 usage.
    """
    if (by_hash is None) == (path is None):
        raise typer.BadParameter("give either --hash or --path")

    async def work(context: LibraryContext, _loaded: LoadedSettings) -> list[Any]:
        view = await _read_manifest(context)
        return (
            [manifest_search.find_by_hash(view, by_hash)]
            if by_hash
            else list(manifest_search.find_by_path(view, path or ""))
        )

    show_hits(
        use_library(work, common), json_output=common.json_output, nothing="The manifest has no such path."
    )


@library_command()
def search(
    common: CommonOptions,
    query: Annotated[str, typer.Argument(help="Part of a name or tag.", show_default=False)],
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number.")] = 20,
) -> None:
    """Find documents by part of a name or tag.

    Examples:
      quire library search "player handbook"

    Exit codes: 0 found, 1 none found or could not run, 2 usage.
    """

    async def work(context: LibraryContext, _loaded: LoadedSettings) -> list[Any]:
        view = await _read_manifest(context)
        return list(manifest_search.search(view, query, limit=limit))

    show_hits(use_library(work, common), json_output=common.json_output, nothing="No document matches.")


@library_command()
def search_queue(
    common: CommonOptions,
    query: Annotated[str, typer.Argument(help="Part of a name or tag.", show_default=False)],
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number.")] = 20,
) -> None:
    """Find unfinished documents by part of a name or tag.

    Examples:
      quire library search-queue handbook

    Exit codes: 0 found, 1 none found or could not run, 2 usage.
    """

    async def work(context: LibraryContext, _loaded: LoadedSettings) -> list[tuple[Any, str]]:
        found = await listing.list_queue(context, done=False)
        view = await _read_manifest(context)
        places = {job: "queued " + tier for tier, jobs in found.todo.items() for job in jobs}
        others = (("processing", found.processing), ("failed", found.failed), ("dead", found.dead))
        places |= {job: word for word, jobs in others for job in jobs}
        known = {job: raw for job, raw in view.entries.items() if job in places}
        open_view = manifest_search.ManifestView(entries=known)
        hits = manifest_search.search(open_view, query, limit=limit)
        return [(hit, places[hit.hash]) for hit in hits]

    found = use_library(work, common)
    statuses = {hit.hash: where for hit, where in found}
    show_hits(
        [hit for hit, _ in found],
        json_output=common.json_output,
        nothing="No unfinished document matches.",
        statuses=statuses,
    )


def show_hits(
    hits: list[Any], *, json_output: bool, nothing: str, statuses: Mapping[str, str] | None = None
) -> None:
    """Ends the command: 1 where there is nothing."""
    if json_output:
        more = [{"standing": statuses[hit.hash]} if statuses else {} for hit in hits]
        print_json({"documents": [_hit_document(hit) | extra for hit, extra in zip(hits, more, strict=True)]})
    elif not hits:
        typer.echo(nothing, err=True)
    for hit in () if json_output else hits:
        where = f"  [{statuses[hit.hash]}]" if statuses else ""
        typer.echo(f"{hit.hash}  {size_of(hit.entry.size)}{where}")
        for path in hit.entry.paths:
            typer.echo(f"    {printable(path)}")
        if hit.entry.tags:
            typer.echo(f"    tags: {printable(', '.join(hit.entry.tags))}")
    if not json_output and len(hits) > 1:
        typer.echo(plural(len(hits), "document"), err=True)
    raise typer.Exit(exits.DONE if hits else exits.COULD_NOT_RUN)


def _hit_document(hit: Any) -> dict[str, Any]:
    entry = hit.entry
    return {
        "hash": hit.hash,
        "paths": list(entry.paths),
        "size": entry.size,
        "tags": list(entry.tags),
        "ingested_at": entry.ingested_at,
        "source": entry.source,
    }


def format_time(seconds: float) -> str:
    if not 0 < seconds < 2**40:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
