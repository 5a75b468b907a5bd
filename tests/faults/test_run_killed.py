"""kill -9 of the whole process tree at random moments: the next run finishes, and nothing shows.

Each trial begins with an empty home, is killed several times, and is then left to finish. Its outputs and its
report must equal those of a run that nobody disturbed, and in the ledger every task must have ended once.
"""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "collection"
SEED = int(os.environ.get("KILL_SEED", "20261115"))
KILLS = int(os.environ.get("KILLS", "8"))  # `make soak` has fifty
KILLS_PER_TRIAL = 4
# What may differ between two runs that do the same; what was done twice is spent twice.
PASSING = {"batch_id", "started_at", "completed_at", "seconds", "spent"}


class Trial:
    def __init__(self, folder: Path, source: Path) -> None:
        self.home, self.out = folder / "home", folder / "out"
        self.command = [sys.executable, "-m", "quire.cli.main", "run", str(source)]
        self.command += ["--out", str(self.out), "--home", str(self.home), "--json"]

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )

    def finish(self) -> float:
        began = os.times().elapsed
        process = self.start()
        _, said = process.communicate(timeout=60)
        assert process.returncode == 3, said.decode()
        return os.times().elapsed - began

    def kill_after(self, seconds: float) -> bool:
        """False when the run was faster."""
        process = self.start()
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=30)
            return True
        return False

    def results(self):
        tree = {
            str(path.relative_to(self.out)): path.read_bytes()
            for path in self.out.rglob("*")
            if path.is_file() and path.name not in {"report.json", "index.html"}
        }
        report = json.loads((self.out / "report.json").read_text(encoding="utf-8"))
        report = {name: value for name, value in report.items() if name not in PASSING}
        report["files"] = [{**entry, "attempts": None} for entry in report["files"]]
        report["counts"].pop("from_cache")
        report["phases"] = [{**phase, "from_cache": None} for phase in report["phases"]]
        return tree, report

    def check_ledger(self) -> None:
        ledger = sqlite3.connect(self.home / "quire.db")
        query = lambda text: ledger.execute(text).fetchall()  # noqa: E731
        assert query("SELECT count(*) FROM tasks WHERE state NOT IN ('done', 'failed')") == [(0,)]
        # The last attempt of a task lives in its row: none before it may have succeeded.
        assert query("SELECT * FROM attempts WHERE outcome = 'done'") == []
        assert query("SELECT * FROM strays WHERE kind = 'unknown'") == []
        assert query("SELECT count(*) FROM outbox") == [(0,)]
        wrong_counts = (
            "SELECT * FROM rounds p WHERE done <> (SELECT count(*) FROM tasks t "
            "WHERE t.batch_no = p.batch_no AND t.phase = p.phase AND t.state = 'done')"
        )
        assert query(wrong_counts) == []
        ledger.close()


@pytest.fixture
def collection(tmp_path):
    folder = tmp_path / "in"
    shutil.copytree(SAMPLES, folder)
    for number in range(6):
        page = (SAMPLES / "letters 1884" / "three pages.tiff").read_bytes()
        (folder / f"more {number}.tif").write_bytes(page + bytes([number]))
    return folder


def test_killed_at_many_moments_every_run_ends_like_an_undisturbed_one(tmp_path, collection):
    undisturbed = Trial(tmp_path / "undisturbed", collection)
    seconds = undisturbed.finish()
    expected = undisturbed.results()
    undisturbed.check_ledger()
    chance = random.Random(SEED)
    kills = trials = 0
    while kills < KILLS:
        trials += 1
        trial = Trial(tmp_path / f"trial{trials}", collection)
        kills += sum(trial.kill_after(chance.uniform(0.02, seconds)) for _ in range(KILLS_PER_TRIAL))
        trial.finish()
        tree, report = trial.results()
        assert tree == expected[0], f"seed {SEED}, trial {trials}"
        assert report == expected[1], f"seed {SEED}, trial {trials}"
        trial.check_ledger()
        shutil.rmtree(tmp_path / f"trial{trials}")
