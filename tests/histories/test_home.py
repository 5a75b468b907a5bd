"""Homes that an earlier version left behind, amid everything, are gone on with by this one.

On SQLite and on PostgreSQL; by the command line, with the tables looked at from outside.
"""

import pytest
from tests.histories.record_home import QUEUE, comparable

pytestmark = pytest.mark.slow


def test_everything_in_it_is_read(history):
    quire, batches = history.quire, history.batches
    listed = {one["batch_id"]: one["status"] for one in quire.read("batch", "list")["batches"]}
    assert set(batches.values()) <= set(listed)
    assert (listed[batches["ended"]], listed[batches["open"]]) == ("DONE", "OPEN")
    shown = quire.read("batch", "show", batches["killed"])
    phase = shown["phases"][shown["status"]]
    assert 0 < phase["completed"] + phase["failed"] < phase["total"]
    assert shown["queue_message"]["batch_id"] == batches["killed"]
    files = quire.read_lines("batch", "files", batches["ended"])
    assert {one["path"]: one["error_class"] for one in files} == {
        "damaged.tif": "corrupt",
        "good.tif": None,
        "huge.png": "timeout",
    }
    kinds = [one["kind"] for one in quire.read_lines("batch", "events", batches["killed"])]
    assert kinds[0] == "batch_opened"
    keys = {one["label"]: one["state"] for one in quire.read("key", "list")["keys"]}
    assert keys == {"valid": "active", "revoked": "revoked"}
    deliveries = quire.read("webhook", "deliveries")["deliveries"]
    assert {one["state"] for one in deliveries} == {"waiting"}
    assert {one["tries"] for one in deliveries} == {0, 1}
    (queue,) = quire.read("queue", "list")["queues"]
    assert (queue["queue"], queue["waiting"], queue["dead"]) == (QUEUE, 1, 1)


def test_a_run_that_was_killed_is_finished_by_the_same_command(history):
    assert {"done", "failed", "running", "ready"} <= history.states("killed")
    before = history.settled("killed")
    ran = history.quire("run", "in", "--out", "out", "--json")
    assert ran.returncode == 3, ran.stderr
    report = history.quire.read("batch", "export", history.batches["killed"], "--out", "again", ends=3)
    assert comparable(report) == history.facts["expected"]
    results = [path for path in (history.quire.folder / "again").rglob("*") if path.is_file()]
    assert results
    for path in results:
        if path.name not in {"report.json", "index.html"}:
            laid_out = history.quire.folder / "out" / path.relative_to(history.quire.folder / "again")
            assert laid_out.read_bytes() == path.read_bytes(), "another batch was made"
    # What had an end keeps it, to the attempt and the second: nothing was done twice.
    assert history.states("killed") == {"done", "failed"}
    assert set(before) <= set(history.settled("killed"))
    assert history.books.rows("SELECT * FROM attempts WHERE outcome = 'done'") == []
    assert history.books.rows("SELECT * FROM strays WHERE kind = 'unknown'") == []


def test_what_failed_in_an_ended_batch_is_retried(history):
    quire, ended = history.quire, history.batches["ended"]
    # The others need not be gone on with here.
    for name in ("killed", "open", "waiting"):
        assert quire("batch", "cancel", history.batches[name]).returncode == 0
    before = history.settled("ended")
    asked = quire.read("batch", "retry", ended, "--yes")
    assert (asked["kind"], asked["round"], asked["tasks"]) == ("new_round", 2, 2)
    worked = quire("conductor", "--workers", "2", "--until-idle")
    assert worked.returncode == 0, worked.stderr
    shown = quire.read("batch", "show", ended)
    assert (shown["status"], shown["round"], shown["failures"]) == ("DONE", 2, {"corrupt": 1})
    files = quire.read_lines("batch", "files", ended)
    # There is time enough now, and the damage is still there.
    assert {one["path"]: one["error_class"] for one in files} == {
        "damaged.tif": "corrupt",
        "good.tif": None,
        "huge.png": None,
    }
    story = quire.read("batch", "files", ended, "--file", "damaged.tif")
    assert [(one["round"], one["outcome"]) for one in story["attempts"]] == [(1, "rejected"), (2, "rejected")]
    assert set(before) <= set(history.settled("ended"))


def test_dead_letters_are_replayed_and_what_waits_is_started(history):
    quire, batches = history.quire, history.batches
    for name in ("killed", "open"):
        assert quire("batch", "cancel", batches[name]).returncode == 0
    letter = quire.read("queue", "dead", "show", QUEUE, history.facts["dead"]["id"])
    assert letter["error_class"] == history.facts["dead"]["error_class"]
    assert quire.read("queue", "dead", "replay", QUEUE, "--all", "--yes")["dead_letters"] == 1
    waiting = {one["id"] for one in quire.read("queue", "peek", QUEUE)["messages"]}
    assert waiting == {f"start-{batches[name]}" for name in ("buried", "waiting")}
    worked = quire("conductor", "--workers", "2", "--until-idle")
    assert worked.returncode == 0, worked.stderr
    listed = {one["batch_id"]: one["status"] for one in quire.read("batch", "list")["batches"]}
    assert (listed[batches["buried"]], listed[batches["waiting"]]) == ("DONE", "DONE")
    queues = {one["queue"]: one for one in quire.read("queue", "list")["queues"]}
    assert (queues[QUEUE]["waiting"], queues[QUEUE]["dead"]) == (0, 0)
    handed_over = quire.read("queue", "peek", "arke-batch-jobs")["messages"]
    assert len(handed_over) == 2
