"""A conversion in a worker process of its own: what it makes, how it ends, and that it always ends."""

import asyncio
import hashlib
import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from msgspec import structs
from tests.situations.libraries import fake_compute

from quire.assembly import library_worker
from quire.assembly.library_worker import ComputeStarter
from quire.compute import failures
from quire.compute.reports import build_report
from quire.library.worker.conversion import (
    LOG_BYTES,
    LONGEST_SECONDS,
    Conversion,
    ConversionCompute,
    ConversionContext,
    ConversionLimits,
    ConversionProgress,
    SourceInfo,
)
from quire.model.errors import Retry
from quire.model.work import StepCall
from quire.steps import converters
from quire.system import LoopSignal
from quire.testing.memory_blobs import MemoryBlobs

CORPUS = Path(__file__).parents[3] / "documents" / "corpus" / "pdf"
JOB = "a" * 64
ABOUT = SourceInfo(
    hash=JOB, original_filename="Rules.pdf", worker_id="w", converted_at="now", size_bytes=3, tags=("DnD",)
)


class Bench:
    def __init__(self, folder, start=None, **limits):
        self.folder = folder / "job"
        self.folder.mkdir()
        self.signs = []
        self.context = ConversionContext(
            start=start or fake_compute(), limits=ConversionLimits(memory_mb=512, **limits)
        )

    async def run(self, text="", *, about=ABOUT, **options):
        source = self.folder / "source.pdf"
        if isinstance(text, Path):
            shutil.copyfile(text, source)
        else:
            source.write_text(f"%PDF {text}")
        context = structs.replace(self.context, options=options)
        return await Conversion(context, self.signs.append).run(about, self.folder)

    def members(self):
        with zipfile.ZipFile(self.folder / "result.zip") as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    def info(self):
        return json.loads(self.members()["info.json"])


@pytest.mark.parametrize(
    ("pages", "seconds"), [(0, 100), (10, 100), (11, 110), (1000, 10_000), (10_000_000, LONGEST_SECONDS)]
)
def test_the_time_allowed_grows_with_the_pages_to_a_cap(pages, seconds):
    assert ConversionLimits(seconds=100, seconds_per_page=10).allowed(pages) == seconds


def test_a_cap_does_not_shorten_what_was_asked_for():
    assert ConversionLimits(seconds=2 * LONGEST_SECONDS).allowed(10) == 2 * LONGEST_SECONDS


async def test_a_good_one_tells_how_many_pages_there_are_and_leaves_a_result(tmp_path):
    bench = Bench(tmp_path)
    ended = await bench.run("pages 3")
    assert (ended.error, ended.log, ended.stage) == ("", "this and that", "packaging")
    assert bench.signs[0] == ConversionProgress(stage="converting", done=0, total=3)
    assert bench.signs[-1] == ConversionProgress(stage="packaging", done=3, total=3)
    assert sorted(bench.members()) == ["content.md", "info.json"]


async def test_what_is_known_here_goes_before_what_the_process_says(tmp_path):
    bench = Bench(tmp_path)
    await bench.run("pages 3")
    info = bench.info()
    assert list(info)[:6] == ["hash", "converted_at", "worker_id", "original_filename", "tags", "size_bytes"]
    assert (info["hash"], info["tags"], info["pages"]) == (JOB, ["DnD"], 3)
    assert 0 <= info["seconds"] < 100


async def test_a_real_document_becomes_the_archive_of_the_contract(tmp_path):
    source = CORPUS / "picture_classification.pdf"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    bench = Bench(tmp_path, ComputeStarter({"PATH": os.defpath}), seconds=100)
    about = structs.replace(ABOUT, hash=digest, size_bytes=source.stat().st_size)
    ended = await bench.run(source, about=about, ocr="none")
    assert ended.error == ""
    info, members = bench.info(), bench.members()
    assert (info["hash"], info["size_bytes"], info["pages"]) == (digest, about.size_bytes, 2)
    assert (info["converter"]["name"], info["marker_meta"], info["damage"]) == ("liteparse", {}, [])
    assert list(members) == ["assets/page-1-0001.jpg", "assets/page-2-0001.jpg", "content.md", "info.json"]
    assert b"![](assets/page-1-0001.jpg)" in members["content.md"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("crash", "signal SIGABRT"),
        ("fail", "page 3 is a riddle"),
        ("memory", "limit of 512 MB; raise library."),
    ],
)
async def test_its_end_becomes_a_reason(tmp_path, text, words):
    bench = Bench(tmp_path)
    ended = await bench.run(text)
    assert words in ended.error
    assert not ended.trouble
    assert not (bench.folder / "result.zip").exists()


async def test_an_error_that_nobody_expected_is_told_with_its_traceback(tmp_path):
    ended = await Bench(tmp_path).run("stumble")
    assert "KeyError" in ended.error
    assert ended.traceback.startswith("Traceback (most recent call last):\n")
    assert "fake_converter.py" in ended.traceback


@pytest.mark.parametrize(("text", "is_trouble"), [("trouble", True), ("later", False), ("fail", False)])
async def test_trouble_is_told_from_a_bad_document(tmp_path, text, is_trouble):
    assert (await Bench(tmp_path).run(text)).trouble == is_trouble


class FullStore:
    """A compute whose store has no room for a result."""

    async def submit(self, _call, orders):
        self.order = orders[0]

    def take_reports(self):
        failure = failures.of_store(
            Retry("no space left on device", code="storage_full"), StepCall(step="s", version=1)
        )
        return [build_report(self.order, 0.0, 1.0, "w", failure)]

    async def stop(self, _grace_seconds):
        return []


async def test_a_full_disk_is_trouble_of_this_machine(tmp_path):
    def start(*_):
        return ConversionCompute(compute=FullStore(), signal=LoopSignal(), blobs=MemoryBlobs())

    ended = await Bench(tmp_path, start).run("x")
    assert (ended.error, ended.trouble) == ("no space left on device", True)


async def test_one_that_hangs_is_killed_after_the_time_for_its_pages(tmp_path):
    ended = await Bench(tmp_path, seconds=1.5, seconds_per_page=0.6).run("hang pages 3")
    assert ended.error == "the conversion was stopped after 2 seconds, the limit for 3 pages"


async def test_one_that_shows_no_progress_is_killed(tmp_path):
    ended = await Bench(tmp_path, seconds=100, silent_seconds=0.5).run("hang")
    assert "no progress" in ended.error


@pytest.mark.parametrize("converter", ["marker", "opendataloader"])
async def test_one_that_tells_nothing_until_all_pages_are_done_has_the_time_for_them(tmp_path, converter):
    bench = Bench(tmp_path, seconds=1.5, seconds_per_page=0.6, silent_seconds=0.1)
    ended = await bench.run("hang pages 3", converter=converter)
    assert ended.error == "the conversion was stopped after 2 seconds, the limit for 3 pages"


@pytest.mark.parametrize("name", [*converters.CONVERTERS, *converters.ALSO_CALLED])
def test_which_converters_tell_of_each_page(name):
    assert converters.converts_whole(name) == (name in {"marker", "opendataloader"})


async def test_whatever_it_started_goes_with_it(tmp_path):
    bench = Bench(tmp_path)
    seen = asyncio.Event()
    bench.signs = _Calling(seen.set)
    running = asyncio.create_task(bench.run("family"))
    await seen.wait()
    written = bench.folder / "scratch" / "child"  # where the process works
    async with asyncio.timeout(20):
        while not written.exists() or not written.read_text():
            await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(20):
        while _alive(int(written.read_text())):
            await asyncio.sleep(0)  # it was killed; the kernel takes its time on a busy machine


class _Calling:
    def __init__(self, call):
        self.call = call

    def append(self, _sign):
        self.call()


def _alive(pid):
    """Not as a zombie, which nobody may be there to bury."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


async def test_it_gets_no_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    bench = Bench(tmp_path)
    await bench.run("x")
    assert set(bench.info()["environment"]) <= {
        *("PATH", "PYTHONPATH", "TMPDIR", "LC_CTYPE"),
        *library_worker.WORKER_ENVIRONMENT,
    }


async def test_a_process_that_cannot_be_started_is_trouble_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(library_worker, "WORKER_COMMAND", ("/no/such/program",))
    ended = await Bench(tmp_path).run("x")
    assert ended.trouble
    assert "No such file" in ended.error


async def test_a_process_that_ends_at_once_is_trouble_with_its_words(tmp_path, monkeypatch):
    program = "import sys; sys.exit('no room for me')"
    monkeypatch.setattr(library_worker, "WORKER_COMMAND", (sys.executable, "-c", program))
    ended = await Bench(tmp_path).run("x")
    assert ended.trouble
    assert "no room for me" in ended.error


async def test_noise_is_bounded(tmp_path):
    ended = await Bench(tmp_path).run("noise")
    assert ended.error == ""
    assert LOG_BYTES - 10 < len(ended.log) <= LOG_BYTES
    assert ended.log.endswith("y\nthis and that")
