"""`quire clean`: what `quire serve` cleans up by itself, looked at or done now."""

import typer

from quire.assembly.presigned import cleaning_terms, open_presigned_uploads
from quire.assembly.components import Components
from quire.cli.batch.options import (
    Config,
    Home,
    Json,
    answered,
    print_json,
)
from quire.cli.text import printable
from quire.ingest.cleanup import (
    CleanupCandidate,
    CleanupResult,
    clean_up,
    due,
)
from quire.settings import Settings


def clean(
    dry_run: bool = typer.Option(False, "--dry-run", help="Only say what would be cleaned up."),
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Give idle uploads up and delete the staged files of batches that ended long ago.

    After how many days is set by cleaning.idle_upload_days and cleaning.staging_days; 0 is never. What the
    next stage has not taken over yet stays. `quire serve` does the same by itself every
    cleaning.every_seconds.

    Examples:
      quire clean --dry-run

      quire clean --json

    Exit codes: 0 done, 1 could not, 2 usage.
    """

    async def look(office: Components, settings: Settings) -> list[CleanupCandidate]:
        return await due(office, cleaning_terms(settings))

    async def work(office: Components, settings: Settings) -> CleanupResult:
        presigned = open_presigned_uploads(settings, office)
        try:
            return await clean_up(office, presigned, cleaning_terms(settings))
        finally:
            await presigned.close()

    if dry_run:
        found = answered(look, home=home, config=config, json_output=json_output)
        if json_output:
            print_json(found)
            return
        for one in found:
            typer.echo(
                f"{printable(one.batch_id)}  {one.kind}  since {one.since}  {one.files} files, {one.bytes} bytes"
            )
        if not found:
            typer.echo("There is nothing to clean up.")
        return
    cleaned = answered(work, home=home, config=config, json_output=json_output)
    if json_output:
        print_json(cleaned)
        return
    typer.echo(
        f"{cleaned.idle_uploads} idle uploads given up, {cleaned.stagings} stagings deleted, "
        f"{cleaned.objects} objects in all."
    )
