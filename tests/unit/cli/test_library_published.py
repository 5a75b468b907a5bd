"""First lines and exit codes of every command beside those of the published tools, under both names: a table.

The numbers are published; of the words only those that the documentation promises.
"""

import pytest
from tests.situations.bucket_folder import hash_of

DONE, DEAD, FAILED, RUNNING, QUEUED, RAW = (hash_of(letter) for letter in "ABCDEG")
UNKNOWN = "f" * 64


@pytest.fixture
def furnished(bucket, monkeypatch):
    bucket.done(DONE)
    bucket.raw(DONE, {"original-name": "Rules v2.pdf", "tags": '["DnD"]', "size": "8"})
    for job in (DEAD, FAILED, RUNNING, QUEUED, RAW):
        bucket.raw(job)
    bucket.dead(DEAD)
    bucket.todo(DEAD)  # a published janitor leaves it
    bucket.failed(FAILED)
    bucket.todo(FAILED, body={"retries": 1})  # and a published worker
    bucket.lock(RUNNING)
    bucket.todo(RUNNING, "2_high")
    bucket.todo(QUEUED, "1_critical")
    monkeypatch.setenv("QUIRE_LIBRARY_SWEEP", "false")
    entry = {"paths": ["DnD/Rules v2.pdf"], "size": 8, "tags": ["DnD"], "source": "books"}
    bucket.put("registry/manifest.json", {"version": 1, "entries": {DONE: entry, QUEUED: entry}})
    return bucket


TABLE = [
    # words, exit code, first line of the standard output where it is published
    (["status", DONE], 0, "Status: DONE"),
    (["status", DEAD], 0, "Status: DEAD (exceeded max retries)"),
    (["status", FAILED], 0, "Status: FAILED (pending retry)"),
    (["status", RUNNING], 0, "Status: PROCESSING"),
    (["status", QUEUED], 0, "Status: QUEUED"),
    (["status", RAW], 0, "Status: RAW ONLY (not queued)"),
    (["status", UNKNOWN], 1, "Status: UNKNOWN (not found)"),
    (["status", UNKNOWN[:12]], 1, "Status: UNKNOWN (not found)"),
    (["list"], 0, "TODO"),
    (["reprioritize", QUEUED, "2_high"], 0, ""),
    (["reprioritize", QUEUED, "1_critical"], 0, ""),  # where it is already
    (["reprioritize", DONE, "2_high"], 1, ""),
    (["reprioritize", DEAD, "2_high"], 1, ""),
    (["reprioritize", FAILED, "2_high"], 1, ""),
    (["reprioritize", RUNNING, "2_high"], 1, ""),
    (["reprioritize", UNKNOWN, "2_high"], 1, ""),
    (["reprioritize", QUEUED, "6_never"], 2, ""),
    (["retry", DEAD], 0, ""),
    (["retry", FAILED], 0, ""),  # "already queued" to a published tool, as its todo marker was kept
    (["retry", RAW], 0, ""),
    (["retry", DEAD, "--priority", "2_high", "--reset-retries"], 0, ""),
    (["retry", DONE], 1, ""),
    (["retry", QUEUED], 1, ""),
    (["retry", RUNNING], 1, ""),
    (["retry", UNKNOWN], 1, ""),
    (["retry-all", "--dry-run"], 0, ""),
    (["retry-all", "--failed", "--dead", "--priority", "4_low", "--reset-retries"], 0, ""),
    (["janitor"], 0, ""),
    (["janitor", "--dry-run", "-v"], 0, ""),
    (["worker", "--dry-run"], 0, ""),
    (["worker", "--run-window", "25:00-26:00"], 2, ""),
    (["dashboard", "-v"], 0, ""),
    (["lookup", "--hash", DONE], 0, ""),
    (["lookup", "--path", "DnD/Rules v2.pdf"], 0, ""),
    (["lookup", "--hash", UNKNOWN], 1, ""),
    (["lookup", "--path", "no such file.pdf"], 1, ""),
    (["search", "rules", "--limit", "1"], 0, ""),
    (["search", "no such word"], 1, ""),
    (["search-queue", "rules"], 0, ""),
    (["search-queue", "no such word"], 1, ""),
    (["manifest", "-v"], 0, ""),
    (["repair-metadata", "--dry-run"], 0, ""),
    (["config", "--show"], 0, ""),
    (["config", "--set", "max_retries=1"], 0, ""),
    (["config", "--set", "max_retries=many"], 1, ""),
    (["workers", "--active"], 0, ""),
    (["test-s3"], 0, ""),
    (["logs", QUEUED], 1, ""),
    (["download", DONE], 0, ""),
    (["download", QUEUED], 1, ""),
    (["preview", DONE, "-n", "2"], 0, ""),
    (["preview", QUEUED], 1, ""),
    (["cancel", RUNNING, "--dry-run"], 0, ""),
    (["cancel", RUNNING, "--priority", "4_low"], 0, ""),
    (["cancel", QUEUED], 1, ""),
    (["cancel", UNKNOWN], 1, ""),
    (["remove", DEAD, "--dry-run"], 0, ""),
    (["remove", DEAD, "--force"], 0, ""),
    (["remove", UNKNOWN, "--force"], 1, ""),
    (["clear-dead", "--dry-run"], 0, ""),
    (["clear-dead", "--force"], 0, ""),
    (["ingest", "."], 0, ""),
    (["hydrate", "."], 0, ""),
    (["ingest"], 2, ""),
    (["no-such-command"], 2, ""),
    ([], 1, ""),
]


@pytest.mark.parametrize(
    ("words", "code", "first"), TABLE, ids=[" ".join(row[0]).replace("f" * 64, "?")[:60] for row in TABLE]
)
def test_exit_codes_and_promised_first_lines_are_published_ones(library, furnished, words, code, first):
    del furnished
    told = library(*words)
    assert told.exit_code == code, told.output
    assert not first or told.stdout.splitlines()[0] == first


def test_the_sections_of_list_have_the_published_names(library, furnished):
    del furnished
    lines = [line.partition(":")[0].strip() for line in library("list").output.splitlines()]
    tiers = ["1_critical", "2_high", "3_normal", "4_low", "5_background", "TOTAL"]
    assert lines == ["TODO", *tiers, "PROCESSING", "FAILED", "DEAD-LETTER", "DONE"]


def test_ingest_ends_with_the_published_counts(library, furnished):
    del furnished
    lines = [line.partition(":")[0] for line in library("ingest", ".").stdout.splitlines()]
    assert lines == ["Found", "Uploaded", "Queued", "Skipped"]


def test_a_job_with_markers_of_many_kinds_has_one_place_in_every_command(library, furnished):
    """Done, dead, failed, processing, todo: in this order, in `status` and in `list`."""
    del furnished
    assert library("list").output.splitlines()[6:] == [
        "  TOTAL: 1",
        "PROCESSING: 1",
        "FAILED: 1",
        "DEAD-LETTER: 1",
        "DONE: 1",
    ]
