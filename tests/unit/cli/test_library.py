"""Looking at a library: first lines, exit codes, JSON, on a bucket that the published tools have filled."""

import json
import os
import subprocess
import sys

import pytest
from tests.situations.bucket_folder import WORKER, Bucket, hash_of

from quire.cli.library.commands import COMMANDS

CONTRACT = (
    "ingest convert hydrate status list reprioritize retry retry-all janitor worker dashboard watch lookup "
    "search search-queue manifest repair-metadata config workers test-s3 logs download preview cancel remove "
    "clear-dead"
)
A, B, C, D, E, F, G = (hash_of(letter) for letter in "ABCDEFG")


def furnished(bucket: Bucket) -> None:
    bucket.done(A)
    bucket.raw(A, {"original-name": "Rules v2.pdf", "tags": '["DnD","Rules v2"]', "size": "8"})
    bucket.todo(A)  # left behind: the result counts
    bucket.dead(B)
    bucket.todo(B)
    bucket.failed(C)
    bucket.todo(C, body={"retries": 1})  # published workers keep it
    bucket.lock(D)
    bucket.todo(D, "2_high")
    bucket.todo(E, "1_critical")
    bucket.todo(F, "5_background", b"no json")
    bucket.raw(G)


def test_all_commands_of_the_contract_exist():
    assert list(COMMANDS) == CONTRACT.split()


def test_without_a_command_there_is_help_and_exit_code_one(library):
    told = library()
    assert told.exit_code == 1
    assert "reprioritize" in told.output


@pytest.mark.parametrize(
    "words",
    [["nonsense"], ["status"], ["retry", A, "--priority", "9_never"], ["reprioritize", A], ["lookup"]],
)
def test_what_is_not_understood_ends_with_two(library, words):
    assert library(*words).exit_code == 2


@pytest.mark.parametrize(
    ("job", "first", "lines", "code"),
    [
        (A, "Status: DONE", ["Name: Rules v2.pdf", "Output: "], 0),
        (B, "Status: DEAD (exceeded max retries)", ["Error: worker restarted", "Attempts: 4"], 0),
        (C, "Status: FAILED (pending retry)", ["Error: out of memory"], 0),
        (D, "Status: PROCESSING", [f"Worker: {WORKER}", "Priority: 2_high", "Progress: converting, "], 0),
        (E, "Status: QUEUED", ["Priority: 1_critical"], 0),
        (F, "Status: QUEUED", ["Priority: 5_background"], 0),
        (G, "Status: RAW ONLY (not queued)", ["Size: 8 bytes"], 0),
        ("f" * 64, "Status: UNKNOWN (not found)", [], 1),
    ],
)
def test_status_has_the_published_first_line_and_exit_code(library, bucket, job, first, lines, code):
    furnished(bucket)
    told = library("status", job)
    assert told.output.splitlines()[0] == first
    assert told.exit_code == code
    for line in lines:
        assert line in told.output


def test_the_output_is_where_it_is_said_to_be(library, bucket, tmp_path):
    furnished(bucket)
    (line,) = [line for line in library("status", A).output.splitlines() if line.startswith("Output: ")]
    assert line == f"Output: {tmp_path}/bucket/pdf/store/out/{A}.zip (129 bytes)"
    assert (bucket.root / f"store/out/{A}.zip").stat().st_size == 129


@pytest.mark.parametrize("key", ["last_error", "previous_error"])
def test_what_waits_again_says_why(library, bucket, key):
    bucket.todo(A, body={"retries": 1, "queued_at": 1770110000000, key: "out of memory"})
    assert "Last error: out of memory" in library("status", A).output.splitlines()


def test_status_as_json(library, bucket):
    furnished(bucket)
    bucket.put(f"registry/logs/{C}/error.json", {"error": "oom", "context": {"stage": "converting"}})
    told = json.loads(library("status", C, "--json").stdout)
    assert (told["hash"], told["standing"], told["error"]) == (C, "failed", "out of memory")
    assert told["mishap"]["context"]["stage"] == "converting"
    assert json.loads(library("status", A, "--json").stdout)["tags"] == ["DnD", "Rules v2"]
    missing = library("status", "0" * 64, "--json")
    assert (json.loads(missing.stdout)["standing"], missing.exit_code) == ("unknown", 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "is not a hash"),
        ("abc", "is not a hash"),
        ("../../etc/passwd", "is not a hash"),
        ("0" * 65, "is not a hash"),
        ("01234567", "No document of this library"),
    ],
)
def test_what_names_no_document_is_said_so(library, bucket, text, words):
    furnished(bucket)
    told = library("status", text)
    assert told.exit_code == 1
    assert words in told.stderr


@pytest.mark.parametrize("job", [A, B, C, D, E, F, G])
def test_eight_digits_name_a_document_wherever_it_stands(library, bucket, job):
    furnished(bucket)
    assert f"Hash: {job}" in library("status", job[:8].upper()).output


def test_digits_that_several_begin_with_are_refused(library, bucket):
    bucket.todo("ab" * 32)
    bucket.done("abababab" + "0" * 56)
    told = library("status", "abababab")
    assert told.exit_code == 1
    assert "Several hashes begin with abababab" in told.stderr
    assert library("status", "abababab0").exit_code == 0


def test_list_counts_each_document_once(library, bucket):
    furnished(bucket)
    told = library("list")
    assert told.exit_code == 0
    assert told.output.splitlines() == [
        "TODO",
        "  1_critical: 1",
        "  2_high: 0",
        "  3_normal: 1",
        "  4_low: 0",
        "  5_background: 1",
        "  TOTAL: 3",
        "PROCESSING: 1",
        "FAILED: 1",
        "DEAD-LETTER: 1",
        "DONE: 1",
    ]
    assert f"    {D}  " in library("list", "-v").output


def test_list_as_json(library, bucket):
    furnished(bucket)
    told = json.loads(library("list", "--json", "-v").stdout)
    assert (told["todo_total"], told["processing"], told["failed"], told["dead"]) == (3, 1, 1, 1)
    assert told["todo"]["1_critical"] == told["done"] == 1
    assert told["jobs"]["failed"] == [C]
    assert told["jobs"]["todo"]["5_background"] == [F]


def test_logs_show_the_last_error_and_what_was_said(library, bucket):
    assert library("logs", A).exit_code == 1
    bucket.put(f"registry/logs/{A}/error.json", {"error": "boom \x1b[31m", "traceback": "a\n  b"})
    bucket.put(f"registry/logs/{A}/conversion.log", b"first\nlast\xff")
    told = library("logs", A)
    assert told.exit_code == 0
    assert told.output.splitlines()[0] == r"Error: boom \x1b[31m"
    assert "last�" in told.output
    assert "boom" not in library("logs", A, "-t", "conversion").output
    assert library("logs", A, "-t", "error").exit_code == 0
    missing = library("logs", A, "-t", "other")
    assert (missing.exit_code, "There are: conversion" in missing.stderr) == (1, True)
    assert library("logs", A, "-t", "../../x").exit_code == 1
    assert json.loads(library("logs", A, "--json").stdout)["kinds"] == ["conversion"]


def test_workers_tell_who_is_there(library, bucket):
    assert "No worker has registered yet" in library("workers").output
    said = {"worker_id": "w", "status": "processing", "current_job": A, "metrics": {"jobs_completed": 2}}
    bucket.put("registry/workers/busy.json", said)
    bucket.put("registry/workers/gone.json", said | {"status": "stopped"})
    bucket.put("registry/workers/odd.json", b"no json")
    os.utime(bucket.root / "registry/workers/odd.json", (1, 1))
    told = library("workers", "-v")
    assert told.exit_code == 0
    assert f"busy  processing on {A[:12]}" in told.output
    assert "jobs_completed: 2" in told.output
    assert "odd  silent (was unknown)" in told.output
    assert [line.split()[0] for line in library("workers", "--active").output.splitlines()] == ["busy"]
    found = json.loads(library("workers", "--active", "--json").stdout)["workers"]
    assert [one["worker_id"] for one in found] == ["busy"]


def test_the_dashboard_shows_counts_and_what_runs(library, bucket):
    furnished(bucket)
    told = library("dashboard", "-v")
    assert told.exit_code == 0
    for line in ("Rules.pdf", "waiting", WORKER, "converting 10 %", "worker restarted"):
        assert line in told.output
    glance = json.loads(library("dashboard", "--json").stdout)
    assert (glance["todo"]["1_critical"], glance["processing"], glance["done"]) == (1, 1, 1)
    assert glance["running"][0]["percent"] == 10.0


def test_shared_settings_are_shown_and_set_by_kind(library, bucket):
    assert "max_retries: not set (in force here: 3)" in library("config", "--show").output
    told = library("config", "--set", "max_retries=1", "conversion_timeout=86400")
    assert told.exit_code == 0
    assert bucket.body("registry/config.json") == {"max_retries": 1, "conversion_timeout": 86400}
    assert "max_retries: 1 (in force here: 1)" in told.output
    assert library("config", "--set", "max_retries=yes").exit_code == 1
    assert library("config", "--set", "max_retries").exit_code == 2
    assert library("config", "max_retries=1").exit_code == 2
    shown = json.loads(library("config", "--json").stdout)
    assert (shown["shared"]["max_retries"], shown["in_force"]["max_retries"]) == (1, 1)


def test_a_store_is_tried_out_and_nothing_is_left(library, bucket):
    before = bucket.all_keys()
    told = library("test-s3")
    assert told.exit_code == 0
    assert "FAILED" not in told.output
    assert told.output.splitlines()[0] == "ok      put an object"
    assert bucket.all_keys() == before
    shown = json.loads(library("test-s3", "--json").stdout)
    assert (shown["works"], shown["conditional_writes"]) == (True, True)
    fields = ("ability", "ok", "needed", "detail", "lacking")
    assert {tuple(ability) for ability in shown["abilities"]} == {fields}


def test_a_store_that_lacks_conditions_works_and_is_told_what_that_means(library, bucket, monkeypatch):
    from quire.blobs.local import LocalBlobs

    put = LocalBlobs.put

    async def careless(self, key, data, **more):
        more.pop("condition", None)
        return await put(self, key, data, **more)

    monkeypatch.setattr(LocalBlobs, "put", careless)
    told = library("test-s3")
    assert told.exit_code == 0
    assert "FAILED  create only if absent (If-None-Match): a second create was not" in told.output
    assert "work would be done twice or lost" in told.output
    assert json.loads(library("test-s3", "--json").stdout)["conditional_writes"] is False
    refused = library("janitor")
    assert refused.exit_code == 1
    assert "If-None-Match" in refused.stderr


def test_a_store_that_cannot_be_written_does_not_work(library, bucket, monkeypatch):
    from quire.blobs.local import LocalBlobs
    from quire.model.errors import Misconfigured

    async def refused(self, key, data, **more):
        raise Misconfigured("access denied")

    monkeypatch.setattr(LocalBlobs, "put", refused)
    told = library("test-s3")
    assert told.exit_code == 1
    assert "FAILED  put an object: access denied" in told.output


def test_without_a_bucket_it_is_said_how_to_name_one(library, monkeypatch):
    monkeypatch.delenv("BLOBFORGE_S3_BUCKET")
    told = library("list")
    assert told.exit_code == 1
    assert "QUIRE_BUCKET" in told.stderr or "access key for the bucket blobforge" in told.stderr


def test_the_program_blobforge_has_the_published_bucket_by_default(bucket, monkeypatch):
    monkeypatch.delenv("BLOBFORGE_S3_BUCKET")
    command = [sys.executable, "-m", "quire.cli.blobforge", "list"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert "no access key for the bucket blobforge" in told.stderr
