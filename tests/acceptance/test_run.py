"""`quire run` as people run it: a process, a folder, a report."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "collection"
GOOD_TIFF = SAMPLES / "photos" / "portrait.tif"
GOOD_JPEG = SAMPLES / "photos" / "turned.jpg"
BROKEN = SAMPLES / "broken"
MANY_FILES = 24  # enough to be stopped among them


def test_the_sample_collection_ends_as_expected(quire):
    ran = quire.run(str(SAMPLES))
    assert ran.returncode == 3, ran.stderr
    expected = json.loads((SAMPLES.parent / "expected.json").read_text(encoding="utf-8"))
    ended = {
        path: {
            "status": entry["status"],
            "error_class": entry["error_class"],
            "outputs": len(entry["outputs"]),
        }
        for path, entry in quire.files().items()
    }
    assert ended == expected
    counts = quire.report()["counts"]
    assert counts["files"] == counts["done"] + counts["failed"] + counts["skipped"] == len(expected)
    for entry in quire.files().values():
        assert all((quire.out / output).stat().st_size > 0 for output in entry["outputs"])
        assert (entry["status"] == "done") == (entry["reason"] is None)
    assert f"{len(expected)} files in: 9 done, 5 failed, 1 skipped" in ran.stdout
    for path, entry in quire.files().items():
        assert entry["status"] != "failed" or Path(path).name in ran.stdout


def test_all_done_ends_with_0_and_makes_what_the_contract_says(quire, folder):
    shutil.copy(GOOD_TIFF, folder / "p1.tif")
    ran = quire.run(str(folder))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert quire.files()["p1.tif"]["outputs"] == ["p1.jpg", "p1.jpg.ref.json"]
    reference = json.loads((quire.out / "p1.jpg.ref.json").read_text(encoding="utf-8"))
    assert reference["filename"] == "p1.jpg"
    assert reference["size"] == (quire.out / "p1.jpg").stat().st_size
    assert set(reference) == {"url", "ipfs_cid", "type", "size", "filename"}


def test_json_prints_the_report_and_nothing_else(quire, folder):
    shutil.copy(GOOD_JPEG, folder)
    ran = quire.run(str(folder), "--json")
    assert json.loads(ran.stdout) == quire.report()
    assert ran.stderr == ""


def test_an_unchanged_folder_is_answered_from_the_cache(quire, folder):
    for number in range(3):
        shutil.copy(GOOD_TIFF, folder / f"{number}.tif")
        (folder / f"{number}.tif").write_bytes(GOOD_TIFF.read_bytes() + bytes([number]))
    quire.run(str(folder))
    first, tree = quire.report(), snapshot(quire.out)
    quire.run(str(folder))
    second = quire.report()
    assert second["batch_id"] != first["batch_id"]
    assert first["counts"]["from_cache"] == 0
    assert second["counts"]["from_cache"] == second["counts"]["tasks"] == first["counts"]["tasks"] > 0
    assert {entry["attempts"] for entry in second["files"]} == {0}
    assert snapshot(quire.out) == tree


def test_equal_files_are_worked_on_once(quire, folder):
    for number in range(6):
        shutil.copy(GOOD_TIFF, folder / f"{number}.tif")
    assert quire.run(str(folder)).returncode == 0
    report = quire.report()
    _, conversion, images = report["phases"]
    assert (conversion["total"], conversion["from_cache"]) == (6, 5)
    # The references carry the files' names, so each picture has its own.
    assert (images["total"], images["from_cache"]) == (6, 0)
    assert {len(entry["outputs"]) for entry in report["files"]} == {2}


def test_a_folder_that_changed_since_the_stop_is_taken_in_anew(quire, folder):
    interrupted(quire, folder)
    (folder / "new.tif").write_bytes(GOOD_TIFF.read_bytes())
    ran = quire.run(str(folder))
    assert ran.returncode == 0, ran.stderr
    assert "Resuming" not in ran.stderr
    assert len(quire.files()) == MANY_FILES + 1
    assert quire.report()["counts"]["from_cache"] > 0


def test_an_unreadable_file_does_not_stand_in_the_way_of_resuming(quire, folder):
    closed = folder / "closed.tif"
    closed.write_bytes(GOOD_TIFF.read_bytes())
    closed.chmod(0)
    batch_id = interrupted(quire, folder, obey_permissions=True)
    ran = quire.run(str(folder), obey_permissions=True)
    assert ran.returncode == 3, ran.stderr
    assert f"Resuming {batch_id}" in ran.stderr
    assert quire.files()["closed.tif"]["error_class"] == "unreadable"


def test_results_never_replace_somebody_elses_files(quire, folder, tmp_path):
    shutil.copy(GOOD_TIFF, folder / "p1.tif")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "p1.jpg").write_text("MINE")
    ran = quire("run", str(folder), "--out", str(theirs))
    assert ran.returncode == 1
    assert "files that Quire did not write" in ran.stderr
    assert (theirs / "p1.jpg").read_text() == "MINE"


def test_a_result_may_want_the_name_of_a_folder(quire, folder):
    shutil.copy(GOOD_TIFF, folder / "x.tif")
    (folder / "x.jpg").mkdir()
    shutil.copy(GOOD_JPEG, folder / "x.jpg" / "p.jpg")
    (folder / "p.jpg.ref.json").mkdir()
    shutil.copy(GOOD_TIFF, folder / "p.jpg.ref.json" / "q.tif")
    shutil.copy(GOOD_JPEG, folder / "p.jpg")
    ran = quire.run(str(folder))
    assert ran.returncode == 0, ran.stderr
    for entry in quire.files().values():
        assert entry["outputs"]
        assert all((quire.out / output).is_file() for output in entry["outputs"])


def test_a_name_cannot_write_to_the_terminal(quire, folder):
    (folder / "\x1b[31mred\x1b]0;title\x07.jpg").write_bytes(b"x")
    (folder / "half\u202etxt.jpg").write_bytes(b"x")
    ran = quire.run(str(folder))
    assert ran.returncode == 3
    assert not set(ran.stdout + ran.stderr) & {"\x1b", "\x07", "\u202e"}
    assert "\\x1b[31mred" in ran.stdout


def test_a_damaged_database_is_told_not_thrown(quire, folder):
    shutil.copy(GOOD_JPEG, folder)
    quire.home.mkdir()
    (quire.home / "quire.db").write_bytes(b"no database" * 1000)
    ran = quire.run(str(folder))
    assert ran.returncode == 1
    assert "damaged" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_too_few_open_files_end_the_run_instead_of_hanging_it(quire, folder):
    shutil.copy(GOOD_JPEG, folder)
    shell = [
        "/bin/sh",
        "-c",
        'ulimit -n 20; exec "$@"',
        "sh",
        *quire.command("run", str(folder), "--out", "out"),
    ]
    ran = subprocess.run(
        shell,
        cwd=quire.folder,
        env=quire.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr, ran.stderr


def test_a_run_killed_while_laying_out_goes_on_with_that(quire, folder):
    shutil.copy(GOOD_TIFF, folder)
    quire.run(str(folder))
    first = quire.report()
    connection = sqlite3.connect(quire.home / "quire.db")
    connection.execute("UPDATE batches SET delivered_at = NULL")
    connection.commit()
    connection.close()
    shutil.rmtree(quire.out)
    assert quire.run(str(folder)).returncode == 0
    again = quire.report()
    assert again["batch_id"] == first["batch_id"]
    assert again["files"] == first["files"]


def test_a_lost_result_is_made_anew_not_reported_from_the_cache(quire, folder):
    shutil.copy(GOOD_TIFF, folder)
    quire.run(str(folder))
    tree = snapshot(quire.out)
    shutil.rmtree(quire.home / "blobs")
    shutil.rmtree(quire.out)
    assert quire.run(str(folder)).returncode == 0
    assert snapshot(quire.out) == tree


def test_only_the_changed_file_is_worked_on_again(quire, folder):
    shutil.copy(GOOD_TIFF, folder / "a.tif")
    shutil.copy(GOOD_JPEG, folder / "b.jpg")
    quire.run(str(folder))
    shutil.copy(SAMPLES / "photos" / "sixteen-bit.tiff", folder / "a.tif")
    quire.run(str(folder))
    assert {path: entry["attempts"] for path, entry in quire.files().items()} == {"a.tif": 2, "b.jpg": 0}


def test_bad_input_of_every_kind_gives_a_reason_and_stops_nothing_else(quire, folder):
    shutil.copytree(BROKEN, folder / "broken")
    shutil.copy(GOOD_TIFF, folder / "good.tif")
    half = GOOD_TIFF.read_bytes()
    (folder / "truncated.tif").write_bytes(half[: len(half) // 2])
    (folder / "unreadable.tif").write_bytes(half)
    (folder / "unreadable.tif").chmod(0)
    (folder / "closed").mkdir()
    (folder / "closed" / "x.tif").write_bytes(half)
    (folder / "closed").chmod(0)
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    os.mkfifo(folder / "pipe.tif")
    try:
        ran = quire.run(str(folder), obey_permissions=True)
    finally:
        (folder / "closed").chmod(0o700)
    assert ran.returncode == 3, ran.stderr
    classes = {path: (entry["status"], entry["error_class"]) for path, entry in quire.files().items()}
    assert classes == {
        "broken/bomb.tif": ("failed", "too_many_pixels"),
        "broken/corrupt.tif": ("failed", "corrupt"),
        "broken/empty.png": ("failed", "empty_file"),
        "broken/half a photo.jpg": ("failed", "truncated"),
        "broken/letter.tif": ("failed", "not_an_image"),
        "closed/": ("failed", "unreadable_folder"),
        "good.tif": ("done", None),
        "loop": ("skipped", "symlink"),
        "pipe.tif": ("skipped", "not_a_file"),
        "truncated.tif": ("failed", "truncated"),
        "unreadable.tif": ("failed", "unreadable"),
    }
    for entry in quire.files().values():
        assert entry["status"] == "done" or len(entry["reason"]) > 10


@pytest.mark.parametrize(
    "name",
    [
        "with blank.tif",
        "100%25.tif",
        "a#b?c&d.tif",
        'it\'s "quoted" `x` $(y).tif',
        "🌷 日本 é.tif",
        "-rf.tif",
        "[bracket]{1..3}*.tif",
        "n" * 246 + ".tif",
        "ü" * 123 + ".tif",
    ],
)
def test_unusual_names_come_out(quire, folder, name):
    shutil.copy(GOOD_TIFF, folder / name)
    ran = quire.run(str(folder))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    entry = quire.files()[name]
    assert len(entry["outputs"]) == 2
    assert all((quire.out / output).is_file() for output in entry["outputs"])


def test_names_that_would_collide_all_come_out(quire, folder):
    for name in ("x.tif", "x.tiff", "y.tif"):
        shutil.copy(GOOD_TIFF, folder / name)
    shutil.copy(GOOD_JPEG, folder / "y.jpg")
    assert quire.run(str(folder)).returncode == 0
    files = quire.files()
    outputs = [output for entry in files.values() for output in entry["outputs"]]
    assert len(set(outputs)) == len(outputs)
    assert "x.tif.jpg" in files["x.tif"]["outputs"]
    assert "x.tiff.jpg" in files["x.tiff"]["outputs"]
    assert "y.tif.jpg" in files["y.tif"]["outputs"]


def test_an_empty_folder_is_no_error_and_says_so(quire, folder):
    ran = quire.run(str(folder))
    assert ran.returncode == 0, ran.stderr
    assert quire.report()["files"] == []
    assert "no files" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "nowhere"], 2, "nowhere"),
        (["run"], 2, "PATH"),
        (["run", ".", "--frobnicate"], 2, "frobnicate"),
        (["run", "home", "--pipeline", "nope"], 2, "preprocess"),
        (["run", "home", "--out", "home"], 1, "another folder"),
        (["run", "home", "--out", "."], 1, "another folder"),
        (["run", "home", "--home", "home"], 1, "another folder"),
        (["run", "in", "--out", "/dev/null/x"], 1, "--out"),
    ],
)
def test_wrong_use_says_what_is_wrong(quire, folder, arguments, code, words):
    quire.home.mkdir()
    ran = quire(*arguments)
    assert (ran.returncode, words in ran.stderr + ran.stdout) == (code, True), ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_same_request_is_for_one_process_at_a_time(quire, folder):
    many_pages(folder)
    other = folder.parent / "other"
    other.mkdir()
    shutil.copy(GOOD_JPEG, other)
    with quire.started("run", str(folder), "--out", str(quire.out)) as first:
        next(line for line in first.stderr if line.startswith("TIFF → JPEG: "))
        same = quire.run(str(folder))
        beside = quire("run", str(other), "--out", str(folder.parent / "other-out"))
        first.stderr.read()
    assert (same.returncode, str(first.pid) in same.stderr) == (1, True), same.stderr
    # Another request in the same home is not in the way.
    assert beside.returncode == 0, beside.stderr
    assert first.returncode == 0
    assert quire.run(str(folder)).returncode == 0


def test_results_inside_the_folder_are_not_taken_in_again(quire, folder):
    shutil.copy(GOOD_JPEG, folder / "a.jpg")
    for _ in range(2):
        ran = quire("run", str(folder), "--out", str(folder / "quire-out"))
        assert ran.returncode == 0
        report = json.loads((folder / "quire-out" / "report.json").read_text(encoding="utf-8"))
        assert [entry["path"] for entry in report["files"]] == ["a.jpg"]


def test_ctrl_c_stops_cleanly_and_the_same_command_resumes(quire, folder):
    batch_id = interrupted(quire, folder)
    ran = quire.run(str(folder))
    assert ran.returncode == 0, ran.stderr
    assert f"Resuming {batch_id}" in ran.stderr
    assert quire.report()["batch_id"] == batch_id
    # A conversion and three pages of each file, each once: what had been finished was not repeated.
    assert sum(entry["attempts"] for entry in quire.files().values()) == 4 * MANY_FILES


def interrupted(quire, folder, **options):
    """A run of many TIFFs of three pages, stopped by Ctrl-C in its first phase; the id of its batch."""
    many_pages(folder)
    with quire.started("run", str(folder), "--out", str(quire.out), **options) as process:
        for line in process.stderr:
            if line.startswith("TIFF → JPEG: ") and not line.startswith("TIFF → JPEG: 0/"):
                os.killpg(process.pid, signal.SIGINT)
                break
        rest = process.stderr.read()
    assert process.returncode == 130, rest
    assert "again" in rest
    assert not (quire.out / "report.json").exists()
    batch_id, finished = ledger_of(quire)
    assert finished > 0
    return batch_id


def many_pages(folder):
    page = (SAMPLES / "letters 1884" / "three pages.tiff").read_bytes()
    for number in range(MANY_FILES):
        (folder / f"{number:02}.tif").write_bytes(page + bytes([number]))


def ledger_of(quire):
    connection = sqlite3.connect(quire.home / "quire.db")
    (batch_id,) = connection.execute("SELECT id FROM batches").fetchone()
    (finished,) = connection.execute("SELECT count(*) FROM tasks WHERE state = 'done'").fetchone()
    (running,) = connection.execute("SELECT count(*) FROM tasks WHERE state = 'running'").fetchone()
    connection.close()
    assert running == 0, "a clean stop leaves nothing running"
    return batch_id, finished


def snapshot(out):
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name not in {"report.json", "index.html"}
    }
