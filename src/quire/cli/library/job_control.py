"""Commands that change jobs: reprioritize, retry, retry-all, cancel, remove, clear-dead."""

from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Any

import typer

from quire.cli import exits
from quire.cli.library.options import (
    CommonOptions,
    DryRun,
    Hash,
    Priority,
    Tier,
    library_command,
    use_document,
    use_library,
)
from quire.cli.options import confirm, print_json
from quire.cli.text import plural, printable
from quire.library import job_control, listing
from quire.library.context import LibraryContext
from quire.library.job_control import JobChange
from quire.library.manifest import store
from quire.settings import LoadedSettings

Reset = Annotated[bool, typer.Option("--reset-retries", help="Start counting attempts from zero.")]
Force = Annotated[bool, typer.Option("--force", help="Do not ask for confirmation.")]


@library_command()
def reprioritize(common: CommonOptions, name: Hash, tier: Tier) -> None:
    """Change the priority of a queued document.

    Examples:
      quire library reprioritize 3f2a9c41 1_critical

    Exit codes: 0 moved, or already there, 1 not queued, or could not run, 2 usage.
    """
    change = use_document(
        lambda context, job: job_control.reprioritize(context, job, tier), name, common, shared_rules=True
    )
    words = f"moved to {tier}" if change.changed else f"is already queued in {tier}"
    _end_with_change(change, words, "was not moved", json_output=common.json_output)


@library_command()
def retry(common: CommonOptions, name: Hash, tier: Priority = None, reset: Reset = False) -> None:
    """Queue a failed, dead or unqueued document again.

    It gets at least one more attempt; with --reset-retries, as many as a new document.

    Examples:
      quire library retry 3f2a9c41
      quire library retry 3f2a9c41 --priority 2_high --reset-retries

    Exit codes: 0 queued, 1 already done, queued or being processed, unknown, or could not run, 2 usage.
    """
    change = use_document(
        lambda context, job: job_control.retry(context, job, tier=tier, reset=reset),
        name,
        common,
        shared_rules=True,
    )
    _end_with_change(
        change, f"queued again in {change.tier}", "was not queued", json_output=common.json_output
    )


@library_command()
def cancel(common: CommonOptions, name: Hash, tier: Priority = None, dry_run: DryRun = False) -> None:
    """Take a document from its worker and queue it again.

    The attempt does not count. The worker notices at its next heartbeat and stops.

    Examples:
      quire library cancel 3f2a9c41 --priority 5_background

    Exit codes: 0 taken back, 1 no worker has it, or could not run, 2 usage.
    """
    change = use_document(
        lambda context, job: job_control.cancel(context, job, tier=tier, dry_run=dry_run),
        name,
        common,
        shared_rules=True,
    )
    words = "would be taken from its worker" if dry_run else f"taken from its worker, queued in {change.tier}"
    _end_with_change(change, words, "was not taken back", json_output=common.json_output, dry_run=dry_run)


def _end_with_change(
    change: JobChange, did: str, did_not: str, *, json_output: bool, dry_run: bool = False
) -> None:
    if json_output:
        print_json({**_change_document(change), "dry_run": dry_run})
    elif change.refused:
        typer.echo(f"{change.job} {did_not}: {printable(change.refused)}.", err=True)
    else:
        typer.echo(f"{change.job} {did}.")
    raise typer.Exit(exits.COULD_NOT_RUN if change.refused else exits.DONE)


def _change_document(change: JobChange) -> dict[str, Any]:
    return {
        "hash": change.job,
        "was": change.was.value,
        "changed": change.changed,
        "priority": change.tier,
        "refused": change.refused,
    }


@library_command()
def retry_all(
    common: CommonOptions,
    failed: Annotated[bool, typer.Option("--failed", help="Only failed documents.")] = False,
    dead: Annotated[bool, typer.Option("--dead", help="Only dead documents.")] = False,
    tier: Priority = None,
    reset: Reset = False,
    dry_run: DryRun = False,
) -> None:
    """Queue all failed and dead documents again.

    Use --failed or --dead to limit this to one of the two.

    Examples:
      quire library retry-all --dead --reset-retries --dry-run
      quire library retry-all --failed --priority 4_low

    Exit codes: 0 all queued, even if there were none, 1 some could not be queued, 2 usage.
    """
    both = failed == dead

    async def work(context: LibraryContext, _loaded: LoadedSettings) -> list[JobChange]:
        found = await listing.list_queue(context, done=False)
        jobs: list[str] = [*(found.failed if failed or both else ()), *(found.dead if dead or both else ())]
        return await _collect(job_control.retry_all(context, jobs, tier=tier, reset=reset, dry_run=dry_run))

    _end_with_changes(
        use_library(work, common, shared_rules=True),
        "would be queued again" if dry_run else "queued again",
        json_output=common.json_output,
        dry_run=dry_run,
    )


@library_command()
def clear_dead(common: CommonOptions, force: Force = False, dry_run: DryRun = False) -> None:
    """Forget all dead documents.

    Their sources are kept, so `retry` can queue a document again.

    Examples:
      quire library clear-dead --dry-run

    Exit codes: 0 cleared, even if there were none, 1 could not run or not confirmed, 2 usage.
    """

    async def list_dead(context: LibraryContext, _loaded: LoadedSettings) -> list[str]:
        return sorted((await listing.list_queue(context, done=False)).dead)

    jobs = use_library(list_dead, common)
    if jobs and not dry_run:
        question = f"Forget {plural(len(jobs), 'document')} that are dead?"
        confirm(question, yes=force, json_output=common.json_output, option="--force")

    async def work(context: LibraryContext, _loaded: LoadedSettings) -> list[JobChange]:
        return await _collect(job_control.clear_dead(context, jobs, dry_run=dry_run))

    words = "would be cleared" if dry_run else "cleared"
    _end_with_changes(
        use_library(work, common) if jobs else [], words, json_output=common.json_output, dry_run=dry_run
    )


@library_command()
def remove(common: CommonOptions, name: Hash, force: Force = False, dry_run: DryRun = False) -> None:
    """Remove a document from the library.

    Removes its source, its place in the queue, its logs and its entry in the manifest. A result is
    kept. A document that is being processed is removed only with --force.

    Examples:
      quire library remove 3f2a9c41 --dry-run

    Exit codes: 0 removed, 1 unknown, being processed, not confirmed, or could not run, 2 usage.
    """
    job, seen = use_document(_inspect, name, common)
    if not seen.refused and not dry_run:
        confirm(
            f"Remove {job} ({seen.was.value}) for good?",
            yes=force,
            json_output=common.json_output,
            option="--force",
        )

    async def work(context: LibraryContext, _loaded: LoadedSettings) -> JobChange:
        change = await job_control.remove(context, job, force=force, dry_run=dry_run)
        if change.changed and not dry_run:
            await store.LibraryManifest(context).remove([job])
        return change

    change = use_library(work, common)
    words = "would be removed" if dry_run else "removed"
    _end_with_change(change, words, "was not removed", json_output=common.json_output, dry_run=dry_run)


async def _inspect(context: LibraryContext, job: str) -> tuple[str, JobChange]:
    return job, await job_control.remove(context, job, force=True, dry_run=True)


async def _collect(outcomes: AsyncIterator[JobChange]) -> list[JobChange]:
    return [outcome async for outcome in outcomes]


def _end_with_changes(outcomes: Iterable[JobChange], words: str, *, json_output: bool, dry_run: bool) -> None:
    change = list(outcomes)
    refused = [one for one in change if one.refused]
    if json_output:
        print_json({"dry_run": dry_run, "jobs": [_change_document(one) for one in change]})
    else:
        typer.echo(f"{plural(len(change) - len(refused), 'document')} {words}.")
        for one in refused:
            typer.echo(f"{one.job}: {printable(one.refused)}", err=True)
    raise typer.Exit(exits.COULD_NOT_RUN if refused else exits.DONE)
