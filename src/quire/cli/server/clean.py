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
    """Delete old staged files, idle uploads and old recipe photos.

    Staged files are deleted some time after their batch has ended, but never before the next stage has
    taken them over. Of recipe imports that are over, photos and requests are deleted. The settings
    cleaning.idle_upload_days, cleaning.staging_days and cleaning.recipe_days say after how many
    days; 0 means never. `quire serve` does the same every cleaning.every_seconds.

    Examples:
      quire clean --dry-run
      quire clean --json

    Exit codes: 0 done, 1 could not run, 2 usage.
    """
    from quire.assembly.cleaning import list_all_due

    if dry_run:
        found = use_components(
            lambda components, settings: list_all_due(settings, components),
            home=home,
            config=config,
            json_output=json_output,
        )
        if json_output:
            print_json(found)
            return
        from quire.recipes.cleaning import DiscardableImport

        for one in found:
            size = f"{one.files} files, {one.bytes} bytes"
            name = one.job_id if isinstance(one, DiscardableImport) else one.batch_id
            typer.echo(f"{printable(name)}  {one.kind}  since {one.since}  {size}")
        if not found:
            typer.echo("There is nothing to clean up.")
        return
    cleaned, imports = use_components(_clean_up, home=home, config=config, json_output=json_output)
    if json_output:
        from msgspec import structs

        print_json(structs.asdict(cleaned) | {"recipe_imports": imports})
        return
    typer.echo(
        f"{cleaned.idle_uploads} idle uploads abandoned, {cleaned.stagings} staging areas deleted, "
        f"{cleaned.objects} objects in total; the files of {imports} recipe imports deleted."
    )


async def _clean_up(components: "Components", settings: "Settings") -> "tuple[CleanupResult, int]":
    from quire.assembly.cleaning import clean_all
    from quire.assembly.presigned_uploads import open_presigned_uploads

    presigned = open_presigned_uploads(settings, components)
    try:
        return await clean_all(settings, components, presigned)
    finally:
        await presigned.close()
