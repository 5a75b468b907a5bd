"""Where uploads land, and when what is left of them is cleaned up: from settings."""

from quire.assembly.components import Components
from quire.assembly.secrets import signing_secret
from quire.blobs.local import LocalBlobs
from quire.blobs.presigned import PresignedUploads
from quire.ingest.cleanup import CleanupPolicy
from quire.ingest.context import PART_SIZE
from quire.settings import Settings


def cleaning_terms(settings: Settings) -> CleanupPolicy:
    chosen = settings.cleaning
    return CleanupPolicy(
        idle_upload_days=chosen.idle_upload_days,
        staging_days=chosen.staging_days,
        archives=settings.archive.enabled,
    )


def open_presigned_uploads(settings: Settings, components: Components) -> PresignedUploads:
    if isinstance(components.blobs, LocalBlobs):
        from quire.blobs.local.presigned import LocalPresignedUploads

        return LocalPresignedUploads(
            settings.home / "blobs",
            secret=signing_secret(settings),
            clock=components.clock,
            max_blob_bytes=settings.ingest.max_file_bytes,
            # Clients choose the size of parts: at least one URL for each 10 MiB, so that none is larger.
            max_part_bytes=2 * PART_SIZE,
        )
    from quire.blobs.s3.presigned import S3PresignedUploads

    s3 = settings.s3
    return S3PresignedUploads(
        clock=components.clock,
        bucket=s3.bucket,
        endpoint=s3.endpoint or None,
        public_endpoint=s3.public_endpoint or None,
        region=s3.region,
        access_key_id=s3.access_key_id.reveal(),
        secret_access_key=s3.secret_access_key.reveal(),
        prefix=s3.prefix,
        allow_http=s3.allow_http,
    )
