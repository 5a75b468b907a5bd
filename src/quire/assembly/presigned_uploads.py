"""Presigned uploads and the policy of their cleanup, from settings."""

from quire.assembly.blobs import s3_access
from quire.assembly.components import Components
from quire.assembly.secrets import load_signing_secret
from quire.blobs.presigned_uploads import PresignedUploads
from quire.ingest.cleanup import CleanupPolicy
from quire.ingest.context import PART_SIZE
from quire.settings import Settings


def build_cleanup_policy(settings: Settings) -> CleanupPolicy:
    chosen = settings.cleaning
    return CleanupPolicy(
        idle_upload_days=chosen.idle_upload_days,
        staging_days=chosen.staging_days,
        archives=settings.archive.enabled,
    )


def open_presigned_uploads(settings: Settings, components: Components) -> PresignedUploads:
    access = s3_access(settings)
    if access is None:
        from quire.blobs.local.presigned_uploads import LocalPresignedUploads

        return LocalPresignedUploads(
            settings.home / "blobs",
            secret=load_signing_secret(settings),
            clock=components.clock,
            max_blob_bytes=settings.ingest.max_file_bytes,
            # Clients choose the size of parts: at least one URL for each 10 MiB, so that none is larger.
            max_part_bytes=2 * PART_SIZE,
        )
    from quire.blobs.s3.presigned_uploads import S3PresignedUploads

    public_endpoint = settings.s3.public_endpoint
    return S3PresignedUploads(clock=components.clock, public_endpoint=public_endpoint, **access.address())
