"""Inputs that never answer: a network share that has stopped, pipes in the place of files, a step that waits
for ever. The other files go on, and the second signal ends the process within two seconds.
"""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.test_own_pipelines import kill, started, wait_for_reader
from tests.standins.stalled_share import can_mount

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
CORPUS = Path(__file__).parents[1] / "documents" / "corpus"
TIFF, PDF = CORPUS / "tiff" / "hopper_lzw.tif", CORPUS / "pdf" / "crazyones.pdf"
SECONDS = 2.0
WAITING = """
import os
from pathlib import Path

from quire import Document, Output, Pipeline

waiting = Pipeline("waiting")


@waiting.step(accepts="*.txt", retries=0, timeout=600)
def read(document: Document) -> Output:
    (Path(os.environ["GATE"]).with_name("pid")).write_text(str(os.getpid()))
    return Output.json("read.json", {"read": len(Path(os.environ["GATE"]).read_bytes())})
"""


@pytest.fixture
def share(tmp_path):
    """Mounts copies of files as a share; `wait` until a read of it has stalled."""
    if not can_mount() and "CI" not in os.environ:
        pytest.skip("this user cannot mount a FUSE file system")
    with _mounted(tmp_path / "share", tmp_path) as mounted:
        yield mounted


@contextmanager
def _mounted(folder, tmp_path):
    folder.mkdir()
    names = [f"ok.tif={TIFF}", f"stalled.tif={TIFF}", f"ok.pdf={PDF}", f"stalled.pdf={PDF}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.standins.stalled_share", str(folder), *names],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "mounted\n"
        yield _Share(folder, process)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)
        process.kill()
        process.wait(30)
        process.stdout.close()


class _Share:
    def __init__(self, folder, process):
        self.folder = folder
        self._process = process

    def wait(self):
        assert self._process.stdout.readline() == "stalled\n"


@pytest.fixture
def waiting(tmp_path, folder):
    """A pipeline whose step reads a pipe that nobody writes to, and one text for it."""
    os.mkfifo(tmp_path / "gate")
    (tmp_path / "waiting.py").write_text(WAITING, "utf-8")
    (folder / "a.txt").write_text("dear reader", "utf-8")
    return str(tmp_path / "waiting.py")


def begun(quire, *arguments, **more):
    return subprocess.Popen(
        quire.command(*arguments),
        cwd=quire.folder,
        env=quire.environment(PYTHONUNBUFFERED="1", **more),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def seconds_after_second(process, number, heard):
    """Signal it, wait until it has said that it heard, and signal it again: how long it took to end."""
    process.send_signal(number)
    heard()
    began = os.times().elapsed
    process.send_signal(number)
    process.wait(30)
    return os.times().elapsed - began


def delivered(pid):
    """Until no signal waits for the process: a second one sent before that would be the same one."""
    while "ShdPnd:\t0000000000000000" not in Path(f"/proc/{pid}/status").read_text():
        pass


def said(process, words):
    while words not in (line := process.stderr.readline()):
        assert line, f"it has ended without saying {words!r}"


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_a_run_that_reads_a_stalled_share(quire, share, number, code):
    process = begun(quire, "run", str(share.folder), "--out", str(quire.out))
    share.wait()

    seconds = seconds_after_second(process, number, lambda: said(process, "Stopping"))

    assert (process.returncode, seconds < SECONDS) == (code, True), seconds
    assert "run the same command again to resume" in process.stderr.read()
    process.stderr.close()
    # Nothing keeps the home: the same command picks up where it left off, and the share fails alone.
    again = quire("run", str(share.folder), "--out", str(quire.out), QUIRE_INPUT_STALL_SECONDS="1")
    assert "Resuming" in again.stderr + again.stdout
    assert again.returncode == 3


def test_a_stalled_file_fails_alone(quire, share):
    assert quire.run(str(share.folder), QUIRE_INPUT_STALL_SECONDS="1").returncode == 3

    files = quire.files()
    assert files["ok.tif"]["status"] == "done"
    for name in ("stalled.tif", "stalled.pdf"):
        assert (files[name]["status"], files[name]["error_class"]) == ("failed", "stalled_input")
        assert "did not answer for 1 s" in files[name]["reason"]


def test_a_second_signal_ends_an_upload_from_a_stalled_share(quire, share):
    with started(quire, "serve", "--api-only") as server:
        sender = begun(quire, "upload", str(share.folder), "--to", server.said[-1]["url"])
        share.wait()
        seconds = seconds_after_second(sender, signal.SIGINT, lambda: said(sender, "Stopping"))
        sender.stderr.close()

    assert (sender.returncode, seconds < SECONDS) == (130, True), seconds


def test_a_signal_ends_a_library_ingest_from_a_stalled_share(quire, share):
    bucket = {"QUIRE_BUCKET": (quire.folder / "bucket").as_uri()}
    process = begun(quire, "library", "ingest", str(share.folder), **bucket)
    share.wait()

    began = os.times().elapsed  # here the first one ends it already
    process.send_signal(signal.SIGINT)
    process.wait(30)

    assert os.times().elapsed - began < SECONDS
    assert process.returncode == 130
    process.stderr.close()


def test_a_library_ingest_names_the_stalled_pdf_and_takes_the_others(quire, share):
    bucket = {"QUIRE_BUCKET": (quire.folder / "bucket").as_uri()}
    ran = quire("library", "ingest", str(share.folder), QUIRE_INPUT_STALL_SECONDS="1", **bucket)

    assert "did not answer for 1 s" in ran.stdout + ran.stderr
    assert len(list((quire.folder / "bucket" / "pdf" / "store").rglob("*.pdf"))) == 1


@pytest.mark.parametrize("command", ["run", "serve", "worker", "scheduler"])
def test_a_second_signal_ends_a_process_whose_step_waits_for_ever_and_the_step(
    quire, folder, waiting, command, tmp_path
):
    gate = {"GATE": str(tmp_path / "gate")}
    first = begun(quire, "run", str(folder), "--pipeline", waiting, "--out", str(quire.out), **gate)
    held = wait_for_reader(gate["GATE"])
    if command == "run":
        seconds = seconds_after_second(first, signal.SIGTERM, lambda: said(first, "Stopping"))
        ended = first
    else:
        kill(first)
        os.close(held)
        given = ("--workers", "1", "--pipeline", waiting)
        with started(quire, command, *given, **gate) as ended:
            held = wait_for_reader(gate["GATE"])
            seconds = seconds_after_second(ended, signal.SIGTERM, lambda: delivered(ended.pid))
    first.stderr.close()
    os.close(held)

    assert (ended.returncode, seconds < SECONDS) == (143, True), seconds
    assert not is_running(int((tmp_path / "pid").read_text()))
