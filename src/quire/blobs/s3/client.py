"""Opens the S3 client of obstore: the extra `quire[s3]`."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from quire.model.errors import Misconfigured

if TYPE_CHECKING:
    from obstore.store import S3Store


def open_store(
    bucket: str,
    endpoint: str | None,
    access: Mapping[str, str],
    *,
    allow_http: bool,
    seconds: float,
    checksums: bool = False,
) -> "S3Store":
    """Connects to nothing yet. With `checksums` the SHA-256 of what is written is sent along, for the store
    to check and to keep. Raises Misconfigured when the extra is not installed.
    """
    try:
        from obstore.store import S3Store
    except ImportError as error:
        raise Misconfigured(
            "Blobs in S3 need the package obstore: install quire[s3].", code="extra_missing"
        ) from error
    config: dict[str, Any] = {**access, "endpoint": endpoint} if endpoint else dict(access)
    if checksums:
        config["checksum_algorithm"] = "SHA256"
    return S3Store(
        bucket,
        client_options={"allow_http": allow_http, "timeout": timedelta(seconds=seconds)},
        retry_config={"max_retries": 4, "retry_timeout": timedelta(seconds=seconds)},
        **config,
    )
