"""The converting process: what it says, how it ends, and that it always ends."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.situations.libraries import COMMAND

from quire.library.worker import conversion_process
from quire.library.worker.conversion import (
    LONGEST_SECONDS,
    Conversion,
    ConversionLimits,
    ConversionOrder,
    ConversionProgress,
    ConverterCommand,
    SourceInfo,
)
from quire.steps import pdf_markdown
from quire.system import SystemClock

JOB = "a" * 64
ABOUT = SourceInfo(hash=JOB, original_filename="Rules.pdf", worker_id="w", converted_at="now", size_bytes=3)


class Bench:
    def __init__(self, folder, **limits):
        self.folder = folder
        self.signs = []
        self.limits = ConversionLimits(memory_mb=512, **limits)

    async def run(self, text="", *, command=COMMAND):
        source = self.folder / "source.pdf"
        source.write_text(f"%PDF {text}")
        order = ConversionOrder(source=str(source), target=str(self.folder / "result.zip"), about=ABOUT)
        told = ConverterCommand(words=command, environment={"PATH": os.defpath})
        return await Conversion(told, self.limits, SystemClock(), self.signs.append).run(order, self.folder)


@pytest.mark.parametrize(
    ("pages", "seconds"), [(0, 100), (10, 100), (11, 110), (1000, 10_000), (10_000_000, LONGEST_SECONDS)]
)
def test_the_time_allowed_grows_with_the_pages_to_a_cap(pages, seconds):
    assert ConversionLimits(seconds=100, seconds_per_page=10).allowed(pages) == seconds


def test_a_cap_does_not_shorten_what_was_asked_for():
    assert ConversionLimits(seconds=2 * LONGEST_SECONDS).allowed(10) == 2 * LONGEST_SECONDS


async def test_a_good_one_tells_how_far_it_is(tmp_path):
    bench = Bench(tmp_path)
    ended = await bench.run("pages 3")
    assert (ended.error, ended.log) == ("", "this and that")
    assert bench.signs[-1] == ConversionProgress(stage="converting", done=3, total=3)
    assert (tmp_path / "result.zip").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["order.json", "result.zip", "source.pdf"]


@pytest.mark.parametrize(
    ("text", "words"),
    [("crash", "signal SIGABRT"), ("fail", "page 3 is a riddle"), ("memory", "MemoryError")],
)
async def test_its_end_becomes_a_reason(tmp_path, text, words):
    ended = await Bench(tmp_path).run(text)
    assert words in ended.error
    assert not ended.trouble


async def test_trouble_is_told_from_a_bad_document(tmp_path):
    assert (await Bench(tmp_path).run("trouble")).trouble


async def test_one_that_hangs_is_killed_after_the_time_for_its_pages(tmp_path):
    ended = await Bench(tmp_path, seconds=1.5, seconds_per_page=0.6).run("hang pages 3")
    assert ended.error == "the conversion was stopped after 2 seconds, the limit for 3 pages"


async def test_one_that_shows_no_progress_is_killed(tmp_path):
    ended = await Bench(tmp_path, seconds=100, silent_seconds=0.5).run("hang")
    assert "no progress" in ended.error


WHOLE = """
import json, signal
print(json.dumps({"stage": "converting", "done": 0, "total": 3, "silent": True}), flush=True)
signal.pause()
"""


async def test_one_that_tells_nothing_until_all_pages_are_done_has_the_time_for_them(tmp_path):
    bench = Bench(tmp_path, seconds=1.5, seconds_per_page=0.6, silent_seconds=1.0)
    ended = await bench.run(command=(sys.executable, "-c", WHOLE))
    assert ended.error == "the conversion was stopped after 2 seconds, the limit for 3 pages"


PARENT = """
import os, subprocess, sys, json
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
sys.stdout.write(json.dumps({"stage": str(child.pid)}) + chr(10)); sys.stdout.flush()
import signal; signal.pause()
"""


async def test_whatever_it_started_goes_with_it(tmp_path):
    bench = Bench(tmp_path)
    running = asyncio.create_task(bench.run(command=(sys.executable, "-c", PARENT)))
    seen = asyncio.Event()
    bench.signs = _Calling(seen.set)
    await seen.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    grandchild = int(bench.signs.last.stage)
    async with asyncio.timeout(10):
        while _alive(grandchild):
            await asyncio.sleep(0)
    assert not (tmp_path / "scratch").exists()


class _Calling:
    def __init__(self, call):
        self.call = call
        self.last = None

    def append(self, sign):
        self.last = sign
        self.call()


def _alive(pid):
    """Not as a zombie, which nobody may be there to bury."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


ENVIRONMENT = "import os,json; print(json.dumps({'stage': ' '.join(sorted(os.environ))}))"


async def test_it_gets_no_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    bench = Bench(tmp_path)
    await bench.run(command=(sys.executable, "-c", ENVIRONMENT))
    assert set(bench.signs[-1].stage.split()) <= {"PATH", "TMPDIR", "LC_CTYPE"}


async def test_a_program_that_is_not_there_is_named(tmp_path):
    ended = await Bench(tmp_path).run(command=("/no/such/program",))
    assert "/no/such/program" in ended.error or "No such file" in ended.error


async def test_noise_is_bounded_and_long_lines_are_no_signs(tmp_path):
    noise = "import sys; sys.stdout.write('x' * 3_000_000 + chr(10)); sys.stderr.write('y' * 3_000_000)"
    bench = Bench(tmp_path)
    ended = await bench.run(command=(sys.executable, "-c", noise))
    assert ended.error == ""
    assert len(ended.log) <= 64 << 10
    assert bench.signs == []


@given(st.lists(st.one_of(st.binary(max_size=60), st.just(b'{"stage":"s","done":1}\n')), max_size=20))
def test_whatever_it_says_in_whatever_pieces_is_heard(pieces):
    async def heard(parts):
        signs = []
        conversion = Conversion(
            ConverterCommand(words=(), environment={}), ConversionLimits(), SystemClock(), signs.append
        )
        for part in parts:
            conversion._take_output(part)
        return signs

    whole = b"".join(pieces)
    expected = asyncio.run(heard([whole]))
    assert asyncio.run(heard(pieces)) == expected
    assert asyncio.run(heard([bytes([byte]) for byte in whole])) == expected
    lines = whole.split(b"\n")[:-1]
    assert len(expected) >= sum(line == b'{"stage":"s","done":1}' for line in lines)


def test_the_child_refuses_with_a_reason(tmp_path):
    paper = tmp_path / "order.json"
    paper.write_text(json.dumps({"source": "s", "target": "t"}))
    module = "quire.library.worker.conversion_process"
    ran = subprocess.run([sys.executable, "-m", module, str(paper)], capture_output=True, check=False)
    said = json.loads(ran.stdout)
    assert ran.returncode == 1
    assert "about" in said["error"]
    assert "Traceback" in said["traceback"]


@pytest.mark.parametrize("converter", ["marker", "opendataloader", "liteparse", "pdfium"])
def test_the_child_tells_whether_pages_come_one_by_one(monkeypatch, converter):
    def convert(source, target, options, about, progress):
        progress(0, 2, "converting")
        progress(1, 2, "converting")

    monkeypatch.setattr(pdf_markdown, "convert", convert)
    signs = []
    order = ConversionOrder(source="s", target="t", about=ABOUT, options={"converter": converter})
    conversion_process._convert(order, signs.append)
    assert [one.silent for one in signs] == [converter in {"marker", "opendataloader"}, False]
