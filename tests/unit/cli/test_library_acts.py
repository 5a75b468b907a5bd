"""Acting on a library: what is changed, what is refused, with which words and exit codes."""

import json

import pytest
from tests.situations.bucket_folder import hash_of

from quire.library.protocol.bodies import JobRecord, encode

A, B, C, D, E, G = (hash_of(letter) for letter in "ABCDEG")


def furnished(bucket):
    bucket.done(A)
    bucket.raw(B)
    bucket.dead(B)
    bucket.failed(C)
    bucket.todo(C, "2_high", {"retries": 1})
    bucket.lock(D)
    bucket.todo(D, "2_high")
    bucket.todo(E, "4_low")
    bucket.raw(G)


def todos(bucket, job):
    return [
        key.split("/")[2] for key in bucket.all_keys() if key.startswith("queue/todo/") and key.endswith(job)
    ]


@pytest.mark.parametrize(
    ("job", "tier", "reason", "charged"),
    # C failed with a published worker: the marker that it kept shows the priority.
    [(B, "3_normal", "dead-letter", 3), (C, "2_high", "failed", 2), (G, "3_normal", "raw", 0)],
)
def test_retry_queues_what_failed_was_given_up_or_never_queued(library, bucket, job, tier, reason, charged):
    furnished(bucket)
    told = library("retry", job[:12])
    assert told.exit_code == 0, told.output
    assert told.output == f"{job} queued again in {tier}.\n"
    assert todos(bucket, job) == [tier]
    marker = bucket.body(f"queue/todo/{tier}/{job}")
    assert marker["recovered_from"] == f"manual_retry_{reason}"
    assert marker.get("retries", 0) == charged
    assert bucket.body(f"queue/state/{job}")["state"] == "waiting"
    assert f"queue/dead/{job}" not in bucket.all_keys()
    assert f"queue/failed/{job}" not in bucket.all_keys()
    assert library("status", job).output.startswith("Status: QUEUED\n")


@pytest.mark.parametrize(
    ("job", "words"),
    [(A, "it is done"), (D, "being processed"), (E, "already queued"), ("0" * 64, "it is unknown")],
)
def test_retry_is_refused_where_there_is_nothing_to_retry(library, bucket, job, words):
    furnished(bucket)
    before = bucket.all_keys()
    told = library("retry", job)
    assert told.exit_code == 1
    assert told.stderr.startswith(f"{job} was not queued: ")
    assert words in told.stderr
    assert bucket.all_keys() == before


def test_retry_with_priority_and_from_the_beginning(library, bucket):
    furnished(bucket)
    told = library("retry", B, "--priority", "high", "--reset-retries", "--json")
    assert json.loads(told.stdout) == {
        "hash": B,
        "was": "dead",
        "changed": True,
        "priority": "2_high",
        "refused": "",
        "dry_run": False,
    }
    assert bucket.body(f"queue/todo/2_high/{B}").get("retries", 0) == 0


def test_retry_keeps_to_the_limit_of_the_bucket(library, bucket):
    furnished(bucket)
    bucket.put("registry/config.json", {"max_retries": 9})
    assert library("retry", B).exit_code == 0
    assert bucket.body(f"queue/todo/3_normal/{B}")["retries"] == 4


def test_reprioritize_moves_what_waits(library, bucket):
    furnished(bucket)
    told = library("reprioritize", E, "1")
    assert (told.exit_code, told.output) == (0, f"{E} moved to 1_critical.\n")
    assert todos(bucket, E) == ["1_critical"]
    said = json.loads((bucket.root / f"queue/todo/1_critical/{E}").read_bytes())
    assert set(said) == {"queued_at", "nonce"}  # as tools read it: never tried
    again = library("reprioritize", E, "1_critical")
    assert (again.exit_code, again.output) == (0, f"{E} is already queued in 1_critical.\n")


@pytest.mark.parametrize("job", [A, B, C, D, G, "0" * 64])
def test_reprioritize_is_refused_for_what_does_not_wait(library, bucket, job):
    furnished(bucket)
    told = library("reprioritize", job, "1_critical")
    assert told.exit_code == 1
    assert told.stderr.startswith(f"{job} was not moved: ")


def test_retry_all_takes_both_or_one_of_them(library, bucket):
    furnished(bucket)
    rehearsed = library("retry-all", "--dry-run")
    assert (rehearsed.exit_code, rehearsed.output) == (0, "2 documents would be queued again.\n")
    assert library("list", "--json").stdout.count('"dead": 1') == 1
    assert library("retry-all", "--dead").output == "1 document queued again.\n"
    assert library("retry-all", "--dead").output == "0 documents queued again.\n"
    told = json.loads(library("retry-all", "--failed", "--priority", "5", "--json").stdout)
    assert [one["hash"] for one in told["jobs"]] == [C]
    assert todos(bucket, C) == ["5_background"]


def test_cancel_takes_it_from_its_worker(library, bucket):
    furnished(bucket)
    rehearsed = library("cancel", D, "--dry-run")
    assert (rehearsed.exit_code, rehearsed.output) == (0, f"{D} would be taken from its worker.\n")
    assert f"queue/processing/{D}" in bucket.all_keys()
    told = library("cancel", D, "--priority", "5_background")
    assert (told.exit_code, todos(bucket, D)) == (0, ["5_background"])
    assert bucket.body(f"queue/todo/5_background/{D}")["retries"] == 1
    assert f"queue/processing/{D}" not in bucket.all_keys()
    again = library("cancel", D)
    assert (again.exit_code, "no worker has it" in again.stderr) == (1, True)


def test_clear_dead_asks_and_keeps_the_sources(library, bucket):
    furnished(bucket)
    own = JobRecord(state="dead", attempt=4, charged=4, nonce="x")
    bucket.dead(E)
    bucket.put(f"queue/state/{E}", encode(own))
    assert library("clear-dead").exit_code == 1  # nobody can be asked
    assert library("clear-dead", "--dry-run").output == "2 documents would be cleared.\n"
    assert f"queue/dead/{B}" in bucket.all_keys()
    told = library("clear-dead", "--force")
    assert (told.exit_code, told.output) == (0, "2 documents cleared.\n")
    assert library("status", B).output.startswith("Status: RAW ONLY (not queued)")
    assert not [key for key in bucket.all_keys() if E in key]
    assert library("clear-dead").output == "0 documents cleared.\n"


def test_remove_needs_somebody_to_say_so(library, bucket):
    furnished(bucket)
    assert library("remove", B).exit_code == 1
    rehearsed = library("remove", B, "--dry-run")
    assert (rehearsed.exit_code, rehearsed.output) == (0, f"{B} would be removed.\n")
    assert library("remove", "0" * 64, "--force").exit_code == 1
    assert [key for key in bucket.all_keys() if B in key] == [f"queue/dead/{B}", f"store/raw/{B}.pdf"]


def test_hashes_are_checked_before_keys_are_made(library, bucket):
    furnished(bucket)
    for command in ("retry", "cancel", "remove", "download", "preview", "logs"):
        told = library(command, "../../../etc/passwd")
        assert told.exit_code == 1
        assert "is not a hash" in told.stderr


def test_download_and_preview_give_the_result(library, bucket, tmp_path):
    bucket.done(A, {"index.md": "\n".join(f"line {number}" for number in range(99)), "info.json": "{}"})
    told = library("download", A, "-o", str(tmp_path / "x.zip"))
    assert told.exit_code == 0
    assert (tmp_path / "x.zip").read_bytes() == (bucket.root / f"store/out/{A}.zip").read_bytes()
    assert library("download", A[:8]).exit_code == 0
    assert (tmp_path / f"{A}.zip").exists()
    assert library("preview", A, "-n", "2").output == "line 0\nline 1\n"
    assert len(library("preview", A).output.splitlines()) == 50
    assert json.loads(library("preview", A, "-n", "1", "--json").stdout) == {"lines": ["line 0"]}
    missing = library("download", B)
    assert (missing.exit_code, "has no result" in missing.stderr) == (1, True)
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]
