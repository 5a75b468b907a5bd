"""`quire batch` as people use it: processes on one home, beside a run and after it."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "collection"
GOOD_TIFF = SAMPLES / "photos" / "portrait.tif"


@pytest.fixture
def ran(quire, folder):
    """A folder with a good and a broken file has been run; the id of its batch."""
    shutil.copy(GOOD_TIFF, folder / "good.tif")
    (folder / "bad.tif").write_bytes(GOOD_TIFF.read_bytes()[:200])
    (folder / "empty.tif").touch()
    assert quire.run(str(folder)).returncode == 3
    return quire.report()["batch_id"]


def answer(ran):
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_finished_run_is_listed_and_shown(quire, ran):
    (listed,) = answer(quire("batch", "list", "--json"))["batches"]
    assert (listed["batch_id"], listed["summary"]) == (ran, "done, 1 failed, 1 refused")
    shown = answer(quire("batch", "show", ran, "--json"))
    assert (shown["status"], shown["total_files"]) == ("DONE", 2)
    assert shown["queue_message"]["batch_id"] == ran
    assert [one["name"] for one in shown["plan"]["phases"]] == [
        "PDF_SPLIT",
        "TIFF_CONVERSION",
        "IMAGE_PROCESSING",
    ]
    (failed,) = shown["failed_tasks"]
    assert failed["task_id"].startswith("tiff_")
    assert failed["path"] == "bad.tif"
    people = quire("batch", "show", ran, COLUMNS="80")
    assert max(map(len, people.stdout.splitlines())) <= 80
    assert "\x1b" not in people.stdout


def test_the_failed_files_go_into_a_spreadsheet(quire, ran):
    told = quire("batch", "files", ran, "--state", "failed", "--csv")
    assert told.returncode == 0
    rows = list(csv.DictReader(io.StringIO(told.stdout)))
    assert [row["path"] for row in rows] == ["bad.tif", "empty.tif"]
    assert all(row["reason"] for row in rows)


def test_what_failed_is_retried_by_a_scheduler_and_laid_out_again(quire, ran, tmp_path):
    preview = answer(quire("batch", "retry", ran, "--dry-run", "--json"))
    assert (preview["kind"], preview["tasks"], preview["files"]) == ("new_round", 1, 1)
    retried = quire("batch", "retry", ran, "--reason", "once more")  # nobody is at the terminal: not asked
    assert retried.returncode == 0, retried.stderr
    assert "quire scheduler" in retried.stderr
    worked = quire("scheduler", "--workers", "1", "--until-idle")
    assert worked.returncode == 0, worked.stderr
    shown = answer(quire("batch", "show", ran, "--json"))
    assert (shown["status"], shown["round"], shown["summary"]) == ("DONE", 2, "done, 1 failed, 1 refused")
    story = answer(quire("batch", "files", ran, "--file", "bad.tif", "--json"))
    assert [(one["round"], one["outcome"]) for one in story["attempts"]] == [(1, "rejected"), (2, "rejected")]
    again = tmp_path / "again"
    exported = quire("batch", "export", ran, "--out", str(again))
    assert exported.returncode == 3, exported.stderr
    assert (again / "good.jpg").read_bytes() == (quire.out / "good.jpg").read_bytes()
    report = json.loads((again / "report.json").read_text("utf-8"))
    assert {one["path"]: one["status"] for one in report["files"]} == {
        "bad.tif": "failed",
        "empty.tif": "failed",
        "good.tif": "done",
    }


def test_a_cancelled_batch_goes_on_where_it_stood(quire, folder):
    for number in range(12):
        (folder / f"{number:02d}.tif").write_bytes(GOOD_TIFF.read_bytes() + bytes([number]))
    # Held at once: nothing is spent before the first task settles, and that one spends it all.
    assert quire.run(str(folder), "--budget-seconds", "0.001").returncode == 4
    (listed,) = answer(quire("batch", "list", "--running", "--json"))["batches"]
    name = listed["batch_id"]
    assert (listed["state"], listed["summary"]) == ("held", "held: budget spent")
    refused = quire("batch", "resume", name, "--json")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["error"]["class"] == "budget_spent"
    assert quire("batch", "cancel", name, "--reason", "wrong folder").returncode == 0
    assert quire("batch", "pause", name).returncode == 1
    assert answer(quire("batch", "retry", name, "--json"))["did"] == "continued"
    # The hold went with the end, the spent budget did not: paused before a task settles, it gets another.
    assert quire("batch", "pause", name).returncode == 0
    assert quire("batch", "resume", name, "--budget-seconds", "none").returncode == 0
    ran = quire.run(str(folder))
    assert ran.returncode == 0, ran.stderr
    assert f"Resuming {name}" in ran.stderr
    kinds = [
        json.loads(line)["kind"] for line in quire("batch", "events", name, "--json").stdout.splitlines()
    ]
    assert kinds.index("batch_cancelled") < kinds.index("batch_reopened") < kinds.index("batch_done")


def test_an_unknown_batch_and_a_missing_home_end_with_1(quire, ran, tmp_path):
    assert quire("batch", "show", "nobody").returncode == 1
    assert quire("batch", "list", "--home", str(tmp_path / "typo")).returncode == 1
    assert quire("batch", "files", ran, "--state", "lost").returncode == 2


def test_a_reader_that_has_seen_enough_is_no_error_to_talk_about(quire, ran):
    started = quire.started("batch", "files", ran, "--json")
    started.stdout.close()
    _, said = started.communicate(timeout=60)
    assert started.returncode == 1
    assert "Traceback" not in said
