"""Rules between settings: values that are valid alone but not together."""

import re
from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from quire.blobs import keys
from quire.model.errors import Reject
from quire.model.tiers import tier_number
from quire.settings.keys import to_printable, value_of
from quire.settings.library import parse_location
from quire.settings.ocr import OCR_OUTPUTS
from quire.settings.values import Settings

_ADDRESSES = (
    *("s3.endpoint", "s3.public_endpoint", "preprocess.public_url", "serve.public_url"),
    *("compute.registry_url", "worker_keys.endpoint", "fly.api", "library.endpoint"),
    *("ocr.local_model_url", "ocr.cloud_model_url", "ocr.judge_model_url"),
    *("ocr.s3_endpoint", "ocr.database_url"),
)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_ACCOUNT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")  # one part of a host name


def find_contradictions(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    """Problems between valid values, each with the keys it follows from."""
    yield from _of_the_store(settings)
    yield from _of_the_engine(settings)
    yield from _of_redis(settings)
    yield from _of_uploads(settings)
    yield from _of_machines(settings)
    yield from _of_worker_keys(settings)
    yield from _of_the_library(settings)
    yield from _of_ocr(settings)


def _of_the_store(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    s3 = settings.s3
    if settings.store == "s3" and not s3.bucket:
        problem = 'store is "s3" but s3.bucket is not set; name the bucket there or in QUIRE_S3_BUCKET'
        yield ("store", "s3.bucket"), problem
    for name in ("s3.bucket", "worker_keys.archive_bucket"):
        if (bucket := value_of(settings, name)) and not _BUCKET.fullmatch(bucket):
            yield (name,), f"{name} is not the name of a bucket; write the name alone, no URL, no folder"
    pair = ("s3.access_key_id", "s3.secret_access_key")
    if bool(s3.access_key_id) != bool(s3.secret_access_key):
        there, absent = pair if s3.access_key_id else reversed(pair)
        yield pair, f"{there} is set but {absent} is not; set both, or neither"
    for name in _ADDRESSES:
        if not _is_address(value_of(settings, name)):  # not quoted: people write passwords into addresses
            problem = f"{name} must be an http or https address without user name and password"
            yield (name,), f"{problem}, such as https://files.example.org"
    if settings.store == "s3" and s3.endpoint.lower().startswith("http:") and not s3.allow_http:
        problem = "s3.endpoint has no TLS, so others could read along; use https, or set s3.allow_http"
        yield ("store", "s3.endpoint", "s3.allow_http"), problem
    try:
        keys.folder(s3.prefix)
    except Reject as error:
        yield ("s3.prefix",), f"s3.prefix cannot be used: {error}"


def _of_the_engine(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    if settings.ledger == "postgres" and not settings.postgres.dsn:
        problem = 'ledger is "postgres" but postgres.dsn is not set; set it or QUIRE_POSTGRES_DSN'
        yield ("ledger", "postgres.dsn"), problem
    if settings.ray.address.lower().startswith("ray:"):
        problem = (
            "ray.address must be host:port of a cluster that this machine is a node of; ray:// is not used"
        )
        yield ("ray.address",), problem
    for queue, tuning in settings.queues.items():
        first, longest = tuning.first_delay_seconds, tuning.longest_delay_seconds
        if first is not None and longest is not None and first > longest:
            problem = (
                f'queues."{to_printable(queue)}": first_delay_seconds is greater than longest_delay_seconds'
            )
            yield (), f"{problem}; lower the one or raise the other"
    if settings.crew.stale_seconds < 2 * settings.crew.beat_seconds:
        problem = (
            "crew.stale_seconds must be at least twice crew.beat_seconds, or running members count as dead"
        )
        yield ("crew.beat_seconds", "crew.stale_seconds"), problem
    try:
        tier_number(settings.priority)
    except Reject as error:
        yield ("priority",), f"priority cannot be used: {error}"
    for table, delays in (("retry", settings.retry), ("phase_retry", settings.phase_retry)):
        names = (f"{table}.first_delay_seconds", f"{table}.longest_delay_seconds")
        if delays.first_delay_seconds > delays.longest_delay_seconds:
            yield names, f"{names[0]} is greater than {names[1]}; lower the one or raise the other"


def _of_redis(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, chosen in (("queue_store", "redis"), ("envelopes.transport", "lists")):
        if value_of(settings, name) == chosen and not settings.redis.url:
            problem = f'{name} is "{chosen}" but redis.url is not set; set it or QUIRE_REDIS_URL'
            yield (name, "redis.url"), problem


def _of_uploads(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    upload = settings.upload
    if not _is_address(upload.url) or not {"?", "#"}.isdisjoint(upload.url):
        problem = "upload.url must be an http or https address without user name, password and query"
        yield ("upload.url",), f"{problem}, such as https://ingest.example.org"
        return
    near = _is_this_machine(urlsplit(upload.url).hostname or "")
    if upload.key and upload.url.lower().startswith("http:") and not near and not upload.allow_http:
        problem = (
            "upload.url has no TLS, so others could read upload.key; use https, or set upload.allow_http"
        )
        yield ("upload.url", "upload.key", "upload.allow_http"), problem


def _of_machines(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    if settings.preprocess.tiles and settings.compute.image in {"process", "fly"}:
        problem = f'compute.image is "{settings.compute.image}", whose workers give back no tiles'
        yield (
            ("preprocess.tiles", "compute.image"),
            f"{problem}; unset preprocess.tiles or set local, queue or ray",
        )
    wanted = {"compute.tiff": ("fly.tiff_app", "fly.tiff_worker")}
    wanted["compute.image"] = ("fly.image_app", "fly.image_worker")
    for chosen, needed in wanted.items():
        if value_of(settings, chosen) != "fly":
            continue
        for name in (*needed, "fly.token", "serve.public_url"):
            if not value_of(settings, name):
                yield (chosen, name), f'{chosen} is "fly" but {name} is not set'


def _of_worker_keys(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    chosen, s3 = settings.worker_keys, settings.s3
    needed = ("worker_keys.access_key_id", "worker_keys.secret_access_key", "worker_keys.account_id")
    given = [name for name in (*needed, "worker_keys.archive_bucket") if value_of(settings, name)]
    if not given:
        return
    absent = [name for name in needed if not value_of(settings, name)]
    if absent:
        yield needed, f"{given[0]} is set but {' and '.join(absent)} is not; set all of them, or none"
    if settings.store != "s3":
        problem = f'{given[0]} is set but store is not "s3"; workers reach local files by URLs, without keys'
        yield (given[0], "store"), problem
    if chosen.account_id and not _ACCOUNT.fullmatch(chosen.account_id):
        problem = "worker_keys.account_id must be part of a host name: letters, digits and hyphens"
        yield ("worker_keys.account_id",), problem
    for half in ("access_key_id", "secret_access_key"):
        if getattr(chosen, half) and getattr(chosen, half) == getattr(s3, half):
            problem = (
                f"worker_keys.{half} is that of the main key, which must stay on the server; create a key "
                "for workers that may read and write staging/ and archive/ alone"
            )
            yield (f"worker_keys.{half}", f"s3.{half}"), problem
    insecure = chosen.endpoint.lower().startswith("http:") and not s3.allow_http
    if insecure:
        problem = (
            "worker_keys.endpoint has no TLS, so others could read along; use https, or set s3.allow_http"
        )
        yield ("worker_keys.endpoint", "s3.allow_http"), problem


def _of_the_library(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    chosen = settings.library
    try:
        parse_location(chosen.bucket, chosen.prefix)
    except Reject as error:
        yield ("library.bucket", "library.prefix"), str(error)
    pair = ("library.access_key_id", "library.secret_access_key")
    if bool(chosen.access_key_id) != bool(chosen.secret_access_key):
        there, absent = pair if chosen.access_key_id else reversed(pair)
        yield pair, f"{there} is set but {absent} is not; set both, or neither"
    if _is_open_to_others(chosen.endpoint) and not chosen.allow_http:
        problem = "library.endpoint has no TLS, so others could read along; use https"
        yield ("library.endpoint", "library.allow_http"), f"{problem}, or set library.allow_http"
    if chosen.worker_id and not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}", chosen.worker_id):
        problem = "library.worker_id may have up to 100 letters, digits, dots, hyphens and underscores"
        yield ("library.worker_id",), problem
    if chosen.stale_minutes * 60 < 2 * chosen.heartbeat_seconds:
        problem = "library.stale_minutes must be at least twice library.heartbeat_seconds, or running"
        yield ("library.stale_minutes", "library.heartbeat_seconds"), f"{problem} workers count as dead"
    for window in chosen.run_windows.replace(",", " ").split():
        if not _WINDOW.fullmatch(window):
            problem = f"library.run_windows: {to_printable(window[:40])!r} is no window; write HH:MM-HH:MM"
            yield ("library.run_windows",), f"{problem}, such as 22:00-06:00"


_WINDOW = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9]-(([01]?[0-9]|2[0-3]):[0-5][0-9]|24:00)", re.ASCII)


def _is_open_to_others(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme == "http" and not _is_this_machine(parts.hostname or "")
    except ValueError:  # told elsewhere
        return False


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name: only one is certain
        return host == "localhost"


def _is_address(text: str) -> bool:
    """True when it is not set, too."""
    try:
        parts = urlsplit(text)
        named = bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        return False
    return not text or (named and parts.scheme in {"http", "https"} and text.isprintable())


def _of_ocr(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    for output in settings.ocr.outputs:
        if output not in OCR_OUTPUTS:
            yield ("ocr.outputs",), f"ocr.outputs has {output!r}; choose some of {', '.join(OCR_OUTPUTS)}"
    for one in ("local_model", "cloud_model"):
        pair = (f"ocr.{one}_url", f"ocr.{one}")
        if value_of(settings, pair[0]) and not value_of(settings, pair[1]):
            yield pair, f"{pair[0]} is set but {pair[1]} is not; name the model there"
