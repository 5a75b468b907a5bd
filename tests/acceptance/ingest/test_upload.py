"""`quire upload` as a process, against the protocol's stand-ins and against `quire serve`.

Tests that take `ingest_url` know no more of the server than the published protocol says.
"""

import hashlib
import json
import os
import signal
import subprocess

import httpx
import pytest
from tests.standins.ingest_server import MIB, Fault, IngestServer, running

from quire.model.cid import cid_of

pytestmark = pytest.mark.slow

FILES = {
    "a.txt": b"letters",
    "box 7/scan é#%+.bin": b"\0\1\2\3",
    "box 7/deep/b.json": b"{}",
    "large.bin": bytes(range(256)) * (11 * MIB // 256),
}


@pytest.fixture(params=["stand-in", "original", "quire serve"])
def ingest_url(request):
    if request.param == "quire serve":
        yield request.getfixturevalue("api_only").url
        return
    with running(IngestServer(original=request.param == "original")) as server:
        yield server.url


@pytest.fixture
def stand_in():
    with running(IngestServer()) as server:
        yield server


@pytest.fixture
def folder(folder):
    for name, data in FILES.items():
        write(folder / name, data)
    return folder


def write(path, data=b"x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def events(ran):
    assert ran.stdout, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def status(url, batch_id):
    answer = httpx.get(f"{url}/api/batches/{batch_id}/status")
    assert answer.status_code == 200
    return answer.json()


def check_there(url, batch_id, files=None, root=""):
    """Every file once, complete, with its size and content."""
    known = status(url, batch_id)
    assert known["status"] != "uploading"
    told = sorted(
        (one["logical_path"], one["file_size"], one["status"], one["cid"]) for one in known["files"]
    )
    wanted = FILES if files is None else files
    assert told == sorted(
        (f"{root}/{path}", len(data), "completed", cid_of(hashlib.sha256(data).digest()))
        for path, data in wanted.items()
    )


def test_a_folder_is_uploaded_and_its_batch_closed(quire, folder, ingest_url):
    ran = quire("upload", str(folder), "--to", ingest_url, "--root-path", "/fonds/box", "--json")
    assert ran.returncode == 0, ran.stderr
    last = events(ran)[-1]
    assert (last["event"], last["uploaded"], last["failed"], last["finalized"]) == ("ended", 4, 0, True)
    check_there(ingest_url, last["batch_id"], root="/fonds/box")
    assert [one["event"] for one in events(ran)] == ["planned", "opened", *["file"] * 4, "finalized", "ended"]


def test_people_are_told_what_happened(quire, folder, ingest_url):
    write(folder / "empty.txt", b"")
    ran = quire("upload", str(folder), "--to", ingest_url)
    assert ran.returncode == 0, ran.stderr
    assert "Found 4 files" in ran.stderr
    assert "Uploading: 4/4" in ran.stderr
    assert "Skipped: empty.txt" in ran.stdout
    assert "4 files uploaded" in ran.stdout
    assert "is closed" in ran.stdout


def test_metadata_configurations_and_prompts_arrive(quire, folder, ingest_url):
    write(folder / "box 7" / ".arke-process.json", b'{"ocr": false}')
    write(quire.folder / "prompts.json", b'{"general": "Letters in Catalan"}')
    ran = quire(
        *("upload", str(folder), "--to", ingest_url, "--json", "--uploader", "ana@example.org"),
        *("--metadata", '{"shelf": "B7"}', "--prompts", "prompts.json", "--processing", '{"pinax": false}'),
    )
    assert ran.returncode == 0, ran.stderr
    known = status(ingest_url, events(ran)[-1]["batch_id"])
    assert (known["uploader"], known["metadata"]) == ("ana@example.org", {"shelf": "B7"})
    assert known["custom_prompts"] == {"general": "Letters in Catalan"}
    configs = {one["logical_path"]: one["processing_config"] for one in known["files"]}
    assert configs["/a.txt"] == {"ocr": True, "describe": True, "pinax": False}
    assert configs["/box 7/scan é#%+.bin"] == {"ocr": False, "describe": True, "pinax": False}


def test_failed_files_keep_the_batch_open_until_they_are_mended(quire, folder, ingest_url):
    write(folder / "what?.txt", b"who")
    command = ("upload", str(folder), "--to", ingest_url)
    first = quire(*command)
    assert first.returncode == 1
    assert "Failed: what?.txt" in first.stdout
    assert "--allow-failed" in first.stdout
    (folder / "what?.txt").rename(folder / "what.txt")
    second = quire(*command, "--json")
    assert second.returncode == 0, second.stderr
    last = events(second)[-1]
    assert (last["uploaded"], last["there"]) == (1, 4)
    check_there(ingest_url, last["batch_id"], FILES | {"what.txt": b"who"})


def test_the_batch_may_be_closed_without_failed_files(quire, folder, ingest_url):
    write(folder / "what?.txt")
    ran = quire("upload", str(folder), "--to", ingest_url, "--allow-failed", "--json")
    assert ran.returncode == 3
    check_there(ingest_url, events(ran)[-1]["batch_id"])


def test_killed_at_a_file_it_goes_on_and_every_file_is_there_once(quire, folder, ingest_url):
    command = ("upload", str(folder), "--to", ingest_url, "--json", "--parallel", "1")
    process = quire.started(*command)
    for line in process.stdout:
        if json.loads(line)["event"] == "file":
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    ran = quire(*command)
    assert ran.returncode == 0, ran.stderr
    last = events(ran)[-1]
    check_there(ingest_url, last["batch_id"])


@pytest.mark.parametrize("original", [False, True], ids=["ours", "original"])
@pytest.mark.parametrize("moment", ["init", "files/start", "PUT", "files/complete", "finalize"])
def test_killed_before_an_answer_arrives_every_file_is_there_once(quire, folder, moment, original):
    with running(IngestServer(original=original)) as server:
        command = ("upload", str(folder), "--to", server.url, "--json")
        killed: list[subprocess.Popen[str]] = []
        ready: list[subprocess.Popen[str]] = []

        def kill():
            os.killpg(ready[0].pid, signal.SIGKILL)
            killed.append(ready[0])

        server.faults.append(Fault(moment, call=kill, lost=True))
        process = quire.started(*command)
        ready.append(process)
        process.communicate(timeout=60)
        assert killed
        ran = quire(*command)
        assert ran.returncode == 0, ran.stderr
        (batch,) = server.closed()
        assert server.content(batch) == {f"/{path}": data for path, data in FILES.items()}


def test_ctrl_c_is_told_and_the_same_command_goes_on(quire, folder, stand_in):
    command = ("upload", str(folder), "--to", stand_in.url, "--parallel", "1")
    ready: list[subprocess.Popen[str]] = []
    stand_in.faults.append(Fault("files/complete", call=lambda: ready[0].send_signal(signal.SIGINT)))
    process = quire.started(*command)
    ready.append(process)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "same command again" in out
    ran = quire(*command)
    assert ran.returncode == 0, ran.stderr
    assert "Resuming batch" in ran.stderr
    check_there(stand_in.url, stand_in.closed()[0]["batch_id"])


def test_a_dry_run_sends_nothing_and_leaves_no_trace(quire, folder, stand_in):
    write(folder / "what?.txt")
    ran = quire("upload", str(folder), "--to", stand_in.url, "--dry-run")
    assert ran.returncode == 1  # something would fail
    assert "/box 7/deep/b.json" in ran.stdout
    assert "Refused: what?.txt" in ran.stdout
    told = events(quire("upload", str(folder), "--dry-run", "--json"))
    assert {one["state"] for one in told if one["event"] == "file"} == {"would_send", "failed"}
    assert stand_in.requests == []
    assert not quire.home.exists()


@pytest.mark.parametrize(("last", "code"), [("completed", 0), ("enqueued", 0), ("failed", 1)])
def test_waiting_ends_with_the_batch(quire, folder, stand_in, last, code):
    stand_in.statuses = [last]
    ran = quire("upload", str(folder), "--to", stand_in.url, "--wait", "--json")
    assert ran.returncode == code
    assert events(ran)[-1]["status"] == last


def test_the_key_comes_from_the_environment_or_a_file_and_is_never_shown(quire, folder):
    with running(IngestServer(key="s3cret-key")) as server:
        command = ("upload", str(folder), "--to", server.url)
        refused = quire(*command, QUIRE_UPLOAD_KEY="wrong-key")
        assert refused.returncode == 1
        assert "QUIRE_UPLOAD_KEY" in refused.stderr
        assert "wrong-key" not in refused.stderr
        write(quire.folder / "key.txt", b"s3cret-key\n")
        assert quire(*command, "--key-file", "key.txt").returncode == 0
        assert quire(*command, QUIRE_UPLOAD_KEY="s3cret-key").returncode == 0


def test_variables_of_the_published_client_stand_in(quire, folder, stand_in):
    ran = quire(
        *("upload", str(folder), "--json"),
        ARKE_WORKER_URL=stand_in.url,
        ARKE_UPLOADER="ana",
        ARKE_ROOT_PATH="/fonds",
        ARKE_PARALLEL="2",
        ARKE_METADATA='{"a": 1}',
        ARKE_PROCESSING='{"ocr": false}',
    )
    assert ran.returncode == 0, ran.stderr
    (batch,) = stand_in.closed()
    assert (batch["uploader"], batch["root_path"], batch["metadata"]) == ("ana", "/fonds", {"a": 1})
    assert batch["files"][0]["processing_config"]["ocr"] is False


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nowhere", "--to", "http://127.0.0.1:9"), 2),
        (("in",), 2),
        (("in", "--to", "ftp://host"), 1),
        (("in", "--to", "http://user:pass@host"), 1),
        (("in", "--to", "http://127.0.0.1:9", "--metadata", "{oops"), 1),
        (("in", "--to", "http://127.0.0.1:9", "--processing", '{"ocr": 1}'), 1),
        (("in", "--to", "http://127.0.0.1:9", "--root-path", "a/b"), 1),
        (("in", "--to", "http://127.0.0.1:9", "--parent", "abc"), 1),
    ],
)
def test_what_cannot_be_asked_for_is_told_at_once(quire, folder, arguments, code):
    ran = quire("upload", *arguments)
    assert ran.returncode == code
    assert ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_configuration_that_cannot_be_read_stops_everything_by_name(quire, folder, stand_in):
    write(folder / "box 7" / ".arke-process.json", b"{oops")
    ran = quire("upload", str(folder), "--to", stand_in.url)
    assert ran.returncode == 1
    assert "box 7/.arke-process.json" in ran.stderr
    assert stand_in.requests == []


def test_the_words_of_a_server_do_not_steer_the_terminal(quire, folder, stand_in):
    words = json.dumps({"error": "no \x1b[2J more \u202e batches"}).encode()
    stand_in.faults.append(Fault("init", status=400, body=words))
    ran = quire("upload", str(folder), "--to", stand_in.url)
    assert ran.returncode == 1
    assert "\x1b" not in ran.stderr
    assert "\u202e" not in ran.stderr
    assert "batches" in ran.stderr
