"""The values: every key with its default, its limits and one line of explanation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from msgspec import Struct, field

from quire.model.step import SandboxMode
from quire.settings.basics import Secret, about, cores
from quire.settings.compute import ComputeSettings, FlySettings, LocalSettings, RaySettings, WorkerKeySettings
from quire.settings.library import Library
from quire.settings.ocr import OcrSettings
from quire.settings.server import (
    ArchiveSettings,
    CleanupSettings,
    IngestSettings,
    ScrubSettings,
    ServeSettings,
    UploadSettings,
    WebhookSettings,
)

PREFIX = "QUIRE_"
HOME_DEFAULT = "the user's data folder for quire"


class S3Settings(Struct, frozen=True, kw_only=True):
    bucket: Annotated[str, about("bucket that holds the blobs; needed when store is s3")] = ""
    endpoint: Annotated[str, about("URL of the S3 server; empty for AWS")] = ""
    public_endpoint: Annotated[str, about("URL of the S3 server for uploaders; empty: as endpoint")] = ""
    region: Annotated[str, about("region of the bucket", min_length=1)] = "us-east-1"
    access_key_id: Annotated[Secret, about("name of the access key; goes with secret_access_key")] = Secret()
    secret_access_key: Annotated[Secret, about("secret half of the access key; never shown")] = Secret()
    prefix: Annotated[str, about("folder in the bucket under which all blobs are kept")] = ""
    allow_http: Annotated[bool, about("permit an endpoint without TLS")] = False
    checksums: Annotated[
        bool, about("send the SHA-256 of objects along, for the store to keep and a scrub to compare")
    ] = False


class PreprocessSettings(Struct, frozen=True, kw_only=True):
    tiff_quality: Annotated[int, about("JPEG quality of pages made from TIFFs", ge=1, le=100)] = 95
    all_pages: Annotated[bool, about("convert every page of a TIFF, not only the first")] = True
    pdf_pages: Annotated[
        Literal["images", "pdfs", "both", "none"],
        about("what pages of a PDF become unless its processing_config says so; none: PDFs are not split"),
    ] = "none"
    pdf_dpi: Annotated[int, about("resolution at which pages of PDFs are drawn", ge=10, le=2400)] = 200
    pdf_quality: Annotated[int, about("JPEG quality of pages of PDFs", ge=1, le=100)] = 95
    pdf_max_pages: Annotated[int, about("most pages of a PDF that is split", ge=1, le=1_000_000)] = 10_000
    pdf_max_megapixels: Annotated[int, about("largest page of a PDF that is drawn", ge=1, le=100_000)] = 150
    pdf_max_megabytes: Annotated[int, about("largest size of the pages of one PDF", ge=1, le=10**7)] = 10_000
    pdf_timeout_seconds: Annotated[float, about("longest time for one PDF", gt=0, le=86_400)] = 3600.0
    pdf_page_seconds: Annotated[float, about("added for each page after the first", ge=0, le=3600)] = 5.0
    variant_quality: Annotated[int, about("JPEG quality of the smaller copies", ge=1, le=100)] = 85
    max_megapixels: Annotated[int, about("largest picture that is decoded", ge=1, le=100_000)] = 500
    tiles: Annotated[bool, about("cut large pictures into tiles for IIIF viewers")] = False
    tile_size: Annotated[int, about("side of a tile in pixels", ge=128, le=4096)] = 512
    tiles_above: Annotated[int, about("longest side up to which no tiles are made", ge=200, le=10**6)] = 2400
    public_url: Annotated[str, about("how links to assets begin", min_length=1)] = "http://localhost:8787"
    tiff_timeout_seconds: Annotated[float, about("longest time for one TIFF", gt=0, le=86_400)] = 60.0
    tiff_page_seconds: Annotated[float, about("added for each page after the first", ge=0, le=3600)] = 10.0
    image_timeout_seconds: Annotated[float, about("longest time for one picture", gt=0, le=86_400)] = 120.0
    memory_mb: Annotated[int, about("memory one worker may use", ge=256, le=1 << 20)] = 2048
    max_attempts: Annotated[int, about("failed attempts after which a file fails", ge=1, le=100)] = 3
    tiff_first_seconds: Annotated[float, about("wait before the first TIFFs go out", ge=0, le=86_400)] = 0.0
    tiff_between_seconds: Annotated[float, about("wait between two dispatches", ge=0, le=86_400)] = 0.0
    tiff_at_once: Annotated[int, about("TIFFs per dispatch; 0 is what fits", ge=0, le=100_000)] = 0
    image_first_seconds: Annotated[float, about("wait before the first pictures go", ge=0, le=86_400)] = 0.0
    image_between_seconds: Annotated[float, about("wait between two dispatches", ge=0, le=86_400)] = 0.0
    image_at_once: Annotated[int, about("pictures per dispatch; 0 is what fits", ge=0, le=100_000)] = 0


class RetrySettings(Struct, frozen=True, kw_only=True):
    first_delay_seconds: Annotated[float, about("wait before the second attempt", ge=0, le=86_400)] = 1.0
    longest_delay_seconds: Annotated[float, about("the wait doubles up to this", ge=0, le=86_400)] = 30.0
    max_interruptions: Annotated[int, about("stops of quire that a file survives", ge=1, le=10**6)] = 100


class PhaseRetrySettings(Struct, frozen=True, kw_only=True):
    max_retries: Annotated[int, about("failed moves of a phase after which its batch ends", ge=0, le=100)] = 5
    first_delay_seconds: Annotated[float, about("wait before the first retry", ge=0, le=86_400)] = 2.0
    longest_delay_seconds: Annotated[float, about("the wait doubles up to this", ge=0, le=86_400)] = 30.0


class PostgresSettings(Struct, frozen=True, kw_only=True):
    dsn: Annotated[Secret, about("postgresql://user:password@host/database; never shown")] = Secret()
    connections: Annotated[int, about("connections of one process", ge=1, le=100)] = 4


class RedisSettings(Struct, frozen=True, kw_only=True):
    url: Annotated[Secret, about("redis://user:password@host:port/0, rediss:// for TLS; never shown")] = (
        Secret()
    )
    prefix: Annotated[str, about("how the names of all keys begin", min_length=1)] = "quire"


class QueueSettings(Struct, frozen=True, kw_only=True):
    """The table `[queues."name"]` of one queue; keys that it does not set keep their values."""

    max_batch_size: Annotated[
        int | None, about("messages that a consumer leases together", ge=1, le=1000)
    ] = None
    max_batch_timeout_seconds: Annotated[
        float | None, about("longest wait for a batch to become whole", ge=0, le=3600)
    ] = None
    max_retries: Annotated[int | None, about("deliveries after the first one", ge=0, le=1000)] = None
    delays_seconds: Annotated[
        tuple[float, ...] | None, about("exact delays before the retries; the last one repeats", le=10**7)
    ] = None
    first_delay_seconds: Annotated[
        float | None, about("delay before the first retry, without exact delays", ge=0, le=86_400)
    ] = None
    longest_delay_seconds: Annotated[float | None, about("the wait doubles up to this", ge=0, le=10**7)] = (
        None
    )
    dead_letter: Annotated[str | None, about("what people call its dead letters", min_length=1)] = None
    lease_seconds: Annotated[
        float | None, about("a consumer silent for this long loses its messages", ge=1, le=86_400)
    ] = None
    concurrency: Annotated[int | None, about("messages that a consumer works on at once", ge=1, le=1000)] = (
        None
    )


class MembershipSettings(Struct, frozen=True, kw_only=True):
    beat_seconds: Annotated[float, about("seconds between heartbeats of a process", gt=0, le=3600)] = 5.0
    stale_seconds: Annotated[
        float, about("silence after which a process counts as dead", gt=0, le=86_400)
    ] = 30.0


class SharingSettings(Struct, frozen=True, kw_only=True):
    ageing_seconds: Annotated[
        float, about("waiting time that raises a batch by one tier", ge=0, le=10**7)
    ] = 300.0
    half_life_seconds: Annotated[float, about("how fast served work is forgotten", gt=0, le=10**6)] = 60.0


class BudgetSettings(Struct, frozen=True, kw_only=True):
    seconds: Annotated[float, about("compute time a batch may use; 0 is no limit", ge=0)] = 0.0
    tokens: Annotated[int, about("model tokens a batch may use; 0 is no limit", ge=0)] = 0
    money: Annotated[float, about("money a batch may cost; 0 is no limit", ge=0)] = 0.0


def _home() -> Path:
    return platformdirs.user_data_path("quire")


class Settings(Struct, frozen=True, kw_only=True):
    home: Annotated[Path, about("folder of the database and of local blobs")] = field(default_factory=_home)
    workers: Annotated[int, about("worker processes; 0 is one per usable core", ge=0, le=1024)] = 0
    store: Annotated[Literal["local", "s3"], about("where the bytes live")] = "local"
    ledger: Annotated[Literal["sqlite", "postgres"], about("where state and queues live")] = "sqlite"
    queue_store: Annotated[
        Literal["ledger", "redis"], about("queues in the ledger's database or on Redis")
    ] = "ledger"
    priority: Annotated[str, about("tier of new batches, 1_critical to 5_background")] = "3_normal"
    tenant: Annotated[str, about("tenant that new batches belong to, for fair sharing")] = ""
    pipelines: Annotated[
        tuple[str, ...],
        about(
            "pipelines of your own: module:object, file.py or file.py:object; NAME@VERSION= keeps a version"
        ),
    ] = ()
    model: Annotated[
        str, about("function that answers steps which ask a Model: file.py:function or module:function")
    ] = ""
    sandbox: Annotated[
        SandboxMode,
        about("decode files in a sandbox: auto where the kernel allows; on refuses to start elsewhere"),
    ] = "auto"
    s3: S3Settings = S3Settings()
    postgres: PostgresSettings = PostgresSettings()
    redis: RedisSettings = RedisSettings()
    preprocess: PreprocessSettings = PreprocessSettings()
    input_stall_seconds: Annotated[
        float, about("longest wait for a network share with inputs to go on", gt=0, le=86_400)
    ] = 60.0
    retry: RetrySettings = RetrySettings()
    phase_retry: PhaseRetrySettings = PhaseRetrySettings()
    crew: MembershipSettings = MembershipSettings()
    sharing: SharingSettings = SharingSettings()
    upload: UploadSettings = UploadSettings()
    budget: BudgetSettings = BudgetSettings()
    serve: ServeSettings = ServeSettings()
    ingest: IngestSettings = IngestSettings()
    webhooks: WebhookSettings = WebhookSettings()
    cleaning: CleanupSettings = CleanupSettings()
    scrub: ScrubSettings = ScrubSettings()
    archive: ArchiveSettings = ArchiveSettings()
    compute: ComputeSettings = ComputeSettings()
    worker_keys: WorkerKeySettings = WorkerKeySettings()
    local: LocalSettings = LocalSettings()
    fly: FlySettings = FlySettings()
    ray: RaySettings = RaySettings()
    library: Library = Library()
    ocr: OcrSettings = OcrSettings()
    resources: Mapping[str, int] = field(default_factory=dict)  # by name: how many tasks may use it at once
    queues: Mapping[str, QueueSettings] = field(default_factory=dict)  # by name: any queue may have a table

    @property
    def worker_count(self) -> int:
        return self.workers or cores()
