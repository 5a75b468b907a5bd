"""`quire run` of a pipeline of one's own: documents are finished and laid out while others still come in."""

import json
import os
import signal
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
WORDS = Path(__file__).resolve().parents[1] / "situations" / "words.py"
# One document waits until the result of another one lies in the output folder.
WAITING = """
import os
import time
from pathlib import Path

from quire import Document, Output, Pipeline, Reject

OUT = Path({out!r})
waiting = Pipeline("waiting", version=1)


@waiting.step(accepts="*.txt", timeout=60)
def look(document: Document) -> Output:
    if document.name == "last.txt":
        patience = time.monotonic() + 50
        while not (OUT / "first.txt.seen.txt").exists():
            if time.monotonic() > patience:
                raise Reject("the first result is not there", code="not_there")
            os.sched_yield()
        assert (OUT / "first.txt.seen.txt").read_text() == "first"
    return Output.text("seen.txt", document.text())
"""

# The first step fails until a file is there; the second one names its result after what the first one gave.
REPAIRED = """
from pathlib import Path

from quire import Document, Output, Pipeline, Reject

REPAIRED = Path({repaired!r})
repaired = Pipeline("repaired", version=1)


@repaired.step
def measure(document: Document) -> int:
    if not REPAIRED.exists():
        raise Reject("it is broken", code="broken")
    return 7


@repaired.step
def tell(document: Document, measure: int = 0) -> Output:
    return Output.text(f"{{measure}}.txt", "told")
"""


def fill(folder):
    """A collection with subfolders, broken files and names that are hard to bear."""
    texts = {
        "letter.txt": "dear reader",
        "fonds/1884/letter.txt": "one two three",
        "fonds/1884/Letter.TXT": "alike but for case",
        "fonds/letter.txt.words.json/deep.txt": "in a folder that is called like a result",
        "fonds/letter.txt": "beside it",
        "naïve é🌷 name.txt": "a b",
        "100% #1?.txt": "c",
        "n" * 240 + ".txt": "long",
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "broken.txt").write_bytes(b"\xff\xfe\xfa\xc3")
    (folder / "empty.txt").write_bytes(b"")
    (folder / os.fsdecode(b"bad \xff.txt")).write_text("x")
    (folder / "turned \u202etxt.txt").write_text("x")
    (folder / "link.txt").symlink_to(folder / "letter.txt")
    (folder / ".hidden.txt").write_text("x")
    return texts


def outcomes(quire):
    return {path: (one["status"], one["error_class"]) for path, one in quire.files().items()}


def test_every_file_of_a_hostile_collection_has_its_outcome(quire, folder):
    texts = fill(folder)
    ran = quire.run(str(folder), "--pipeline", str(WORDS))
    assert ran.returncode == 3, ran.stderr
    ended = outcomes(quire)
    assert {path for path, (status, _) in ended.items() if status == "done"} == set(texts)
    classes = sorted(kind for status, kind in ended.values() if status != "done")
    assert classes == ["bad_name", "bad_name", "empty_file", "hidden", "not_utf8", "symlink"]
    for path, text in texts.items():
        (output,) = quire.files()[path]["outputs"]
        assert json.loads((quire.out / output).read_text()) == {"words": len(text.split())}
    # The folder has a claim to that name, and the two that differ in case alone have one to each other's.
    assert quire.files()["fonds/letter.txt"]["outputs"] != ["fonds/letter.txt.words.json"]
    assert quire.files()["fonds/1884/letter.txt"]["outputs"] != ["fonds/1884/letter.txt.words.json"]
    assert not [path for path in quire.out.rglob("*") if path.name.endswith(".part")]


def test_results_are_laid_out_while_other_documents_are_worked_on(quire, folder):
    (folder / "first.txt").write_text("first")
    (folder / "last.txt").write_text("last")
    pipeline = quire.folder / "waiting.py"
    pipeline.write_text(WAITING.format(out=str(quire.out)), encoding="utf-8")
    ran = quire.run(str(folder), "--pipeline", str(pipeline))
    assert ran.returncode == 0, ran.stdout
    assert (quire.out / "last.txt.seen.txt").read_text() == "last"


def test_ctrl_c_in_the_intake_and_the_same_command_goes_on(quire, folder):
    for number in range(300):
        place = folder / f"{number:03}" / "t.txt"
        place.parent.mkdir()
        place.write_text(f"text {number}")
    with quire.started("run", str(folder), "--pipeline", str(WORDS), "--out", str(quire.out)) as process:
        for line in process.stderr:
            if line.startswith("Batch"):
                os.killpg(process.pid, signal.SIGINT)
                break
        process.stderr.read()
    assert process.returncode == 130
    ran = quire.run(str(folder), "--pipeline", str(WORDS))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = quire.report()
    assert report["counts"]["done"] == 300
    assert sum(entry["attempts"] for entry in report["files"]) == 300


def test_a_folder_that_changed_after_a_stop_in_the_intake_gets_a_new_batch(quire, folder):
    for number in range(200):
        (folder / f"{number}.txt").write_text(f"text {number}")
    command = ("run", str(folder), "--pipeline", str(WORDS), "--out", str(quire.out))
    with quire.started(*command) as process:
        first = next(line for line in process.stderr if line.startswith("Batch")).split()[1]
        next(line for line in process.stderr if line.startswith("Importing"))
        os.killpg(process.pid, signal.SIGKILL)
    (folder / "another.txt").write_text("new")
    (folder / "7.txt").unlink()
    ran = quire.run(str(folder), "--pipeline", str(WORDS))
    assert ran.returncode == 0, ran.stderr
    assert quire.report()["batch_id"] != first
    assert quire.report()["counts"]["done"] == 200


def test_what_a_retry_withdraws_leaves_the_output_folder(quire, folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "a.txt").write_text("a")
    repaired = quire.folder / "is repaired"
    pipeline = quire.folder / "repaired.py"
    pipeline.write_text(REPAIRED.format(repaired=str(repaired)), encoding="utf-8")
    command = (str(folder), "--pipeline", str(pipeline))
    assert quire.run(*command).returncode == 3
    batch_id = quire.report()["batch_id"]
    assert quire.files()["sub/a.txt"]["outputs"] == ["sub/a.txt.0.txt"]
    assert (quire.out / "sub" / "a.txt.0.txt").exists()
    repaired.touch()
    retried = quire("batch", "retry", batch_id)
    assert retried.returncode == 0, retried.stderr
    ran = quire.run(*command)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert quire.report()["batch_id"] == batch_id
    assert quire.files()["sub/a.txt"]["outputs"] == ["sub/a.txt.7.txt"]
    assert [path.name for path in (quire.out / "sub").iterdir()] == ["a.txt.7.txt"]


class Watched:
    def __init__(self, quire, folder):
        self.arguments = ("run", "--watch", str(folder), "--settle", "0.2", "--json")
        self.arguments += ("--pipeline", str(WORDS))
        self.quire = quire

    def __enter__(self):
        self.process = self.quire.started(*self.arguments, "--out", str(self.quire.out))
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def batch(self):
        return json.loads(self.process.stdout.readline())

    def stop(self):
        os.killpg(self.process.pid, signal.SIGINT)
        assert self.process.wait(60) is not None
        return self.process.returncode


def test_a_watch_takes_files_as_they_arrive_and_goes_on_after_kill_9(quire, folder):
    (folder / "a.txt").write_text("one two")
    with Watched(quire, folder) as watched:
        first = watched.batch()
        assert first["counts"]["done"] == 1
        (folder / "sub").mkdir()
        (folder / "sub" / "b.txt").write_text("three")
        assert watched.batch()["counts"]["files"] == 1
    with Watched(quire, folder) as watched:
        (folder / "a.txt").write_text("one two three four")
        again = watched.batch()
        assert (again["counts"]["files"], again["counts"]["done"]) == (1, 1)
        assert watched.stop() == 0
    assert json.loads((quire.out / "a.txt.words.json").read_text()) == {"words": 4}
    assert json.loads((quire.out / "sub" / "b.txt.words.json").read_text()) == {"words": 1}
    reports = {path.stem for path in (quire.out / "reports").iterdir()}
    assert len(reports) == 3
    assert {first["batch_id"], again["batch_id"]} <= reports
    assert quire.report()["batch_id"] == again["batch_id"]


def test_a_watch_in_which_files_failed_ends_with_3(quire, folder):
    (folder / "broken.txt").write_bytes(b"\xff\xfe\xfa\xc3")
    with Watched(quire, folder) as watched:
        assert watched.batch()["counts"]["failed"] == 1
        assert watched.stop() == 3
