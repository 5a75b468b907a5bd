"""Documents of the first folder are finished and laid out while the next folder is not even listed."""

import asyncio
import threading
from pathlib import Path

import pytest
from tests.servers.postgres import fresh_schema

from quire.assembly.engine import open_engine
from quire.assembly.member_pipelines import choose_pipeline
from quire.batches import folder_run
from quire.batches.folder_run import RunRequest, run_folder
from quire.model.batch import Stage
from quire.settings import PostgresSettings, Secret, Settings
from quire.tools.folder_scan import scan_folders

pytestmark = pytest.mark.slow
WORDS = Path(__file__).resolve().parents[1] / "situations" / "words.py"


class Watcher:
    """Notices the first result, and lets the scan go on only then."""

    def __init__(self):
        self.laid_out = threading.Event()
        self.totals = []
        self.counts = []

    def exported(self, files):
        if files:
            self.laid_out.set()

    def scanned(self, files, *_, whole):
        self.totals.append((files, whole))

    def progressed(self, counts):
        self.counts.append(counts)

    def __getattr__(self, _name):
        return lambda *_, **__: None


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.service)])
def settings(request, tmp_path):
    changes = {}
    if request.param == "postgres":
        server = request.getfixturevalue("postgres_server")
        place = PostgresSettings(dsn=Secret(fresh_schema(server)))
        changes = {"ledger": "postgres", "postgres": place}
    return Settings(home=tmp_path / "home", workers=1, **changes)


async def test_the_first_folder_is_worked_on_before_the_second_is_listed(tmp_path, settings, monkeypatch):
    source, watcher = tmp_path / "in", Watcher()
    for name in ("1/a.txt", "2/b.txt"):
        (source / name).parent.mkdir(parents=True)
        (source / name).write_text("one two")

    def scan_slowly(request):
        top, first, second = scan_folders(request.roots)
        yield top
        yield first
        assert watcher.laid_out.wait(60), "the scan had to wait for nothing"
        assert (request.out / "1" / "a.txt.words.json").exists()
        yield second

    monkeypatch.setattr(folder_run, "scan_request", scan_slowly)
    name, pipelines = choose_pipeline(settings, str(WORDS))
    async with open_engine(settings, pipelines=pipelines) as house:
        request = RunRequest(roots=[source], out=tmp_path / "out", pipeline=name)
        ran = await run_folder(request, house.run_context(), watcher, asyncio.Event())
        manifest = await house.blobs.get(ran.batch.manifest_key)
    assert ran.batch.position.stage is Stage.DONE
    assert ran.summary.counts["done"] == 2
    assert [total for total, _ in watcher.totals] == sorted(total for total, _ in watcher.totals)
    assert [whole for _, whole in watcher.totals] == [False] * (len(watcher.totals) - 1) + [True]
    assert b'"1/a.txt"' in manifest
    assert b'"2/b.txt"' in manifest
    assert (tmp_path / "out" / "2" / "b.txt.words.json").exists()


async def test_what_goes_wrong_in_the_intake_ends_the_run(tmp_path, settings, monkeypatch):
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.txt").write_text("one two")

    def scan_until_it_breaks(request):
        yield from scan_folders(request.roots)
        raise OSError("the disk is gone")

    monkeypatch.setattr(folder_run, "scan_request", scan_until_it_breaks)
    name, pipelines = choose_pipeline(settings, str(WORDS))
    async with open_engine(settings, pipelines=pipelines) as house:
        request = RunRequest(roots=[source], out=tmp_path / "out", pipeline=name)
        with pytest.raises(OSError, match="the disk is gone"):
            await run_folder(request, house.run_context(), Watcher(), asyncio.Event())
        monkeypatch.undo()
        ran = await run_folder(request, house.run_context(), Watcher(), asyncio.Event())
    assert ran.summary.counts["done"] == 1
    assert ran.batch.no == 1
