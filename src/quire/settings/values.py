"""The values: every key with its default, its limits and one line of explanation."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import platformdirs
from msgspec import NODEFAULT, Meta, Struct, field
from msgspec.structs import fields

PREFIX = "QUIRE_"
HOME_DEFAULT = "the user's data folder for quire"


class Secret:
    """Never shown by a message, table or repr. Not a Struct: msgspec must not encode it by accident."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "set" if self._text else "not set"


def cores() -> int:
    """Those that this process may use: a container or `taskset` often gives fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _about(description: str, **limits: Any) -> Meta:
    return Meta(description=description, **limits)


class S3(Struct, frozen=True, kw_only=True):
    bucket: Annotated[str, _about("bucket that holds the blobs; needed when store is s3")] = ""
    endpoint: Annotated[str, _about("URL of the S3 server; empty for AWS")] = ""
    public_endpoint: Annotated[str, _about("URL of the S3 server for uploaders; empty is as endpoint")] = ""
    region: Annotated[str, _about("region of the bucket", min_length=1)] = "us-east-1"
    access_key_id: Annotated[Secret, _about("name of the access key; goes with secret_access_key")] = Secret()
    secret_access_key: Annotated[Secret, _about("secret half of the access key; never shown")] = Secret()
    prefix: Annotated[str, _about("folder in the bucket under which all blobs are kept")] = ""
    allow_http: Annotated[bool, _about("permit an endpoint without TLS")] = False


class Preprocess(Struct, frozen=True, kw_only=True):
    tiff_quality: Annotated[int, _about("JPEG quality of pages made from TIFFs", ge=1, le=100)] = 95
    all_pages: Annotated[bool, _about("convert every page of a TIFF, not the first alone")] = True
    pdf_pages: Annotated[
        Literal["images", "pdfs", "both", "none"],
        _about("what pages of a PDF become, unless its processing_config says so; none leaves PDFs alone"),
    ] = "none"
    pdf_dpi: Annotated[int, _about("resolution at which pages of PDFs are drawn", ge=10, le=2400)] = 200
    pdf_quality: Annotated[int, _about("JPEG quality of pages of PDFs", ge=1, le=100)] = 95
    pdf_max_pages: Annotated[int, _about("most pages of a PDF that is split", ge=1, le=1_000_000)] = 10_000
    pdf_max_megapixels: Annotated[int, _about("largest page of a PDF that is drawn", ge=1, le=100_000)] = 150
    pdf_max_megabytes: Annotated[int, _about("most room that pages of one PDF take", ge=1, le=10**7)] = 10_000
    pdf_timeout_seconds: Annotated[float, _about("longest time for one PDF", gt=0, le=86_400)] = 3600.0
    variant_quality: Annotated[int, _about("JPEG quality of the smaller copies", ge=1, le=100)] = 85
    max_megapixels: Annotated[int, _about("largest picture that is decoded", ge=1, le=100_000)] = 500
    public_url: Annotated[str, _about("how links to assets begin", min_length=1)] = "http://localhost:8787"
    tiff_timeout_seconds: Annotated[float, _about("longest time for one TIFF", gt=0, le=86_400)] = 60.0
    image_timeout_seconds: Annotated[float, _about("longest time for one picture", gt=0, le=86_400)] = 120.0
    memory_mb: Annotated[int, _about("memory one worker may use", ge=256, le=1 << 20)] = 2048
    max_attempts: Annotated[int, _about("failed attempts after which a file has failed", ge=1, le=100)] = 3
    tiff_first_seconds: Annotated[float, _about("wait before the first TIFFs go out", ge=0, le=86_400)] = 0.0
    tiff_between_seconds: Annotated[float, _about("wait between two dispatches", ge=0, le=86_400)] = 0.0
    tiff_at_once: Annotated[int, _about("TIFFs per dispatch; 0 is what fits", ge=0, le=100_000)] = 0
    image_first_seconds: Annotated[float, _about("wait before the first pictures go", ge=0, le=86_400)] = 0.0
    image_between_seconds: Annotated[float, _about("wait between two dispatches", ge=0, le=86_400)] = 0.0
    image_at_once: Annotated[int, _about("pictures per dispatch; 0 is what fits", ge=0, le=100_000)] = 0


class Retries(Struct, frozen=True, kw_only=True):
    first_delay_seconds: Annotated[float, _about("wait before the second attempt", ge=0, le=86_400)] = 1.0
    longest_delay_seconds: Annotated[float, _about("the wait doubles up to this", ge=0, le=86_400)] = 30.0
    max_interruptions: Annotated[int, _about("stops of quire that a file survives", ge=1, le=10**6)] = 100


class PhaseRetries(Struct, frozen=True, kw_only=True):
    max_retries: Annotated[
        int, _about("failed moves of a phase after which its batch ends", ge=0, le=100)
    ] = 5
    first_delay_seconds: Annotated[float, _about("wait before the first retry", ge=0, le=86_400)] = 2.0
    longest_delay_seconds: Annotated[float, _about("the wait doubles up to this", ge=0, le=86_400)] = 30.0


class Postgres(Struct, frozen=True, kw_only=True):
    dsn: Annotated[Secret, _about("postgresql://user:password@host/database; never shown")] = Secret()
    connections: Annotated[int, _about("connections of one process", ge=1, le=100)] = 4


class Redis(Struct, frozen=True, kw_only=True):
    url: Annotated[Secret, _about("redis://user:password@host:port/0, rediss:// for TLS; never shown")] = (
        Secret()
    )
    prefix: Annotated[str, _about("how the names of all keys begin", min_length=1)] = "quire"


class QueueTuning(Struct, frozen=True, kw_only=True):
    """What `[queues."name"]` says of one queue; what it does not say stays as it is for that queue."""

    max_batch_size: Annotated[
        int | None, _about("messages that a consumer leases together", ge=1, le=1000)
    ] = None
    max_batch_timeout_seconds: Annotated[
        float | None, _about("longest wait for a batch to become whole", ge=0, le=3600)
    ] = None
    max_retries: Annotated[int | None, _about("deliveries after the first one", ge=0, le=1000)] = None
    delays_seconds: Annotated[
        tuple[float, ...] | None, _about("exact waits before the retries; the last one stays", le=10**7)
    ] = None
    first_delay_seconds: Annotated[
        float | None, _about("wait before the first retry, where none is exact", ge=0, le=86_400)
    ] = None
    longest_delay_seconds: Annotated[float | None, _about("the wait doubles up to this", ge=0, le=10**7)] = (
        None
    )
    dead_letter: Annotated[str | None, _about("what people call its dead letters", min_length=1)] = None
    lease_seconds: Annotated[
        float | None, _about("silent this long, a consumer loses its messages", ge=1, le=86_400)
    ] = None
    concurrency: Annotated[int | None, _about("messages that a consumer works on at once", ge=1, le=1000)] = (
        None
    )


class Crew(Struct, frozen=True, kw_only=True):
    beat_seconds: Annotated[float, _about("how often a process says that it lives", gt=0, le=3600)] = 5.0
    stale_seconds: Annotated[float, _about("silent this long is taken for dead", gt=0, le=86_400)] = 30.0


class Sharing(Struct, frozen=True, kw_only=True):
    ageing_seconds: Annotated[float, _about("waiting that lifts a batch by one tier", ge=0, le=10**7)] = 300.0
    half_life_seconds: Annotated[float, _about("how fast served work is forgotten", gt=0, le=10**6)] = 60.0


class Upload(Struct, frozen=True, kw_only=True):
    """For `quire upload`. `metadata` and `processing` are JSON, as their options are."""

    url: Annotated[str, _about("address of the server that `quire upload` sends to")] = ""
    key: Annotated[Secret, _about("API key for that server; never shown")] = Secret()
    allow_http: Annotated[bool, _about("permit sending the key without TLS to another machine")] = False
    uploader: Annotated[str, _about("who uploads; empty is the name of the user")] = ""
    root_path: Annotated[str, _about("path on the server that files are put below", min_length=1)] = "/"
    parent: Annotated[str, _about("identifier that the batch is put below; empty is the origin")] = ""
    metadata: Annotated[str, _about("JSON object that goes with the batch")] = ""
    processing: Annotated[str, _about("JSON object: what to do with files; empty is everything")] = ""
    parallel: Annotated[int, _about("files that are sent at once", ge=1, le=100)] = 5
    parallel_parts: Annotated[int, _about("parts of one file that are sent at once", ge=1, le=100)] = 3


class Budgets(Struct, frozen=True, kw_only=True):
    seconds: Annotated[float, _about("compute time a batch may use; 0 is no limit", ge=0)] = 0.0
    tokens: Annotated[int, _about("model tokens a batch may use; 0 is no limit", ge=0)] = 0
    money: Annotated[float, _about("money a batch may cost; 0 is no limit", ge=0)] = 0.0


class Serve(Struct, frozen=True, kw_only=True):
    host: Annotated[str, _about("address that `quire serve` listens on", min_length=1)] = "127.0.0.1"
    port: Annotated[int, _about("port that `quire serve` listens on; 0 takes a free one", ge=0, le=65535)] = (
        8787
    )
    public_url: Annotated[str, _about("where people reach the server; empty is as the asker did")] = ""
    anonymous: Annotated[
        Literal["loopback", "always", "never"],
        _about("when no API key is needed: on loopback addresses, always, never"),
    ] = "loopback"
    secret: Annotated[Secret, _about("signs URLs and callbacks; empty makes one in the home folder")] = (
        Secret()
    )


class Ingest(Struct, frozen=True, kw_only=True):
    max_batch_bytes: Annotated[int, _about("largest batch", ge=1)] = 107_374_182_400
    max_file_bytes: Annotated[int, _about("largest file", ge=1)] = 5_368_709_120
    max_files: Annotated[int, _about("most files of a batch", ge=1, le=10_000_000)] = 1_000_000
    prompt_characters: Annotated[int, _about("longest custom prompt", ge=0, le=10**6)] = 60_000
    prompts_characters: Annotated[int, _about("all custom prompts together", ge=0, le=10**6)] = 80_000
    allowed_extensions: Annotated[
        str, _about("endings of file names that are taken, such as `.tif .jpg`; empty is all")
    ] = ""
    url_seconds: Annotated[int, _about("how long a signed URL is valid", ge=60, le=604_800)] = 86_400
    verify_cid_bytes: Annotated[
        int, _about("files up to this size are read to verify their CID; 0: CIDs are not verified", ge=0)
    ] = 67_108_864
    hand_over_to: Annotated[str, _about("queue that is told when preprocessing is done; empty is none")] = (
        "arke-batch-jobs"
    )


class Webhooks(Struct, frozen=True, kw_only=True):
    allow_private: Annotated[bool, _about("call webhooks on private and loopback addresses too")] = False
    timeout_seconds: Annotated[float, _about("longest time for one call", gt=0, le=300)] = 15.0
    max_tries: Annotated[int, _about("calls after which a delivery is given up", ge=1, le=100)] = 10
    at_once: Annotated[int, _about("calls of one process at the same time", ge=1, le=1000)] = 16


class Cleaning(Struct, frozen=True, kw_only=True):
    every_seconds: Annotated[float, _about("how often the server cleans up; 0 is never", ge=0, le=10**7)] = (
        3600.0
    )
    idle_upload_days: Annotated[
        float, _about("uploads silent for so long are given up; 0 is never", ge=0)
    ] = 7.0
    staging_days: Annotated[
        float, _about("staged files are deleted so long after their batch has ended; 0 is never", ge=0)
    ] = 30.0


class Archive(Struct, frozen=True, kw_only=True):
    enabled: Annotated[
        bool, _about("copy originals to the archive before cleaning deletes them from staging")
    ] = False


Where = Literal["local", "process", "fly", "ray"]


class Computes(Struct, frozen=True, kw_only=True):
    """Where the phases run; processes and machines under `quire serve` alone, which is called back."""

    tiff: Annotated[Where, _about("where TIFFs are converted")] = "local"
    image: Annotated[Where, _about("where pictures are worked on")] = "local"
    processes: Annotated[int, _about("processes at once; 0 is one per usable core", ge=0, le=1024)] = 0
    command: Annotated[str, _about("what such a process runs in place of `quire task run` itself")] = ""
    start_seconds: Annotated[float, _about("what a start may take beyond a timeout", ge=0, le=3600)] = 30.0
    grace_seconds: Annotated[
        float, _about("wait for the callback of a machine that is gone", ge=0, le=3600)
    ] = 2.0
    look_seconds: Annotated[float, _about("how often what is out is looked after", gt=0, le=3600)] = 2.0
    registry_url: Annotated[str, _about("asset registry that workers tell of pictures; empty is none")] = ""


class Fly(Struct, frozen=True, kw_only=True):
    api: Annotated[str, _about("address of the Machines API", min_length=1)] = "https://api.machines.dev"
    token: Annotated[Secret, _about("token for the Machines API; never shown")] = Secret()
    tiff_app: Annotated[str, _about("app whose machines convert TIFFs")] = ""
    tiff_worker: Annotated[str, _about("container image of these machines")] = ""
    tiff_memory_mb: Annotated[int, _about("memory of such a machine", ge=256, le=1 << 20)] = 1024
    image_app: Annotated[str, _about("app whose machines work on pictures")] = ""
    image_worker: Annotated[str, _about("container image of these machines")] = ""
    image_memory_mb: Annotated[int, _about("memory of such a machine", ge=256, le=1 << 20)] = 2048
    region: Annotated[str, _about("where machines are started", min_length=1)] = "ord"
    cpus: Annotated[int, _about("processors of a machine", ge=1, le=128)] = 2
    cpu_kind: Annotated[Literal["shared", "performance"], _about("kind of processors")] = "shared"
    at_once: Annotated[int, _about("machines at the same time", ge=1, le=100_000)] = 100
    per_second: Annotated[float, _about("machines that are asked for in a second", gt=0, le=1000)] = 1.0
    price_per_second: Annotated[float, _about("what a machine costs in a second", ge=0, le=1000)] = 0.0


class Ray(Struct, frozen=True, kw_only=True):
    address: Annotated[str, _about("host:port of the Ray cluster; empty starts one on this machine")] = ""
    workers: Annotated[int, _about("workers on the cluster; 0 is as many as fit", ge=0, le=100_000)] = 0
    cpus: Annotated[float, _about("processors that Ray sets aside for a worker", gt=0, le=1024)] = 1.0
    memory_mb: Annotated[int, _about("memory that Ray sets aside for a worker", ge=0, le=1 << 20)] = 0
    max_out: Annotated[int, _about("tasks out at once; 0 is what keeps the workers busy", ge=0)] = 0


def _home() -> Path:
    return platformdirs.user_data_path("quire")


class Settings(Struct, frozen=True, kw_only=True):
    home: Annotated[Path, _about("folder of the database and of local blobs")] = field(default_factory=_home)
    workers: Annotated[int, _about("worker processes; 0 is one per usable core", ge=0, le=1024)] = 0
    store: Annotated[Literal["local", "s3"], _about("where the bytes live")] = "local"
    ledger: Annotated[Literal["sqlite", "postgres"], _about("where state and queues live")] = "sqlite"
    queue_store: Annotated[
        Literal["ledger", "redis"], _about("queues in the ledger's database or on Redis")
    ] = "ledger"
    priority: Annotated[str, _about("tier of new batches, 1_critical to 5_background")] = "3_normal"
    tenant: Annotated[str, _about("whose share of the workers new batches count on")] = ""
    s3: S3 = S3()
    postgres: Postgres = Postgres()
    redis: Redis = Redis()
    preprocess: Preprocess = Preprocess()
    retry: Retries = Retries()
    phase_retry: PhaseRetries = PhaseRetries()
    crew: Crew = Crew()
    sharing: Sharing = Sharing()
    upload: Upload = Upload()
    budget: Budgets = Budgets()
    serve: Serve = Serve()
    ingest: Ingest = Ingest()
    webhooks: Webhooks = Webhooks()
    cleaning: Cleaning = Cleaning()
    archive: Archive = Archive()
    compute: Computes = Computes()
    fly: Fly = Fly()
    ray: Ray = Ray()
    queues: Mapping[str, QueueTuning] = field(default_factory=dict)  # by name: any queue may have a table

    @property
    def worker_count(self) -> int:
        return self.workers or cores()


class Key(NamedTuple):
    """One setting: what messages, `quire doctor` and the reference page need to know of it."""

    name: str
    kind: Any
    limits: Meta
    default: str

    @property
    def variable(self) -> str:
        return PREFIX + self.name.replace(".", "_").upper()

    @property
    def description(self) -> str:
        return self.limits.description or ""

    @property
    def wanted(self) -> str:
        if get_origin(self.kind) is Literal:
            return " or ".join(f'"{choice}"' for choice in get_args(self.kind))
        return _WANTED.get(self.kind, "text")


_WANTED: dict[Any, str] = {  # others: text
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Path: "a path",
    tuple[float, ...]: "a list of numbers",
}


def shown(value: object) -> str:
    """A value for people's eyes; the default column of the reference page is written in the same way."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else plain(str(value)) or "not set"


def value_of(settings: Settings, name: str) -> Any:
    found: Any = settings
    for part in name.split("."):
        found = getattr(found, part)
    return found


def plain(text: str) -> str:
    return text if text.isprintable() else ascii(text)


def _keys(table: type[Struct], prefix: str = "") -> Iterator[Key]:
    for one in fields(table):
        if get_origin(one.type) is Annotated:
            kind, limits = get_args(one.type)
            default = HOME_DEFAULT if one.default is NODEFAULT else shown(one.default)
            yield Key(prefix + one.name, _given(kind), limits, default)
        elif isinstance(one.type, type):
            yield from _keys(one.type, f"{one.name}.")


def _given(kind: Any) -> Any:
    """What is asked for when it is given at all."""
    return (
        next(part for part in get_args(kind) if part is not NoneType) if NoneType in get_args(kind) else kind
    )


KEYS = tuple(_keys(Settings))
BY_NAME = {key.name: key for key in KEYS}
BY_VARIABLE = {key.variable: key.name for key in KEYS}
# Variables of the published upload client, by the key they stand in for.
UPLOAD_FALLBACKS = {
    "upload.url": "ARKE_WORKER_URL",
    "upload.uploader": "ARKE_UPLOADER",
    "upload.root_path": "ARKE_ROOT_PATH",
    "upload.parent": "ARKE_PARENT_PI",
    "upload.metadata": "ARKE_METADATA",
    "upload.processing": "ARKE_PROCESSING",
    "upload.parallel": "ARKE_PARALLEL",
    "upload.parallel_parts": "ARKE_PARALLEL_PARTS",
}
QUEUE_KEYS = {key.name: key for key in _keys(QueueTuning)}
TABLES: dict[str, Any] = {one.name: one.type for one in fields(Settings) if isinstance(one.type, type)}
