import asyncio
import os
import sqlite3
from collections import namedtuple

import pytest

from quire.assembly import examination
from quire.assembly.examination import Check, Examination, ToolCheck, examine
from quire.blobs.scrub_record import DamagedEntry, ScrubRecord
from quire.database.sqlite import SqliteDatabase
from quire.model.errors import Misconfigured, Reject
from quire.model.page_text import Tier
from quire.model.probe import Probe
from quire.steps.ocr.engines import TierState


async def _promises() -> list[Probe]:
    return [
        Probe(name=name, ok=True) for name in ("a second create is refused", "what is written can be read")
    ]


def _tool(version: str | None, needed_by: str = "") -> ToolCheck:
    probe = Probe(name="press", ok=version is not None, detail=version or "", advice="buy one")
    return ToolCheck(probe=lambda: probe, purpose="prints", needed_by=needed_by)


async def _examined(tmp_path, **changes) -> Examination:
    asked = {"rows": [], "cores": 2, "home": tmp_path, "probe_store": _promises, "tools": [_tool("1.2")]}
    return await examine(**(asked | changes))


def _checks(found: Examination, title: str) -> list[Check]:
    return [check for section in found.sections if section.title == title for check in section.checks]


async def test_a_house_in_order_is_fine(tmp_path):
    found = await _examined(
        tmp_path, rows=[("workers", "2", "QUIRE_WORKERS")], home=tmp_path / "new" / "home"
    )
    assert found.is_fine
    assert [section.title for section in found.sections] == [
        "Versions",
        "Settings",
        "Tools",
        "Sandbox",
        "Home",
        "Store",
    ]
    assert _checks(found, "Settings") == [
        Check(name="workers", state="ok", detail="2", source="QUIRE_WORKERS")
    ]
    assert [check.detail for check in _checks(found, "Store")] == [
        promise.name for promise in await _promises()
    ]


async def test_nothing_is_left_behind(tmp_path):
    await _examined(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("tool", "features", "state", "fine"),
    [
        (_tool("1.2"), (), "ok", True),
        (_tool(None), (), "missing", False),
        (_tool(None, "print"), (), "ok", True),
        (_tool(None, "print"), ("print",), "missing", False),
    ],
)
async def test_a_tool_is_missed_only_when_it_is_needed(tmp_path, tool, features, state, fine):
    found = await _examined(tmp_path, tools=[tool], features=features)
    (check,) = _checks(found, "Tools")
    assert (check.state, found.is_fine) == (state, fine)
    assert "1.2" in check.detail or check.advice == "buy one"


async def test_a_tool_that_breaks_while_it_is_loaded_is_a_finding(tmp_path):
    def probe() -> Probe:
        raise RuntimeError("symbol not found")

    found = await _examined(tmp_path, tools=[ToolCheck(probe=probe, purpose="prints")])
    (check,) = _checks(found, "Tools")
    assert check.state == "failed"
    assert "symbol not found" in check.detail


def test_a_package_of_an_extra_is_asked_for_by_that_extra():
    probe = examination.package_probe("no_such_package_here", extra="s3")()
    assert (probe.ok, probe.advice) == (False, "pip install 'quire[s3]'")
    assert examination.package_probe("msgspec", extra="any")().detail


async def test_settings_that_cannot_be_read_are_a_finding_and_the_rest_is_told(tmp_path):
    error = Misconfigured("workers must be a whole number")
    found = await _examined(tmp_path, rows=error, home=None, probe_store=None)
    assert not found.is_fine
    assert [section.title for section in found.sections] == ["Versions", "Settings", "Tools", "Sandbox"]
    assert "whole number" in _checks(found, "Settings")[0].detail


async def test_a_damaged_database_is_found(tmp_path):
    (tmp_path / "quire.db").write_bytes(b"no database" * 1000)
    found = await _examined(tmp_path)
    assert not found.is_fine
    (check,) = [check for check in _checks(found, "Home") if check.name == "database"]
    assert (check.state, "backup" in check.advice) == ("failed", True)


async def test_a_database_in_order_is_told_and_left_alone(tmp_path):
    connection = sqlite3.connect(tmp_path / "quire.db")
    connection.execute("CREATE TABLE t (n)")
    connection.close()
    before = (tmp_path / "quire.db").read_bytes()
    found = await _examined(tmp_path)
    assert found.is_fine
    said = "quire.db can be read; its pages get checksums when a run or a server ends"
    assert said in [check.detail for check in _checks(found, "Home")]
    assert (tmp_path / "quire.db").read_bytes() == before


async def test_a_file_in_the_place_of_the_home_folder_fails(tmp_path):
    (tmp_path / "file").touch()
    found = await _examined(tmp_path, home=tmp_path / "file")
    (check,) = _checks(found, "Home")
    assert check.state == "failed"
    assert check.advice


async def test_little_space_is_a_warning_and_no_failure(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")  # noqa: PYI024 - the shape of the standard library's answer
    monkeypatch.setattr(examination.shutil, "disk_usage", lambda _path: usage(10, 9, 1))
    found = await _examined(tmp_path)
    assert [check.state for check in _checks(found, "Home")] == ["ok", "warning"]
    assert found.is_fine


async def test_an_sqlite_that_is_too_old_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(examination.sqlite3, "sqlite_version_info", (3, 7, 15))
    found = await _examined(tmp_path)
    assert [check.name for check in _checks(found, "Versions") if check.state == "failed"] == ["SQLite"]


async def _refuses() -> list[Probe]:
    raise Misconfigured("the store accepts a second create")


async def _hangs() -> list[Probe]:
    await asyncio.Event().wait()
    return []


async def _breaks() -> list[Probe]:
    raise ZeroDivisionError("https://s3.example.org/?X-Amz-Signature=hush")


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        (_refuses, "the store accepts a second create"),
        (_hangs, "no answer in 0.01 seconds"),
        (_breaks, "unexpected ZeroDivisionError"),
    ],
)
async def test_a_store_that_fails_its_probe_is_a_finding(tmp_path, probe, said):
    found = await _examined(tmp_path, probe_store=probe, store_seconds=0.01)
    (check,) = _checks(found, "Store")
    assert (check.state, check.detail, found.is_fine) == ("failed", said, False)
    assert check.advice


def _scrubbed(*, damaged: int = 0, restored: int = 0) -> ScrubRecord:
    record = ScrubRecord()
    record.begin(1_700_000_000.0)
    record.counts.blobs = 7
    for number in range(damaged):
        state = "restored" if number < restored else "waiting"
        record.add(DamagedEntry(key=str(number), digest="", size=1, state=state))
    record.finish(1_700_000_060.0)
    return record


def _under_way(record: ScrubRecord) -> ScrubRecord:
    record.begin(1_700_009_000.0)
    return record


@pytest.mark.parametrize(
    ("record", "state", "said"),
    [
        (None, "ok", "never"),
        (ScrubRecord(), "ok", "never"),
        (_scrubbed(), "ok", "finished 2023-11-14T22:14:20.000Z: 7 blobs, 0 damaged, 0 of them restored"),
        (_scrubbed(damaged=2, restored=2), "ok", "7 blobs, 2 damaged, 2 of them restored"),
        (_scrubbed(damaged=2, restored=1), "warning", "7 blobs, 2 damaged, 1 of them restored"),
        (
            _under_way(ScrubRecord()),
            "ok",
            "under way since 2023-11-15T00:43:20.000Z: 0 blobs so far, 0 damaged",
        ),
        (_under_way(_scrubbed()), "ok", "0 of them restored; under way since"),
    ],
)
async def test_the_last_scrub_is_told(tmp_path, record, state, said):
    async def load():
        return record

    found = await _examined(tmp_path, load_scrub=load)
    check = _checks(found, "Store")[-1]
    assert (check.name, check.state) == ("last scrub", state)
    assert said in check.detail
    assert found.is_fine
    assert bool(check.advice) == (state == "warning" or said == "never")


@pytest.mark.parametrize(
    ("error", "said"),
    [(Reject("delete it", code="corrupt"), "delete it"), (KeyError("x"), "unexpected KeyError")],
)
async def test_a_record_of_the_scrub_that_cannot_be_read_is_a_finding(tmp_path, error, said):
    async def load():
        raise error

    found = await _examined(tmp_path, load_scrub=load)
    assert _checks(found, "Store")[-1].detail == said
    assert found.is_fine


async def test_damaged_pages_of_the_database_are_found(tmp_path):
    path = tmp_path / "quire.db"
    database = SqliteDatabase(path, thorough=True)
    await database.open()
    await database.write(lambda connection: connection.execute("CREATE TABLE t AS SELECT randomblob(50000)"))
    await database.close()
    (check,) = (one for one in _checks(await _examined(tmp_path), "Home") if one.name == "database")
    assert (check.state, "pages are as they were written" in check.detail) == ("ok", True)
    before = path.stat()
    with path.open("r+b") as stream:
        stream.seek(3 * 8192 + 100)
        stream.write(b"wrong bytes")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    found = await _examined(tmp_path)
    (check,) = (one for one in _checks(found, "Home") if one.name == "database")
    assert (check.state, "page 4" in check.detail, found.is_fine) == ("failed", True, False)


async def test_a_server_without_page_checksums_is_a_warning(tmp_path):
    async def probed():
        return [Probe(name="page checksums", ok=False, detail="they are off", needed=False)]

    found = await _examined(tmp_path, probe_server=probed)
    assert _checks(found, "Database") == [
        Check(name="probe", state="warning", detail="page checksums: they are off")
    ]
    assert found.is_fine


async def test_a_server_that_cannot_be_used_is_a_failure(tmp_path):
    async def probed():
        raise Misconfigured("it refuses us")

    found = await _examined(tmp_path, probe_server=probed)
    assert [check.state for check in _checks(found, "Database")] == ["failed"]
    assert not found.is_fine


async def test_what_the_server_of_envelopes_may_lose_is_a_warning_with_advice(tmp_path):
    async def probed():
        lost = Probe(name="appendfsync", ok=False, needed=False, detail="it is no", advice="set always")
        return [Probe(name="Redis answers", ok=True), lost]

    found = await _examined(tmp_path, probe_envelopes=probed)
    assert _checks(found, "Envelopes") == [
        Check(name="probe", state="ok", detail="Redis answers"),
        Check(name="probe", state="warning", detail="appendfsync: it is no", advice="set always"),
    ]
    assert found.is_fine


async def test_tiers_of_ocr_that_are_not_there_are_named_with_what_they_need(tmp_path):
    there = TierState(tier=Tier.TESSERACT, engine="Tesseract 5")
    absent = TierState(tier=Tier.EASYOCR, needs="pip install easyocr")
    found = await _examined(tmp_path, probe_tiers=lambda: [there, absent])
    checks = _checks(found, "OCR tiers")
    assert [(check.name, check.state, check.advice) for check in checks] == [
        ("tesseract", "ok", ""),
        ("easyocr", "ok", "pip install easyocr"),
    ]
    assert found.is_fine
    (check,) = _checks(await _examined(tmp_path, probe_tiers=lambda: [absent]), "OCR tiers")
    assert check.state == "warning", "no picture would be read"


async def test_an_unknown_tier_is_a_finding(tmp_path):
    def refuse():
        raise Misconfigured("unknown OCR tier 'x'")

    found = await _examined(tmp_path, probe_tiers=refuse)
    (check,) = _checks(found, "OCR tiers")
    assert (check.state, check.detail) == ("warning", "unknown OCR tier 'x'")
