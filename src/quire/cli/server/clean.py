"""`quire clean`: the clean-up that `quire serve` does at intervals, as a command."""

from typing import TYPE_CHECKING

import typer

from quire.cli.components import use_components
from quire.cli.options import Config, Home, Json, print_json
from quire.cli.text import printable

if TYPE_CHECKING:
    from quire.assembly.components import Components
    from quire.ingest.cleanup import CleanupResult
    from quire.settings import Settings


def clean(
    dry_run: bool = typer.Option(False, "--dry-run", help="Only list what would be cleaned up."),
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Abandon idle uploads and delete old staged files.

    Staged files are deleted some time after their batch has ended, but never before the next stage has
    taken them over. The settings cleaning.idle_upload_days and cleaning.staging_days say after how many
    days; 0 means never. `quire serve` does the same every cleaning.every_seconds.

    Examples:
      quire clean --dry-run
      quire clean --json

    Exit codes: 0 done, 1 could not run, 2 usage.
    """
    from quire.assembly.presigned_uploads import build_cleanup_policy
    from quire.ingest.cleanup import list_due

    if dry_run:
        found = use_components(
            lambda components, settings: list_due(components, build_cleanup_policy(settings)),
            home=home,
            config=config,
            json_output=json_output,
        )
        if json_output:
            print_json(found)
            return
        for one in found:
            size = f"{one.files} files, {one.bytes} bytes"
            typer.echo(f"{printable(one.batch_id)}  {one.kind}  since {one.since}  {size}")
        if not found:
            typer.echo("There is nothing to clean up.")
        return
    cleaned = use_components(_clean_up, home=home, config=config, json_output=json_output)
    if json_output:
        print_json(cleaned)
        return
    typer.echo(
        f"{cleaned.idle_uploads} idle uploads abandoned, {cleaned.stagings} staging areas deleted, "
        f"{cleaned.objects} objects in total."
    )


async def _clean_up(components: "Components", settings: "Settings") -> "CleanupResult":
    from quire.assembly.presigned_uploads import build_cleanup_policy, open_presigned_uploads
    from quire.ingest.cleanup import clean_up

    presigned = open_presigned_uploads(settings, components)
    try:
        return await clean_up(components, presigned, build_cleanup_policy(settings))
    finally:
        await presigned.close()
