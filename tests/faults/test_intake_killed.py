"""kill -9 while files come in, are worked on and are laid out: the next run finishes, and nothing shows."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
WORDS = Path(__file__).resolve().parents[1] / "situations" / "words.py"
SEED = int(os.environ.get("KILL_SEED", "20261118"))
KILLS = int(os.environ.get("KILLS", "12"))
KILLS_PER_TRIAL = 4
FOLDERS, FILES = 12, 25


class Trial:
    def __init__(self, folder: Path, source: Path) -> None:
        self.home, self.out = folder / "home", folder / "out"
        self.command = [sys.executable, "-m", "quire.cli.main", "run", str(source), "--json"]
        self.command += ["--pipeline", str(WORDS), "--out", str(self.out), "--home", str(self.home)]

    def finish(self) -> float:
        began = os.times().elapsed
        ran = subprocess.run(self.command, capture_output=True, timeout=90, check=False)
        assert ran.returncode == 3, ran.stderr.decode()
        return os.times().elapsed - began

    def kill_after(self, seconds: float) -> bool:
        """False when the run was faster: it has ended, or has delivered and was about to end. What is laid
        out by then are whole files.
        """
        process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=30)
            for path in self.out.rglob("*.words.json"):
                json.loads(path.read_bytes())
            return not self._has_delivered()
        return False

    def _has_delivered(self) -> bool:
        try:
            with closing(sqlite3.connect(f"file:{self.home}/quire.db?mode=ro", uri=True)) as ledger:
                return bool(ledger.execute("SELECT 1 FROM batches WHERE delivered_at IS NOT NULL").fetchall())
        except sqlite3.OperationalError:
            return False  # it was killed before there was a table, or a file

    def results(self):
        tree = {
            str(path.relative_to(self.out)): path.read_bytes()
            for path in self.out.rglob("*.json")
            if path.name != "report.json"
        }
        report = json.loads((self.out / "report.json").read_text(encoding="utf-8"))
        return tree, [(one["path"], one["status"], one["outputs"]) for one in report["files"]]

    def check_ledger(self) -> None:
        ledger = sqlite3.connect(self.home / "quire.db")
        query = lambda text: ledger.execute(text).fetchall()  # noqa: E731
        assert query("SELECT count(*) FROM batches") == [(1,)]
        assert query("SELECT total_files FROM batches") == [(FOLDERS * FILES + 1,)]
        assert query("SELECT count(*) FROM files WHERE role = 'input'") == [(FOLDERS * FILES + 1,)]
        assert query("SELECT path FROM files WHERE born = 0 GROUP BY path HAVING count(*) > 1") == []
        assert query("SELECT file_no FROM tasks GROUP BY file_no HAVING count(*) > 1") == []
        assert query("SELECT count(*) FROM tasks WHERE state NOT IN ('done', 'failed')") == [(0,)]
        assert query("SELECT * FROM attempts WHERE outcome = 'done'") == []
        assert query("SELECT count(*) FROM events WHERE type = 'batch_finalized'") == [(1,)]
        ledger.close()


@pytest.fixture
def collection(tmp_path):
    folder = tmp_path / "in"
    for number in range(FOLDERS):
        place = folder / f"{number:02}" / "deep"
        place.mkdir(parents=True)
        for name in range(FILES):
            (place.parent if name % 2 else place).joinpath(f"{name}.txt").write_text(f"{number} {name}")
    (folder / "broken.txt").write_bytes(b"\xff\xfe\xfa\xc3")
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
        for _ in range(KILLS_PER_TRIAL):
            if not trial.kill_after(chance.uniform(0.2, seconds)):
                break  # it has ended: the same command again would be another batch
            kills += 1
        else:
            trial.finish()
        assert trial.results() == expected, f"seed {SEED}, trial {trials}"
        trial.check_ledger()
        shutil.rmtree(tmp_path / f"trial{trials}")
