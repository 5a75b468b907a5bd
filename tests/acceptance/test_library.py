"""The PDF library as people run it: processes of the commands, one of them killed, from the files to the text
beside them. In a folder and on a real S3 server.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quire.system import SystemIds

CORPUS = Path(__file__).parents[1] / "documents" / "corpus" / "pdf"
GOOD = ("crazyones.pdf", "header-test-doc.pdf", "multi_page.pdf", "rotation.pdf")
LONG = GOOD[2]
LOCKED = "crazyones-encrypted-256.pdf"
ROUNDS = 60  # each is a process; what is waited for takes a few seconds

pytestmark = pytest.mark.slow


class Library:
    """Runs `quire library`, or `blobforge`, on one bucket, as machines with homes of their own."""

    def __init__(self, folder, bucket):
        self.folder = folder
        self.bucket = bucket

    def command(self, *arguments, published=False):
        words = ["quire.cli.blobforge"] if published else ["quire.cli.main", "library"]
        return [sys.executable, "-m", *words, *arguments]

    def environment(self, machine):
        kept = {
            name: text for name, text in os.environ.items() if not name.startswith(("QUIRE_", "BLOBFORGE_"))
        }
        return kept | {
            "QUIRE_HOME": str(self.folder / machine),
            "COLUMNS": "200",
            "PYTHONUNBUFFERED": "1",
            "BLOBFORGE_WORKER_ID": machine,
            "BLOBFORGE_HEARTBEAT_INTERVAL": "1",
            "BLOBFORGE_STALE_TIMEOUT_MINUTES": "0.1",
            "QUIRE_LIBRARY_SWEEP": "false",  # so that it is the janitor's work
            **self.bucket,
        }

    def __call__(self, *arguments, machine="desk", published=False):
        return subprocess.run(
            self.command(*arguments, published=published),
            env=self.environment(machine),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def read(self, *arguments, **more):
        ran = self(*arguments, "--json", **more)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def worker(self, machine):
        return subprocess.Popen(
            self.command("worker", "--json"),
            env=self.environment(machine),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def heard(worker, *kinds):
    """What it tells up to the first of these."""
    events = []
    for line in worker.stdout:
        events.append(json.loads(line))
        if events[-1]["event"] in kinds:
            return events
    pytest.fail(f"the worker ended: {events}\n{worker.stderr.read()[-2000:]}")


def ended(worker):
    if worker.poll() is None:
        worker.kill()
    worker.communicate()


@pytest.fixture
def books(tmp_path):
    folder = tmp_path / "books"
    (folder / "Nobles & Kings").mkdir(parents=True)
    for name in (*GOOD, LOCKED):
        shutil.copy(CORPUS / name, folder / name)
    shutil.copy(CORPUS / GOOD[0], folder / "Nobles & Kings" / "Überblick.pdf")
    (folder / "letter.pdf").write_text("Dear all, this is no PDF.")
    return folder


def in_a_folder(tmp_path):
    return {"QUIRE_BUCKET": (tmp_path / "bucket").as_uri()}


def test_in_a_folder(tmp_path, books):
    carried_through(Library(tmp_path, in_a_folder(tmp_path)), books)


@pytest.mark.service
def test_on_s3(tmp_path, books, s3_server):
    bucket = {
        "BLOBFORGE_S3_BUCKET": s3_server.bucket,
        "BLOBFORGE_S3_PREFIX": f"library-{SystemIds().ulid()}",
        "BLOBFORGE_S3_ENDPOINT_URL": s3_server.endpoint,
        "BLOBFORGE_S3_REGION": s3_server.region,
        "BLOBFORGE_S3_ACCESS_KEY_ID": s3_server.access_key_id,
        "BLOBFORGE_S3_SECRET_ACCESS_KEY": s3_server.secret_access_key,
    }
    carried_through(Library(tmp_path, bucket), books)


def carried_through(library, books):
    lost = begun_and_killed(library, books)
    put_in(library, books)
    worked_on_by_another(library, lost)
    assert library("status", lost).stdout.startswith("Status: PROCESSING\n")
    taken_back(library, lost)
    for _ in range(2):  # now and then a worker begins with what is less urgent
        last = library("worker", "--run-once", machine="third", published=True)
        assert last.returncode == 0, last.stderr
        if f"{lost[:12]} done" in last.stderr:
            break
    looked_at(library, lost)
    brought_home(library, books)


def begun_and_killed(library, books):
    """The job that dies with its worker."""
    assert library("ingest", str(books / LONG)).returncode == 0
    victim = library.worker("first")
    try:
        claimed = heard(victim, "claimed")[-1]
        victim.send_signal(signal.SIGKILL)
        assert victim.wait(timeout=10) == -signal.SIGKILL
    finally:
        ended(victim)
    return claimed["hash"]


def put_in(library, books):
    ran = library("ingest", str(books), published=True)
    assert ran.returncode == 1, "one of the files is no PDF"
    assert "letter.pdf" in ran.stderr
    counts = [line for line in ran.stdout.splitlines() if line]
    assert counts == ["Found: 6", "Uploaded: 4", "Queued: 4", "Skipped: 2", "Failed: 1"]
    (found,) = library.read("search", "Überblick")["documents"]
    assert sorted(found["paths"]) == ["Nobles & Kings/Überblick.pdf", GOOD[0]]


def worked_on_by_another(library, lost):
    other = library.worker("second")
    try:
        events = heard(other, "idle")
        other.send_signal(signal.SIGTERM)
        assert other.wait(timeout=30) == 0
    finally:
        ended(other)
    fates = {one["hash"]: one["fate"] for one in events if one["event"] == "ended"}
    assert lost not in fates, "nobody takes a job from a worker that may be alive"
    assert sorted(fates.values()) == ["done", "done", "done", "failed"]


def taken_back(library, lost):
    """When it has been silent for six seconds, and not before. What failed waits again at once."""
    for _ in range(ROUNDS):
        swept = library.read("janitor")
        if {"hash": lost, "why": "silent", "did": "requeued", "error": ""} in swept["settled"]:
            break
    else:
        pytest.fail("the janitor has not taken it back")
    queued = library("status", lost[:10])
    assert queued.stdout.startswith("Status: QUEUED\n")
    # What is urgent comes first, so that the next one is this.
    assert library("reprioritize", lost, "1_critical").returncode == 0


def looked_at(library, lost):
    shown = library("status", lost)
    assert shown.returncode == 0
    assert shown.stdout.startswith("Status: DONE\n")
    assert library("status", "0" * 64).returncode == 1
    assert library("retry", lost).returncode == 1, "what is done is not done again"
    counts = library("list").stdout
    assert f"DONE: {len(GOOD)}" in counts
    assert "PROCESSING: 0" in counts


def brought_home(library, books):
    ran = library("hydrate", str(books))
    assert "Written: 5" in ran.stdout, ran.stdout + ran.stderr
    text = (books / "Nobles & Kings" / "Überblick.md").read_text("utf-8")
    assert "crazy ones" in text
    assert text == (books / "crazyones.md").read_text("utf-8")
    assert not (books / LOCKED).with_suffix(".md").exists()
