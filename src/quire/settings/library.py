"""The library: which bucket, how jobs in it are tried, how its worker behaves."""

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from quire.blobs import keys
from quire.model.errors import Reject
from quire.settings.basics import Secret, about

# Settings that are not set elsewhere come from the first of these variables that is set: those of the
# published tools, then the common ones of S3 programs.
LIBRARY_FALLBACKS: dict[str, tuple[str, ...]] = {
    "library.bucket": ("BLOBFORGE_S3_BUCKET",),
    "library.prefix": ("BLOBFORGE_S3_PREFIX",),
    "library.endpoint": ("BLOBFORGE_S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "library.region": ("BLOBFORGE_S3_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"),
    "library.access_key_id": ("BLOBFORGE_S3_ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID"),
    "library.secret_access_key": ("BLOBFORGE_S3_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY"),
    "library.max_retries": ("BLOBFORGE_MAX_RETRIES",),
    "library.heartbeat_seconds": ("BLOBFORGE_HEARTBEAT_INTERVAL",),
    "library.stale_minutes": ("BLOBFORGE_STALE_TIMEOUT_MINUTES",),
    "library.conversion_seconds": ("BLOBFORGE_CONVERSION_TIMEOUT",),
    "library.worker_id": ("BLOBFORGE_WORKER_ID",),
    "library.log_level": ("BLOBFORGE_LOG_LEVEL",),
}
# Variables with shorter names than the rule gives.
SHORT_NAMES = {"QUIRE_BUCKET": "library.bucket"}


class Library(Struct, frozen=True, kw_only=True):
    """For `quire library`. `registry/config.json` in the bucket counts where nothing is set here."""

    bucket: Annotated[str, about("name of the bucket, s3://name/prefix, or file:///folder")] = ""
    prefix: Annotated[str, about("prefix of all keys in the bucket; / means no prefix")] = "pdf/"
    endpoint: Annotated[str, about("URL of the S3 server; empty for AWS")] = ""
    region: Annotated[str, about("region of the bucket", min_length=1)] = "us-east-1"
    access_key_id: Annotated[Secret, about("name of the access key; never shown")] = Secret()
    secret_access_key: Annotated[Secret, about("secret half of the access key; never shown")] = Secret()
    allow_http: Annotated[bool, about("permit an endpoint without TLS on another machine")] = False
    max_retries: Annotated[int, about("attempts at a job after the first one", ge=0, le=1000)] = 3
    heartbeat_seconds: Annotated[float, about("seconds between heartbeats of a worker", ge=1, le=3600)] = 60.0
    stale_minutes: Annotated[float, about("silence after which a worker loses its job", gt=0, le=10_080)] = (
        15.0
    )
    conversion_seconds: Annotated[
        float, about("longest conversion, whatever the number of pages", gt=0, le=604_800)
    ] = 3600.0
    seconds_per_page: Annotated[
        float, about("limit for each page, if the sum is longer", ge=0, le=86_400)
    ] = 60.0
    silent_seconds: Annotated[
        float, about("longest conversion without progress; 0 is conversion_seconds", ge=0, le=604_800)
    ] = 0.0
    converter: Annotated[
        Literal["liteparse", "pdfium", "pymupdf", "pymupdf4llm", "marker", "opendataloader"],
        about("what converts PDFs to Markdown; pymupdf is pymupdf4llm"),
    ] = "liteparse"
    memory_mb: Annotated[int, about("memory one conversion may use", ge=256, le=1 << 20)] = 4096
    worker_id: Annotated[str, about("name of the worker; empty: derived from this machine")] = ""
    run_windows: Annotated[
        str, about("when a worker works, such as `22:00-06:00 12:00-13:00`; empty is always")
    ] = ""
    abort_outside_window: Annotated[
        bool, about("give a running job back when the window closes, uncounted")
    ] = False
    sweep: Annotated[bool, about("let workers do the janitor's work regularly")] = True
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], about("how much workers and janitors log")
    ] = "INFO"


class LibraryLocation(Struct, frozen=True, kw_only=True):
    """A bucket or a folder. `prefix` is "" or ends with a slash."""

    bucket: str = ""
    folder: Path | None = None
    prefix: str = ""


def parse_location(bucket: str, prefix: str) -> LibraryLocation:
    """The location in the settings. A prefix in the bucket's address takes precedence over `prefix`. Raises
    Reject.
    """
    own = _folder(prefix, "library.prefix")
    if bucket.startswith("file:"):
        return LibraryLocation(folder=_path(bucket), prefix=own)
    name = bucket
    if bucket.startswith("s3://"):
        name, slash, rest = bucket.removeprefix("s3://").partition("/")
        own = _folder(rest, "the prefix in library.bucket") if slash and rest else own
    if bucket and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}", name):
        raise Reject(
            "library.bucket is not the name of a bucket; write its name, s3://name/prefix or file:///folder"
        )
    return LibraryLocation(bucket=name, prefix=own)


def _folder(prefix: str, what: str) -> str:
    try:
        return keys.folder(prefix.strip("/"))
    except Reject as error:
        raise Reject(f"{what} cannot be used: {error}") from error


def _path(address: str) -> Path:
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise Reject("library.bucket is no address of a folder; write file:///folder") from error
    path = unquote(parts.path)
    if parts.netloc not in {"", "localhost"} or not path.startswith("/") or "\0" in path:
        raise Reject("library.bucket is no folder of this machine; write file:/// and the whole path")
    return Path(path)
