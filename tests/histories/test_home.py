"""Homes that an earlier version left behind, amid everything, are gone on with by this one.

On SQLite and on PostgreSQL; by the command line, with the tables looked at from outside.
"""

import pytest
from tests.histories.record_home import QUEUE, comparable

pytestmark = pytest.mark.slow


def test_everything_in_it_is_read(history):
    batches = history.batches
    listed, shown, keys, told, queues = history.quire.read_all(
        "batch list", f"batch show {batches['killed']}", "key list", "webhook deliveries", "queue list"
    )
    statuses = {one["batch_id"]: one["status"] for one in listed["batches"]}
    assert set(batches.values()) <= set(statuses)
    assert (statuses[batches["ended"]], statuses[batches["open"]]) == ("DONE", "OPEN")
    phase = shown["phases"][shown["status"]]
    assert 0 < phase["completed"] + phase["failed"] < phase["total"]
    assert shown["queue_message"]["batch_id"] == batches["killed"]
    assert {one["label"]: one["state"] for one in keys["keys"]} == {"valid": "active", "revoked": "revoked"}
    assert {one["state"] for one in told["deliveries"]} == {"waiting"}
    assert {one["tries"] for one in told["deliveries"]} == {0, 1}
    (queue,) = queues["queues"]
    assert (queue["queue"], queue["waiting"], queue["dead"]) == (QUEUE, 1, 1)


def test_a_run_that_was_killed_is_finished_by_the_same_command(history):
    assert {"done", "failed", "running", "ready"} <= history.states("killed")
    before = history.settled("killed", "done", "failed")
    report = history.quire.read("run", "in", "--out", "out", ends=3)
    assert report["batch_id"] == history.batches["killed"], "another batch was made"
    assert as_told_then(report) == as_told_then(history.facts["expected"])
    results = {output for entry in report["files"] for output in entry["outputs"]}
    assert len(results) == report["counts"]["outputs"]
    assert all((history.quire.folder / "out" / result).is_file() for result in results)
    # What had an end keeps it, to the attempt and the second: nothing was done twice.
    assert history.states("killed") == {"done", "failed"}
    assert set(before) <= set(history.settled("killed", "done", "failed"))
    assert history.books.rows("SELECT * FROM attempts WHERE outcome = 'done'") == []
    assert history.books.rows("SELECT * FROM strays WHERE kind = 'unknown'") == []


def as_told_then(report):
    """What reports told in every version. Outputs are in order of their paths now; steps and doubtful texts
    are told.
    """
    files = [
        {
            **{name: told for name, told in entry.items() if name not in {"steps", "doubtful"}},
            "outputs": sorted(entry["outputs"]),
        }
        for entry in report["files"]
    ]
    kept = comparable(report)
    counts = {name: number for name, number in kept["counts"].items() if name != "doubtful"}
    return {**kept, "counts": counts, "files": [{**entry, "attempts": None} for entry in files]}


@pytest.fixture(scope="module")
def conducted(other_history):
    """One whose failures were retried and whose dead letters replayed, and then a conductor was at work."""
    quire, ended = other_history.quire, other_history.batches["ended"]
    other_history.done_before = other_history.settled("ended", "done")
    other_history.retried = quire.read("batch", "retry", ended, "--yes")
    other_history.replayed = quire.read("queue", "dead", "replay", QUEUE, "--all", "--yes")
    worked = quire("conductor", "--workers", "2", "--until-idle")
    assert worked.returncode == 0, worked.stderr
    return other_history


def test_what_failed_in_an_ended_batch_is_retried(conducted):
    ended = conducted.batches["ended"]
    retried = conducted.retried
    assert (retried["kind"], retried["round"], retried["tasks"]) == ("new_round", 2, 2)
    shown, damaged, huge = conducted.quire.read_all(
        f"batch show {ended}",
        f"batch files {ended} --file damaged.tif",
        f"batch files {ended} --file huge.png",
    )
    assert (shown["status"], shown["round"], shown["failures"]) == ("DONE", 2, {"corrupt": 1})
    # There is time enough now, and the damage is still there. The earlier attempts are known.
    outcomes = [(one["round"], one["outcome"]) for one in damaged["attempts"]]
    assert outcomes == [(1, "rejected"), (2, "rejected")]
    outcomes = [(one["round"], one["error_class"]) for one in huge["attempts"]]
    assert outcomes == [(1, "timeout")] * 3 + [(2, None)]
    assert conducted.done_before
    assert set(conducted.done_before) <= set(conducted.settled("ended", "done"))


def test_dead_letters_are_replayed_and_what_waits_is_started(conducted):
    assert conducted.replayed["dead_letters"] == 1
    listed, queues, handed_over = conducted.quire.read_all(
        "batch list", "queue list", "queue peek arke-batch-jobs"
    )
    statuses = {one["batch_id"]: one["status"] for one in listed["batches"]}
    for name in ("buried", "waiting", "killed"):
        assert statuses[conducted.batches[name]] == "DONE", name
    (queue,) = (one for one in queues["queues"] if one["queue"] == QUEUE)
    assert (queue["waiting"], queue["in_flight"], queue["dead"]) == (0, 0, 0)
    assert len(handed_over["messages"]) == 2
