"""The library, made out of the settings: its bucket or folder, and the rules in force there.

Promises: whoever changes jobs is let in only where the store keeps conditional writes, which is tried out and
remembered for a day; the bucket's own settings count where this machine sets none. Must not know: what is
done there.
"""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import structs

from quire.assembly.blobs import open_objects
from quire.assembly.worker_blobs import S3Access, open_store
from quire.blobs.probe import probe
from quire.library import shared_config
from quire.library.context import LibraryContext, LibraryRules
from quire.model.errors import Misconfigured
from quire.settings import DEFAULT, Library, LoadedSettings
from quire.settings.library import Place, place
from quire.system import SystemClock, SystemIds

PUBLISHED_BUCKET = "blobforge"  # of the published tools, when nobody names one
PROBED_SECONDS = 24 * 3600.0
_RULES = {  # by the setting they come from
    "library.max_retries": "max_retries",
    "library.heartbeat_seconds": "heartbeat_seconds",
    "library.stale_minutes": "stale_seconds",
    "library.conversion_seconds": "conversion_seconds",
    "library.seconds_per_page": "seconds_per_page",
}


@asynccontextmanager
async def open_library(
    loaded: LoadedSettings, *, probe: bool = False, shared_rules: bool = False, default_bucket: str = ""
) -> AsyncIterator[LibraryContext]:
    """`probed`: for those who claim, queue and clean up. `ruled`: the bucket is asked for its settings.
    Raises Misconfigured when there is no bucket, no access to it, or when it cannot be relied on.
    """
    chosen = loaded.settings.library
    where = place(chosen.bucket or default_bucket, chosen.prefix)
    clock, ids = SystemClock(), SystemIds()
    async with _opened(chosen, where, clock, ids) as bare:
        context = structs.replace(bare, rules=own_rules(chosen))
        if probe:
            await _rely_on(context, loaded.settings.home, _name(chosen, where))
        if shared_rules:
            context = await with_shared_rules(context, loaded)
        yield context


async def with_shared_rules(context: LibraryContext, loaded: LoadedSettings) -> LibraryContext:
    explicit = frozenset(rule for key, rule in _RULES.items() if loaded.sources[key] != DEFAULT)
    return structs.replace(
        context,
        rules=shared_config.merge_rules(context.rules, await shared_config.read_config(context), explicit),
    )


def own_rules(chosen: Library) -> LibraryRules:
    return LibraryRules(
        max_retries=chosen.max_retries,
        heartbeat_seconds=chosen.heartbeat_seconds,
        stale_seconds=chosen.stale_minutes * 60,
        conversion_seconds=chosen.conversion_seconds,
        seconds_per_page=chosen.seconds_per_page,
    )


def called(loaded: LoadedSettings, default_bucket: str = "") -> str:
    """The library's place in words for people."""
    chosen = loaded.settings.library
    where = place(chosen.bucket or default_bucket, chosen.prefix)
    return str(where.folder / where.prefix) if where.folder else f"s3://{where.bucket}/{where.prefix}"


@asynccontextmanager
async def _opened(
    chosen: Library, where: Place, clock: SystemClock, ids: SystemIds
) -> AsyncIterator[LibraryContext]:
    access = None if where.folder else _s3_access(chosen, where)
    blobs = open_store(where.folder / where.prefix if where.folder else Path(), access)
    objects = open_objects(blobs, access, clock, ids)
    try:
        yield LibraryContext(objects=objects, blobs=blobs, clock=clock, ids=ids)
    finally:
        await blobs.close()


def _s3_access(chosen: Library, where: Place) -> S3Access:
    if not where.bucket:
        raise Misconfigured(
            "No bucket is named, so there is no library. Set QUIRE_BUCKET (or library.bucket) to a "
            "bucket's name, to s3://name/prefix, or to file:///folder for a folder of this machine.",
            code="no_bucket",
        )
    if not chosen.access_key_id:
        raise Misconfigured(
            f"There is no access key for the bucket {where.bucket}. Set QUIRE_LIBRARY_ACCESS_KEY_ID and "
            "QUIRE_LIBRARY_SECRET_ACCESS_KEY (BLOBFORGE_S3_… and AWS_… variables will do as well).",
            code="no_access_key",
        )
    return S3Access(
        bucket=where.bucket,
        endpoint=chosen.endpoint,
        region=chosen.region,
        access_key_id=chosen.access_key_id.reveal(),
        secret_access_key=chosen.secret_access_key.reveal(),
        prefix=where.prefix,
        allow_http=chosen.endpoint.lower().startswith("http:"),  # settings refuse it unless allow_http is set
    )


async def _rely_on(context: LibraryContext, home: Path, name: str) -> None:
    """A good answer is remembered, as it costs some twenty requests; a bad one is not."""
    file = home / "library" / "probed.json"
    known = _known(file)
    now = context.clock.now()
    if 0 <= now - known.get(name, 0.0) < PROBED_SECONDS:
        return
    await probe(context.blobs, context.ids)
    with suppress(OSError):  # then it is tried again next time
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.name}.{context.ids.ulid()}")
        kept = {key: at for key, at in known.items() if 0 <= now - at < PROBED_SECONDS}
        fresh.write_text(json.dumps(kept | {name: now}), "utf-8")
        fresh.replace(file)


def _known(file: Path) -> dict[str, float]:
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: at for key, at in found.items() if isinstance(at, float)}


def _name(chosen: Library, where: Place) -> str:
    parts = (chosen.endpoint, where.bucket, str(where.folder or ""), where.prefix)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
