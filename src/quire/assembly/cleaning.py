"""What `quire clean` and `quire serve` delete: of uploads, of staged files, and of recipe imports."""

from collections.abc import Sequence

from quire.assembly.components import Components
from quire.assembly.presigned_uploads import build_cleanup_policy
from quire.blobs.presigned_uploads import PresignedUploads
from quire.ingest.cleanup import CleanupCandidate, CleanupResult, clean_up, list_due
from quire.recipes.cleaning import DiscardableImport, discard, list_discardable
from quire.settings import Settings


async def list_all_due(
    settings: Settings, components: Components
) -> Sequence[CleanupCandidate | DiscardableImport]:
    """What a clean-up would delete now: at most two hundred of each kind."""
    return [
        *await list_due(components, build_cleanup_policy(settings)),
        *await list_discardable(components.recipes, components, settings.cleaning.recipe_days),
    ]


async def clean_all(
    settings: Settings, components: Components, presigned: PresignedUploads
) -> tuple[CleanupResult, int]:
    """What was done, and how many recipe imports were emptied. May be repeated, and stopped at any moment."""
    cleaned = await clean_up(components, presigned, build_cleanup_policy(settings))
    return cleaned, await discard(components.recipes, components, settings.cleaning.recipe_days)
