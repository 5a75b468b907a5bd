"""The checks of `quire doctor`: versions, settings in force, tools, the home folder, the store.

Promise: never raises for a finding, removes its test files, and gives advice with every problem. Must not
know: where settings come from (rows are passed in), which store there is (a probe is passed in), terminals.
"""

import asyncio
import platform
import shutil
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Collection, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Literal

from msgspec import Struct

import quire
from quire.blobs.scrub_record import ScrubRecord
from quire.database.page_sums import find_damage, read_sums
from quire.model.clock import timestamp
from quire.model.errors import QuireError
from quire.model.probe import Probe
from quire.model.step import SandboxMode
from quire.steps.ocr.engines import TierState
from quire.tools import liteparse, marker, opendataloader, pdfium, pillow, pymupdf4llm, qpdf, tesseract, vips
from quire.tools.sandbox import ENFORCED
from quire.tools.sandbox import probe as probe_sandbox

State = Literal["ok", "warning", "missing", "failed"]
Row = tuple[str, str, str]  # key, value as people may see it, source
ScrubLoader = Callable[[], Awaitable[ScrubRecord | None]]
TierProbe = Callable[[], Sequence[TierState]]  # raises Misconfigured for an unknown tier
StoreProbe = Callable[[], Awaitable[Sequence[Probe]]]  # raises when a promise is broken

OLDEST_SQLITE = (3, 24, 0)  # the first with ON CONFLICT DO UPDATE
LITTLE_SPACE_BYTES = 2 << 30
STORE_SECONDS = 60.0
STORE_ADVICE = "follow the message; Quire does not run on a store that breaks its guarantees"
DATABASE_ADVICE = "follow the message; nothing runs without the database"


class Check(Struct, frozen=True, kw_only=True):
    """`missing` and `failed` stop the work, `warning` does not. `source` is where a setting came from."""

    name: str
    state: State
    detail: str
    source: str = ""
    advice: str = ""


class Section(Struct, frozen=True, kw_only=True):
    title: str
    checks: tuple[Check, ...]


class Examination(Struct, frozen=True, kw_only=True):
    sections: tuple[Section, ...]

    @property
    def is_fine(self) -> bool:
        return all(check.state in {"ok", "warning"} for section in self.sections for check in section.checks)


class ToolCheck(Struct, frozen=True, kw_only=True):
    """`needed_by` is the feature that needs it; empty: Quire always does."""

    probe: Callable[[], Probe]
    purpose: str
    needed_by: str = ""


def package_probe(name: str, *, extra: str) -> Callable[[], Probe]:
    """The probe of a package that comes with an extra. Imports it: an installed one may still be broken."""

    def probe() -> Probe:
        try:
            import_module(name)
        except ImportError:
            return Probe(name=name, ok=False, advice=f"pip install 'quire[{extra}]'")
        return Probe(name=name, ok=True, detail=metadata.version(name))

    return probe


TOOLS = (
    ToolCheck(probe=vips.probe, purpose="decodes and encodes images"),
    ToolCheck(probe=pillow.probe, purpose="reads image formats that libvips does not support"),
    ToolCheck(probe=qpdf.probe, purpose="opens, repairs and splits PDFs"),
    ToolCheck(probe=pdfium.probe, purpose="renders PDF pages"),
    ToolCheck(probe=package_probe("obstore", extra="s3"), purpose="stores blobs in S3", needed_by="s3"),
    ToolCheck(probe=liteparse.probe, purpose="converts PDFs to Markdown", needed_by=liteparse.NAME),
    ToolCheck(probe=pymupdf4llm.probe, purpose="converts PDFs to Markdown", needed_by=pymupdf4llm.NAME),
    ToolCheck(probe=opendataloader.probe, purpose="converts PDFs to Markdown", needed_by=opendataloader.NAME),
    ToolCheck(probe=marker.probe, purpose="converts PDFs to Markdown", needed_by=marker.NAME),
    ToolCheck(probe=tesseract.probe, purpose="recognizes text on scanned pages", needed_by="ocr"),
)


async def examine(
    *,
    rows: Sequence[Row] | QuireError,
    cores: int,
    home: Path | None,
    probe_store: StoreProbe | None,
    load_scrub: ScrubLoader | None = None,
    probe_server: StoreProbe | None = None,
    probe_tiers: TierProbe | None = None,
    probe_envelopes: StoreProbe | None = None,
    features: Collection[str] = (),
    sandbox: SandboxMode = "auto",
    tools: Sequence[ToolCheck] = TOOLS,
    store_seconds: float = STORE_SECONDS,
) -> Examination:
    """`rows` may be the error of reading the settings; then home and store are unknown (None).

    `probe_server` is for a ledger on PostgreSQL, `probe_tiers` for the engines that read pictures,
    `probe_envelopes` for the server on which envelopes travel.
    `features` are those that the settings use, such as "s3": their tools must be installed.
    """
    sections = [
        Section(title="Versions", checks=await asyncio.to_thread(_check_versions, cores, home)),
        Section(title="Settings", checks=_check_settings(rows)),
        Section(title="Tools", checks=await asyncio.to_thread(_check_tools, tools, features)),
        Section(title="Sandbox", checks=await asyncio.to_thread(_check_sandbox, sandbox)),
    ]
    if probe_tiers is not None:
        sections.append(Section(title="OCR tiers", checks=await asyncio.to_thread(_check_tiers, probe_tiers)))
    if home is not None:
        sections.append(Section(title="Home", checks=await asyncio.to_thread(_check_home, home)))
    if probe_server is not None:
        checks = await _check_store(probe_server, store_seconds, DATABASE_ADVICE)
        sections.append(Section(title="Database", checks=checks))
    if probe_envelopes is not None:
        sections.append(Section(title="Envelopes", checks=await _check_store(probe_envelopes, store_seconds)))
    if probe_store is not None:
        checks = await _check_store(probe_store, store_seconds)
        if load_scrub is not None and all(check.state == "ok" for check in checks):
            checks = (*checks, await _check_last_scrub(load_scrub, store_seconds))
        sections.append(Section(title="Store", checks=checks))
    return Examination(sections=tuple(sections))


def _check_versions(cores: int, home: Path | None) -> tuple[Check, ...]:
    return (
        Check(name="quire", state="ok", detail=quire.__version__),
        Check(name="Python", state="ok", detail=platform.python_version()),
        _check_sqlite(),
        _check_write_ahead_log(home),
        Check(name="platform", state="ok", detail=platform.platform()),
        Check(name="cores", state="ok", detail=str(cores)),
    )


def _check_sqlite() -> Check:
    if sqlite3.sqlite_version_info >= OLDEST_SQLITE:
        return Check(name="SQLite", state="ok", detail=sqlite3.sqlite_version)
    needed = ".".join(str(part) for part in OLDEST_SQLITE)
    advice = f"use a Python that is built with SQLite {needed} or newer"
    return Check(name="SQLite", state="failed", detail=f"{sqlite3.sqlite_version} is too old", advice=advice)


def _check_write_ahead_log(home: Path | None) -> Check:
    """Tested where the database will be, because some network file systems refuse it."""
    name = "SQLite WAL"
    try:
        place = home if home is not None and home.is_dir() else None
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=place) as folder:
            connection = sqlite3.connect(Path(folder) / "trial.sqlite")
            try:
                mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
                connection.execute("CREATE TABLE trial (number INTEGER)")
            finally:
                connection.close()
    except (OSError, sqlite3.Error) as error:
        return Check(name=name, state="failed", detail=f"cannot be tried: {error}", advice=_LOCAL_DISK)
    if mode != "wal":
        return Check(name=name, state="failed", detail=f"refused, {mode} instead", advice=_LOCAL_DISK)
    return Check(
        name=name, state="ok", detail="works" + ("" if place else " (tried in the temporary folder)")
    )


_LOCAL_DISK = "set home to a folder on a local disk that you may write to"


def _check_settings(rows: Sequence[Row] | QuireError) -> tuple[Check, ...]:
    if isinstance(rows, QuireError):
        advice = "correct the settings, then run quire doctor again to check home and store too"
        return (Check(name="settings", state="failed", detail=str(rows), advice=advice),)
    return tuple(Check(name=key, state="ok", detail=value, source=source) for key, value, source in rows)


def _check_tools(tools: Sequence[ToolCheck], features: Collection[str]) -> tuple[Check, ...]:
    return tuple(_check_tool(tool, features) for tool in tools)


def _check_tool(tool: ToolCheck, features: Collection[str]) -> Check:
    try:
        probe = tool.probe()
    except Exception as error:  # noqa: BLE001 - libraries fail to load in any way they like
        name = tool.probe.__module__.rpartition(".")[2]
        advice = "reinstall it: pip install --force-reinstall quire"
        return Check(name=name, state="failed", detail=f"cannot be loaded: {error}", advice=advice)
    if probe.ok:
        return Check(name=probe.name, state="ok", detail=f"{probe.detail}, {tool.purpose}")
    if not tool.needed_by or tool.needed_by in features:
        detail = f"not usable, but needed: {tool.purpose}"
        return Check(name=probe.name, state="missing", detail=detail, advice=probe.advice)
    # A missing extra that is not used is no problem: a plain installation must pass.
    detail = f"not installed, not needed with these settings: {tool.purpose}"
    return Check(name=probe.name, state="ok", detail=detail, advice=probe.advice)


def _check_tiers(probe: TierProbe) -> tuple[Check, ...]:
    """A tier that is not there is passed over; only without any does no picture get read."""
    try:
        states = probe()
    except QuireError as error:
        return (Check(name="tiers", state="warning", detail=str(error), advice="correct ocr.tiers"),)
    available = any(state.is_available for state in states)
    return tuple(
        Check(name=state.tier, state="ok", detail=state.engine)
        if state.is_available
        else Check(
            name=state.tier,
            state="ok" if available else "warning",
            detail="not there, so it is passed over",
            advice=state.needs,
        )
        for state in states
    )


def _check_sandbox(mode: SandboxMode) -> tuple[Check, ...]:
    """The mechanism, tried out, and what it enforces; or why there is none."""
    name, unprotected = "mechanism", "files are decoded with all that workers may do"
    if mode == "off":
        advice = "set sandbox to auto, unless every file comes from people you trust"
        return (Check(name=name, state="warning", detail=f"switched off: {unprotected}", advice=advice),)
    found = probe_sandbox()
    if not found.ok:
        state: State = "failed" if mode == "on" else "warning"
        effect = "workers do not start" if mode == "on" else unprotected
        return (Check(name=name, state=state, detail=f"none, {found.detail}: {effect}", advice=found.advice),)
    enforced = (Check(name=what, state="ok", detail=limit) for what, limit in ENFORCED.items())
    return (Check(name=name, state="ok", detail=found.detail), *enforced)


def _check_home(home: Path) -> tuple[Check, ...]:
    try:
        there = _find_nearest_folder(home)
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=there):
            pass
        free = shutil.disk_usage(there).free
    except OSError as error:
        detail = f"{home} cannot be written to: {error.strerror or error}"
        advice = "give the user who runs Quire write access, or set home to another folder"
        return (Check(name="folder", state="failed", detail=detail, advice=advice),)
    known = f"{home} is writable" if there == home else f"{home} does not exist yet and can be created"
    space = f"{free / (1 << 30):.1f} GiB"
    little = free < LITTLE_SPACE_BYTES
    advice = "free some space, or set home to a folder on a larger disk" if little else ""
    return (
        Check(name="folder", state="ok", detail=known),
        Check(name="free space", state="warning" if little else "ok", detail=space, advice=advice),
        *_check_database(home / "quire.db"),
    )


def _check_database(path: Path) -> tuple[Check, ...]:
    """Whether an existing database can be read, opened read-only."""
    if not path.exists():
        return ()
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        advice = "restore it from a backup, or set home to another folder"
        return (Check(name="database", state="failed", detail=f"{path.name}: {error}", advice=advice),)
    sums = read_sums(path)
    if sums is None:
        detail = f"{path.name} can be read; its pages get checksums when a run or a server ends"
        return (Check(name="database", state="ok", detail=detail),)
    damaged = find_damage(path, sums)
    if damaged:
        detail = (
            f"{path.name} is damaged: page {damaged[0].number}, {len(damaged)} of {len(sums.crcs)} in all"
        )
        repairable = all(one.bit is not None for one in damaged)
        advice = (
            "one bit in each of them: the next command repairs it, when no other process has it open"
            if repairable
            else "restore it from a backup, or move quire.db* away and run again (docs/operations.md)"
        )
        return (Check(name="database", state="failed", detail=detail, advice=advice),)
    detail = f"{path.name} can be read; {len(sums.crcs)} pages are as they were written"
    return (Check(name="database", state="ok", detail=detail),)


def _find_nearest_folder(path: Path) -> Path:
    """The path itself or its nearest existing parent. Raises NotADirectoryError for a file."""
    while not path.exists():
        path = path.parent
    if not path.is_dir():
        raise NotADirectoryError(20, f"{path} is not a folder")
    return path


async def _check_store(probe: StoreProbe, seconds: float, follow: str = STORE_ADVICE) -> tuple[Check, ...]:
    try:
        async with asyncio.timeout(seconds):
            probes = await probe()
    except QuireError as error:
        return (Check(name="probe", state="failed", detail=str(error), advice=follow),)
    except TimeoutError:
        detail, advice = f"no answer in {seconds:g} seconds", "check the address, the network and the disk"
        return (Check(name="probe", state="failed", detail=detail, advice=advice),)
    except Exception as error:  # noqa: BLE001 - an exception would hide the other findings
        # Without its message: errors of HTTP clients quote signed URLs.
        detail, advice = f"unexpected {type(error).__name__}", "this is a bug in Quire: please report it"
        return (Check(name="probe", state="failed", detail=detail, advice=advice),)
    return tuple(
        Check(
            name="probe",
            state="ok" if one.ok else "warning",
            detail=one.name if one.ok else f"{one.name}: {one.detail}",
            advice="" if one.ok else one.advice,
        )
        for one in probes
    )


async def _check_last_scrub(load: ScrubLoader, seconds: float) -> Check:
    """When the whole store was last compared with its digests, and what was found."""
    name = "last scrub"
    try:
        async with asyncio.timeout(seconds):
            record = await load()
    except QuireError as error:
        return Check(name=name, state="warning", detail=str(error), advice="follow the message")
    except TimeoutError:
        detail, advice = f"no answer in {seconds:g} seconds", "check the address, the network and the disk"
        return Check(name=name, state="warning", detail=detail, advice=advice)
    except Exception as error:  # noqa: BLE001 - an exception would hide the other findings
        detail, advice = f"unexpected {type(error).__name__}", "this is a bug in Quire: please report it"
        return Check(name=name, state="warning", detail=detail, advice=advice)
    return _describe_scrub(name, record)


def _describe_scrub(name: str, record: ScrubRecord | None) -> Check:
    if record is None or (record.last is None and record.position is None):
        advice = "run quire scrub now and then, or set scrub.every_days for quire serve"
        return Check(name=name, state="ok", detail="never", advice=advice)
    parts, unrepaired = [], 0
    if record.last is not None:
        counts = record.last.counts
        unrepaired = counts.damaged - counts.restored
        parts.append(
            f"finished {timestamp(record.last.finished_at)}: {counts.blobs} blobs, {counts.damaged} damaged, "
            f"{counts.restored} of them restored"
        )
    if record.position is not None:
        found = record.counts
        parts.append(
            f"under way since {timestamp(record.started_at)}: {found.blobs} blobs so far, "
            f"{found.damaged} damaged"
        )
    if not unrepaired:
        return Check(name=name, state="ok", detail="; ".join(parts))
    advice = "run the folders again or send the files again, then run quire scrub; look after the disk"
    return Check(name=name, state="warning", detail="; ".join(parts), advice=advice)
