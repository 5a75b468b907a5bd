"""kill -9 in the middle of a book: pages that were read are not read again, and nothing shows afterwards."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.situations.scans import write_book

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
PAGES = 20
WORKERS = 2
# The second phase reads.
COUNT_READ = "SELECT count(*) FROM tasks WHERE phase = 2 AND state = 'done'"
LIST_READ = "SELECT task_no, attempt FROM tasks WHERE phase = 2 AND state = 'done'"
LIST_ALL = "SELECT task_no, attempt FROM tasks WHERE phase = 2"
LIST_IN_WORK = "SELECT task_no FROM tasks WHERE phase = 2 AND state = 'running'"


def start(folder: Path, source: Path) -> subprocess.Popen[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "quire.cli.main", "run", str(source), "--pipeline", "ocr"),
            *("--out", str(folder / "out"), "--home", str(folder / "home")),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=kept | {"PYTHONUNBUFFERED": "1", "QUIRE_OCR_TIERS": "tesseract", "QUIRE_WORKERS": str(WORKERS)},
    )


def finish(folder: Path, source: Path) -> dict[str, bytes]:
    process = start(folder, source)
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 0, said
    out = folder / "out"
    return {
        path.name: path.read_bytes()
        for path in sorted(out.iterdir())
        if path.is_file() and path.name not in {"report.json", "index.html", ".quire-out"}
    }


def query(folder: Path, text: str) -> list[tuple[int, ...]]:
    ledger = sqlite3.connect(folder / "home" / "quire.db")
    try:
        return ledger.execute(text).fetchall()
    finally:
        ledger.close()


def kill_in_the_middle(folder: Path, source: Path) -> int:
    """Killed when a third of the pages has been told to be read; how many were by then."""
    process = start(folder, source)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Read: "):
            done = int(line.removeprefix("Read: ").partition("/")[0])
            if done >= PAGES // 3:
                break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    ((read,),) = query(folder, COUNT_READ)
    return read


def test_a_killed_run_reads_only_what_was_in_work_again(tmp_path: Path):
    source = tmp_path / "in"
    source.mkdir()
    write_book(source / "book.tif", PAGES)
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    read = kill_in_the_middle(killed, source)
    assert PAGES // 3 <= read < PAGES
    before = dict(query(killed, LIST_READ))
    in_work = {task for (task,) in query(killed, LIST_IN_WORK)}

    results = finish(killed, source)

    after = dict(query(killed, LIST_ALL))
    assert len(after) == PAGES
    assert {task: after[task] for task in before} == before
    # One try for each page, and another for those that were in work or on their way to a worker.
    assert {task for task, attempt in after.items() if attempt > 1} <= in_work
    assert max(after.values()) <= 2
    assert results == finish(undisturbed, source)
    report = json.loads((killed / "out" / "report.json").read_text("utf-8"))
    assert [one["status"] for one in report["files"]] == ["done"]
