"""Settings of the OCR service: where its pictures may come from, its workers, and how often it tries."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Struct

from quire.settings.basics import Secret, about

# Variables of the published OCR service, by the key they stand in for; the first that is set counts.
OCR_SERVICE_FALLBACKS: Mapping[str, tuple[str, ...]] = {
    "ocr.s3_endpoint": ("S3_ENDPOINT_URL",),
    "ocr.s3_region": ("S3_REGION", "AWS_REGION"),
    "ocr.s3_path_style": ("S3_FORCE_PATH_STYLE",),
    "ocr.s3_access_key_id": ("AWS_ACCESS_KEY_ID",),
    "ocr.s3_secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "ocr.max_attempts": ("OCR_MAX_ATTEMPTS",),
}


class OcrServiceSettings(Struct, frozen=True, kw_only=True):
    image_root: Annotated[
        Path, about("folder that paths of pictures are relative to; absolute ones must lie within")
    ] = Path("/data/images")
    buckets: Annotated[
        tuple[str, ...], about('buckets from which pictures may be read; "*": all that the keys may read')
    ] = ()
    s3_endpoint: Annotated[str, about("URL of the S3 server with pictures; empty for AWS")] = ""
    s3_region: Annotated[str, about("region of these buckets", min_length=1)] = "us-east-2"
    s3_path_style: Annotated[bool, about("bucket names go into the path, not into the host")] = True
    s3_access_key_id: Annotated[Secret, about("name of the access key to the pictures")] = Secret()
    s3_secret_access_key: Annotated[Secret, about("secret half of that key; never shown")] = Secret()
    s3_allow_http: Annotated[bool, about("permit such an endpoint without TLS")] = True
    fetch: Annotated[bool, about("fetch pictures from http and https addresses")] = True
    allow_private: Annotated[
        bool, about("permit pictures at private and loopback addresses, in closed networks")
    ] = False
    database_url: Annotated[
        str, about("address of pictures of the kind `db`, with {id}; empty: there are none")
    ] = ""
    max_image_megabytes: Annotated[int, about("largest picture that is fetched", ge=1, le=1000)] = 20
    fetch_seconds: Annotated[float, about("longest time to fetch one picture", gt=0, le=3600)] = 30.0
    workers: Annotated[int, about("pictures read at once; 0: one per usable core", ge=0, le=1024)] = 0
    jobs_at_once: Annotated[
        int, about("jobs that one service works on at once; 0: as many as pictures", ge=0, le=1024)
    ] = 0
    memory_mb: Annotated[int, about("memory for reading one picture", ge=256, le=1 << 20)] = 2048
    picture_seconds: Annotated[float, about("longest time to read one picture", gt=0, le=86_400)] = 180.0
    max_attempts: Annotated[int, about("attempts of a job that fails by a passing fault", ge=1, le=100)] = 3
    retry_seconds: Annotated[float, about("wait before the second attempt of a job", ge=0, le=86_400)] = 5.0
    reply_queue: Annotated[
        str, about("queue on which answers to jobs sent over HTTP come back", min_length=1)
    ] = "quire.ocr.answers"
