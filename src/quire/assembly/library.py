"""Opens the library from the settings: its bucket or folder, and the rules in force there.

Promises: commands that change jobs run only on a store with conditional writes, which is probed and
remembered for a day; the bucket's own settings count where this machine sets none. Must not know: what
commands do with it.
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
from quire.settings.library import LibraryLocation, parse_location
from quire.system import SystemClock, SystemIds
from quire.tools.shares import this_machine

PUBLISHED_BUCKET = "blobforge"  # the default of the published tools
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
    """`probe` checks the store, for commands that claim, queue and clean up; `shared_rules` reads the
    bucket's settings. Raises Misconfigured when there is no bucket, no access to it, or the store is not
    safe.
    """
    chosen = loaded.settings.library
    this_machine().stall_seconds = loaded.settings.input_stall_seconds
    where = parse_location(chosen.bucket or default_bucket, chosen.prefix)
    clock, ids = SystemClock(), SystemIds()
    async with _open_context(chosen, where, clock, ids) as bare:
        context = structs.replace(bare, rules=build_rules(chosen))
        if probe:
            await _check_store(context, loaded.settings.home, _location_id(chosen, where))
        if shared_rules:
            context = await apply_shared_rules(context, loaded)
        yield context


async def apply_shared_rules(context: LibraryContext, loaded: LoadedSettings) -> LibraryContext:
    explicit = frozenset(rule for key, rule in _RULES.items() if loaded.sources[key] != DEFAULT)
    return structs.replace(
        context,
        rules=shared_config.merge_rules(context.rules, await shared_config.read_config(context), explicit),
    )


def build_rules(chosen: Library) -> LibraryRules:
    return LibraryRules(
        max_retries=chosen.max_retries,
        heartbeat_seconds=chosen.heartbeat_seconds,
        stale_seconds=chosen.stale_minutes * 60,
        conversion_seconds=chosen.conversion_seconds,
        seconds_per_page=chosen.seconds_per_page,
    )


def describe_location(loaded: LoadedSettings, default_bucket: str = "") -> str:
    """The address of the library, for display."""
    chosen = loaded.settings.library
    this_machine().stall_seconds = loaded.settings.input_stall_seconds
    where = parse_location(chosen.bucket or default_bucket, chosen.prefix)
    return str(where.folder / where.prefix) if where.folder else f"s3://{where.bucket}/{where.prefix}"


@asynccontextmanager
async def _open_context(
    chosen: Library, where: LibraryLocation, clock: SystemClock, ids: SystemIds
) -> AsyncIterator[LibraryContext]:
    access = None if where.folder else _s3_access(chosen, where)
    blobs = open_store(where.folder / where.prefix if where.folder else Path(), access)
    objects = open_objects(blobs, access, clock, ids)
    try:
        yield LibraryContext(objects=objects, blobs=blobs, clock=clock, ids=ids)
    finally:
        await blobs.close()


def _s3_access(chosen: Library, where: LibraryLocation) -> S3Access:
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


async def _check_store(context: LibraryContext, home: Path, name: str) -> None:
    """Probe the store. Success is remembered, as a probe costs some twenty requests; failure is not."""
    file = home / "library" / "probed.json"
    known = _read_probes(file)
    now = context.clock.now()
    if 0 <= now - known.get(name, 0.0) < PROBED_SECONDS:
        return
    await probe(context.blobs, context.ids)
    with suppress(OSError):  # then the next command probes again
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.name}.{context.ids.ulid()}")
        kept = {key: at for key, at in known.items() if 0 <= now - at < PROBED_SECONDS}
        fresh.write_text(json.dumps(kept | {name: now}), "utf-8")
        fresh.replace(file)


def _read_probes(file: Path) -> dict[str, float]:
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: at for key, at in found.items() if isinstance(at, float)}


def _location_id(chosen: Library, where: LibraryLocation) -> str:
    parts = (chosen.endpoint, where.bucket, str(where.folder or ""), where.prefix)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
