"""Following a batch and intervening: what is told of it is true, complete and goes on where it stopped."""

import io
import json
import zipfile
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import bagit
import httpx
import pytest
from tests.acceptance.ingest.conftest import serving
from tests.acceptance.ingest.described import Described
from tests.acceptance.ingest.home import at_home
from tests.acceptance.ingest.sender import Sender

from quire.queues.port import Message

SAMPLES = Path(__file__).parents[3] / "samples" / "collection"
FILES = {
    "/fonds/a é+#%.tif": ("image/tiff", SAMPLES / "photos" / "portrait.tif"),
    "/fonds/broken/corrupt.tif": ("image/tiff", SAMPLES / "broken" / "corrupt.tif"),
    "/fonds/broken/half.jpg": ("image/jpeg", SAMPLES / "broken" / "half a photo.jpg"),
    "/fonds/notes.txt": ("text/plain", SAMPLES / "broken" / "letter.tif"),
}
OUTCOMES = {
    "/fonds/a é+#%.tif": ("done", None),
    "/fonds/broken/corrupt.tif": ("failed", "corrupt"),
    "/fonds/broken/half.jpg": ("failed", "truncated"),
    "/fonds/notes.txt": ("skipped", "not_handled"),
}


@pytest.fixture(scope="module")
def working(tmp_path_factory):
    """On local files, with a conductor and one worker, shared by the tests of this module."""
    with serving(tmp_path_factory.mktemp("working"), {}, "--workers", "1") as running:
        yield running


def _client(server):
    described = Described(httpx.get(f"{server.url}/openapi.json").raise_for_status().json())
    return server.client(event_hooks={"response": [described]})


@pytest.fixture(scope="module")
def client(working):
    with _client(working) as made:
        yield made


@pytest.fixture(scope="module")
def still_client(api_only):
    with _client(api_only) as made:
        yield made


def sent(client, files=FILES, **said):
    sizes = [path.stat().st_size for _, path in files.values()]
    batch = Sender(client, root_path="/fonds", file_count=len(files), total_size=sum(sizes), **said)
    for name, (kind, path) in files.items():
        url = batch.start(name, path.stat().st_size, content_type=kind).json()["presigned_url"]
        assert httpx.put(url, content=path.read_bytes()).status_code == 200
        assert batch.complete(name).json() == {"success": True}
    return batch


def events(client, batch, after=None, until=None, **options):
    """What the stream says, to its end or up to an event of this kind: (number, kind, data)."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    found = []
    with client.stream("GET", f"{batch.at}/events", headers=headers, **options) as stream:
        assert stream.status_code == 200
        for text in _blocks(stream.iter_lines()):
            fields = dict(line.split(": ", 1) for line in text if not line.startswith(":"))
            if "event" in fields:
                number = int(fields["id"]) if "id" in fields else None
                found.append((number, fields["event"], json.loads(fields["data"])))
                if fields["event"] == until:
                    break
    return found


def _blocks(lines):
    block = []
    for line in lines:
        if line:
            block.append(line)
        else:
            yield block
            block = []


def numbered(found):
    return [(number, kind) for number, kind, _ in found if number is not None]


@pytest.fixture(scope="module")
def done(client):
    """Ended, with a file of every kind of end."""
    batch = sent(client, metadata={"shelf": "B7"})
    assert batch.finalize().json() == {
        "batch_id": batch.id,
        "status": "preprocessing",
        "files_uploaded": 4,
        "total_bytes": sum(path.stat().st_size for _, path in FILES.values()),
        "r2_prefix": f"staging/{batch.id}/",
    }
    assert events(client, batch)[-1][1] == "end"
    return batch


def test_the_status_of_the_upload_protocol(done):
    status = done.status()
    assert status["status"] == "enqueued"
    assert status["files_uploaded"] == status["file_count"] == 4
    assert status["total_bytes_uploaded"] == status["total_size"]
    assert (status["metadata"], status["custom_prompts"]) == ({"shelf": "B7"}, {})
    assert status["parent_pi"] == "0" * 26
    assert "error" not in status
    for name in ("created_at", "enqueued_at"):
        assert datetime.fromisoformat(status[name]).utcoffset().total_seconds() == 0
    # What the phases have left: the reference beside the picture that was made of the good scan.
    assert {file["logical_path"]: file["content_type"] for file in status["files"]} == {
        name: kind for name, (kind, _) in FILES.items()
    } | {"/fonds/a é+#%.jpg.ref.json": "application/json"}
    for file in status["files"]:
        assert (file["status"], file["upload_type"]) == ("completed", "simple")
        if file["logical_path"] in FILES:  # what was made lies under the key of its content
            assert file["r2_key"] == done.key(file["logical_path"])


def test_the_status_of_the_preprocessing_service_and_of_the_unified_one(client, done):
    status = client.get(f"/status/{done.id}").json()
    assert (status["status"], status["stage"], status["phase"]) == ("DONE", "queue_orchestrator", "DONE")
    assert status["progress"] == {"tasks_total": 2, "tasks_completed": 1, "tasks_failed": 1}
    assert {name: (one["total"], one["failed"]) for name, one in status["phases"].items()} == {
        "PDF_SPLIT": (0, 0),
        "TIFF_CONVERSION": (2, 1),
        "IMAGE_PROCESSING": (2, 1),
    }
    assert status["failures"] == {"corrupt": 1, "truncated": 1}
    assert {task["input_r2_key"] for task in status["failed_tasks"]} == {
        done.key("/fonds/broken/corrupt.tif"),
        done.key("/fonds/broken/half.jpg"),
    }
    assert status["results"] == {}
    assert status["started_at"] <= status["updated_at"] <= status["completed_at"]
    assert "error" not in status
    assert "raw" not in status
    raw = client.get(f"/status/{done.id}", params={"include_raw": "true"}).json()["raw"]
    assert raw["status"] == "DONE"


def test_a_batch_that_is_open_says_so_in_both(still_client):
    batch = Sender(still_client)
    assert batch.status()["status"] == "uploading"
    assert batch.status()["enqueued_at"] is None
    status = still_client.get(f"/status/{batch.id}").json()
    assert (status["status"], status["stage"]) == ("OPEN", "ingest")
    assert "completed_at" not in status
    batch.send("/a.txt", b"12345")
    batch.finalize()
    assert batch.status()["status"] == "preprocessing"
    assert still_client.get(f"/status/{batch.id}").json()["stage"] == "queue_preprocessing"


def test_the_logs_tell_every_change_in_order(client, done):
    logs = client.get(f"/logs/{done.id}").json()
    assert logs["log_count"] == len(logs["logs"])
    assert [one["timestamp"] for one in logs["logs"]] == sorted(one["timestamp"] for one in logs["logs"])
    stages = [one["stage"] for one in logs["logs"] if one["status_changed"]]
    assert list(dict.fromkeys(stages)) == ["queue_preprocessing", "preprocessing", "queue_orchestrator"]
    assert logs["logs"][0]["worker_response"]["event"] == "batch_opened"


def test_files_come_page_by_page_with_their_ends(client, done):
    found, after, pages = [], None, 0
    while pages == 0 or after is not None:
        said = {"limit": 3} | ({} if after is None else {"after": after})
        page = client.get(f"{done.at}/files", params=said).json()
        found, after, pages = found + page["files"], page["next"], pages + 1
    assert pages == 2
    assert {one["path"]: (one["status"], one["error_class"]) for one in found} == OUTCOMES
    assert [one["path"] for one in found] == sorted(OUTCOMES)
    for one in found:
        assert (one["reason"] is None) == (one["status"] == "done")
        assert bool(one["outputs"]) == (one["status"] == "done")


@pytest.mark.parametrize(
    ("said", "paths"),
    [
        ({"state": "failed"}, ["/fonds/broken/corrupt.tif", "/fonds/broken/half.jpg"]),
        ({"state": "failed", "error_class": "truncated"}, ["/fonds/broken/half.jpg"]),
        ({"error_class": "corrupt"}, ["/fonds/broken/corrupt.tif"]),
        ({"state": "done"}, ["/fonds/a é+#%.tif"]),
        ({"state": "skipped"}, ["/fonds/notes.txt"]),
        ({"state": "pending"}, []),
        ({"error_class": "nothing like it"}, []),
        ({"after": "/fonds/broken/corrupt.tif"}, ["/fonds/broken/half.jpg", "/fonds/notes.txt"]),
        ({"after": "/zzz"}, []),
    ],
)
def test_files_are_chosen_by_their_end(client, done, said, paths):
    page = client.get(f"{done.at}/files", params=said).json()
    assert [one["path"] for one in page["files"]] == paths
    assert page["next"] is None


@pytest.mark.parametrize(
    "said", [{"limit": "0"}, {"limit": "1001"}, {"limit": "x"}, {"limit": "٣"}, {"state": "Done"}]
)
def test_a_wrong_choice_is_told(client, done, said):
    assert client.get(f"{done.at}/files", params=said).status_code == 400


def test_the_history_of_a_file_has_every_attempt(client, done):
    story = client.get(f"{done.at}/files/history", params={"path": "/fonds/a é+#%.tif"}).json()
    assert [one["role"] for one in story["files"]][:2] == ["input", "jpeg"]
    assert [one["phase"] for one in story["attempts"]] == ["TIFF_CONVERSION", "IMAGE_PROCESSING"]
    assert {one["outcome"] for one in story["attempts"]} == {"done"}
    # Of a file that was made it is the history of what it was made of.
    of_made = client.get(f"{done.at}/files/history", params={"path": "/fonds/a é+#%.jpg"}).json()
    assert of_made == story
    failed = client.get(f"{done.at}/files/history", params={"path": "/fonds/broken/half.jpg"}).json()
    assert failed["file"]["error_class"] == "truncated"
    assert [one["error_class"] for one in failed["attempts"]] == ["truncated"]


def test_batches_are_listed_newest_first_by_pages_and_by_state(still_client):
    made = []
    for number in range(5):
        batch = Sender(still_client, uploader=f"page-{number}")
        made.append(batch.id)
        if number % 2:
            assert still_client.post(f"/admin/cancel/{batch.id}").status_code == 200
    listed, before = [], None
    while before is not None or not listed:
        said = {"limit": 2} | ({} if before is None else {"before": before})
        page = still_client.get("/api/batches", params=said).json()
        assert len(page["batches"]) <= 2
        listed, before = listed + page["batches"], page["next"]
    ids = [one["batch_id"] for one in listed]
    assert [one for one in ids if one in made] == made[::-1]
    assert len(set(ids)) == len(ids)
    assert all(newer["no"] > older["no"] for newer, older in pairwise(listed))

    def chosen(**said):
        page = still_client.get("/api/batches", params={"limit": 1000} | said).json()
        return [one["batch_id"] for one in page["batches"] if one["batch_id"] in made]

    assert chosen(ended="true") == [made[3], made[1]] == chosen(state="cancelled")
    assert chosen(ended="false") == [made[4], made[2], made[0]] == chosen(state="receiving")
    assert chosen(state="held") == chosen(tenant="nobody") == chosen(phase="IMAGE_PROCESSING") == []
    assert {one["state"] for one in listed if one["batch_id"] in made} == {"receiving", "cancelled"}
    for said, words in (
        ({"state": "DONE"}, "known are receiving, waiting, working, paused, held, done, error, cancelled"),
        ({"state": ""}, "known are receiving"),
        ({"phase": "nothing like it"}, "There is no phase 'nothing like it'; known are"),
        ({"phase": "a\x00"}, "phase holds a NUL character"),
        ({"status": "DONE"}, "by state (?state=done)"),
        ({"ended": "perhaps"}, "ended is true or false"),
    ):
        answer = still_client.get("/api/batches", params=said)
        assert (answer.status_code, words in answer.text) == (400, True), answer.text


def test_events_go_on_exactly_after_the_last_one_seen(client, done):
    whole = events(client, done)
    story = numbered(whole)
    assert [kind for _, kind in story][:2] == ["batch_opened", "batch_finalized"]
    assert story[-1][1] == "batch_done"
    assert [number for number, _ in story] == sorted({number for number, _ in story})
    for place, (number, _) in enumerate(story):
        rest = events(client, done, after=number)
        assert numbered(rest) == story[place + 1 :]
        assert rest[-1][1] == "end"
    for nonsense in ("x", "-1", "", "9" * 30):
        assert numbered(events(client, done, after=nonsense)) == story
    by_query = events(client, done, params={"after": story[1][0]})
    assert numbered(by_query) == story[2:]


def test_who_was_cut_off_in_the_middle_misses_nothing_and_sees_nothing_twice(client):
    batch = sent(client, {"/fonds/notes.txt": FILES["/fonds/notes.txt"]})
    early = events(client, batch, until="progress")
    assert numbered(early)[-1][1] == "batch_opened"
    assert early[-1][2]["status"] == "OPEN"
    batch.finalize().raise_for_status()
    middle = events(client, batch, after=numbered(early)[-1][0], until="batch_started")
    late = events(client, batch, after=numbered(middle)[-1][0])
    assert numbered(early) + numbered(middle) + numbered(late) == numbered(events(client, batch))
    assert late[-1][1] == "end"


def test_a_download_gives_the_bytes_and_an_altered_url_does_not(server):
    """On local files and from S3."""
    with server.client() as client:
        name = "/fonds/a é+#%.tif"
        batch = sent(client, {name: FILES[name]})
        batch.finalize().raise_for_status()
        assert events(client, batch)[-1][1] == "end"
        data = FILES[name][1].read_bytes()
        url = client.get(f"{batch.at}/files/download", params={"path": name}).raise_for_status().json()["url"]
        answer = httpx.get(url)
        assert answer.content == data
        assert answer.headers["content-disposition"].startswith("attachment")
        assert "a%20%C3%A9%2B%23%25.tif" in answer.headers["content-disposition"]
        middle = len(url) * 3 // 4
        swapped = "A" if url[middle] != "A" else "B"
        for altered in (f"{url[:middle]}{swapped}{url[middle + 1 :]}", url[:-5]):
            refused = httpx.get(altered)
            assert refused.status_code in {400, 403, 404}
            assert data not in refused.content
        assert httpx.put(url, content=b"other").status_code == 403
        sent_on = client.get(f"{batch.at}/files/download", params={"path": name, "redirect": "true"})
        assert sent_on.status_code == 307
        assert httpx.get(sent_on.headers["location"]).content == data
        made = client.get(f"{batch.at}/files/download", params={"path": "/fonds/a é+#%.jpg"}).json()["url"]
        assert httpx.get(made).content.startswith(b"\xff\xd8\xff")


def _report(data):
    return {one["path"]: (one["status"], one["error_class"]) for one in map(json.loads, data.splitlines())}


def test_the_results_as_one_zip(client, done):
    answer = client.get(f"{done.at}/archive")
    assert answer.headers["content-disposition"] == f'attachment; filename="{done.id}.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert {"fonds/a é+#%.jpg", "fonds/a é+#%.jpg.ref.json", "report.jsonl"} <= set(names)
        assert not set(names) & {name[1:] for name in FILES}
        assert len(set(names)) == len(names)
        assert archive.read("fonds/a é+#%.jpg").startswith(b"\xff\xd8\xff")
        assert json.loads(archive.read("fonds/a é+#%.jpg.ref.json"))["type"] == "image/jpeg"
        assert _report(archive.read("report.jsonl")) == OUTCOMES
    with_inputs = client.get(f"{done.at}/archive", params={"inputs": "true"})
    with zipfile.ZipFile(io.BytesIO(with_inputs.content)) as archive:
        assert set(archive.namelist()) == set(names) | {name[1:] for name in FILES}
        for name, (_, path) in FILES.items():
            assert archive.read(name[1:]) == path.read_bytes()


@pytest.mark.parametrize("inputs", ["true", "false"])
def test_the_results_as_a_bag(client, done, tmp_path, inputs, monkeypatch):
    # A percent sign in a name is written %25 (RFC 8493, 2.1.3), which the library does not know (its issue
    # 157); all else is the library's own judgement.
    read = bagit._decode_filename
    monkeypatch.setattr(bagit, "_decode_filename", lambda name: read(name).replace("%25", "%"))
    answer = client.get(f"{done.at}/archive", params={"format": "bagit", "inputs": inputs})
    assert answer.headers["content-disposition"] == f'attachment; filename="{done.id}-bag.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path)
    bag = bagit.Bag(str(tmp_path / done.id))
    bag.validate()
    assert bag.info["External-Identifier"] == done.id
    assert bag.algorithms == ["sha256"]
    assert ("data/fonds/notes.txt" in bag.entries) == (inputs == "true")
    assert _report((tmp_path / done.id / "data" / "report.jsonl").read_bytes()) == OUTCOMES
    (tmp_path / done.id / "data" / "report.jsonl").write_bytes(b"other")
    assert not bagit.Bag(str(tmp_path / done.id)).is_valid()


def test_a_package_is_of_an_ended_batch_and_of_a_known_form(client, still_client, done):
    assert client.get(f"{done.at}/archive", params={"format": "tar"}).status_code == 400
    assert client.get(f"{done.at}/archive", params={"inputs": "yes"}).status_code == 400
    assert still_client.get(f"{Sender(still_client).at}/archive").status_code == 409


def acted(client, batch, word, **said):
    answer = client.post(f"/admin/{word}/{batch.id}", json=said)
    assert answer.status_code == 200, answer.text
    return answer.json()


def last_act(client, batch):
    event = client.get(f"/logs/{batch.id}").json()["logs"][-1]["worker_response"]
    return event["event"], event["actor"], event["reason"]


def test_no_task_of_a_paused_batch_starts_until_it_is_resumed(client):
    name = "/fonds/broken/half.jpg"
    batch = sent(client, {name: FILES[name]})
    assert acted(client, batch, "pause", reason="wrong box")["ok"]
    assert last_act(client, batch) == ("batch_paused", "anonymous", "wrong box")
    assert client.post(f"/admin/pause/{batch.id}").status_code == 409
    assert client.get(f"/status/{batch.id}").json()["hold"]["reason"] == "wrong box"
    batch.finalize().raise_for_status()
    events(client, batch, until="batch_started")
    assert acted(client, batch, "resume", reason="right box after all")["ok"]
    story = events(client, batch)
    kinds = [kind for number, kind, _ in story if number is not None]
    assert kinds.index("batch_started") < kinds.index("batch_resumed") < kinds.index("batch_done")
    assert client.post(f"/admin/resume/{batch.id}").status_code == 409
    assert client.post(f"/admin/pause/{batch.id}").status_code == 409


def test_a_cancelled_batch_has_failed_for_its_sender(still_client):
    batch = Sender(still_client)
    batch.send("/a.txt", b"12345")
    assert acted(still_client, batch, "cancel", reason="é" * 600)["status"] == "CANCELLED"
    kind, actor, reason = last_act(still_client, batch)
    assert (kind, actor, reason) == ("batch_cancelled", "anonymous", "é" * 500)
    assert batch.status()["status"] == "failed"
    assert still_client.get(f"/status/{batch.id}").json()["stage"] == "error"
    assert still_client.post(f"/admin/cancel/{batch.id}").status_code == 409
    assert batch.start("/b.txt").status_code == 400
    assert batch.finalize().status_code == 400


def test_a_reset_batch_ends_in_error_with_the_words_of_the_protocol(still_client):
    batch = Sender(still_client)
    batch.send("/a.txt", b"12345")
    batch.finalize().raise_for_status()
    answer = acted(still_client, batch, "reset", reason="again")
    assert (answer["ok"], answer["message"], answer["status"]) == (True, "Batch reset", "ERROR")
    assert last_act(still_client, batch) == ("batch_reset", "anonymous", "again")
    assert still_client.get(f"/status/{batch.id}").json()["error"] == "Manually reset by admin"
    assert batch.status()["error"] == "Manually reset by admin"


def attempts(client, batch):
    return {one["path"]: one["attempts"] for one in client.get(f"{batch.at}/files").json()["files"]}


def test_what_failed_is_done_again_and_only_that(client, done):
    """`done` had the same files before, so that good results come from the cache without an attempt."""
    chosen = ("/fonds/a é+#%.tif", "/fonds/broken/corrupt.tif", "/fonds/broken/half.jpg")
    batch = sent(client, {name: FILES[name] for name in chosen})
    batch.finalize().raise_for_status()
    before = numbered(events(client, batch))
    assert attempts(client, batch) == {chosen[0]: 0, chosen[1]: 1, chosen[2]: 1}
    preview = acted(client, batch, "retry", dry_run=True)
    assert (preview["kind"], preview["round"], preview["files"]) == ("new_round", 2, 2)
    assert numbered(events(client, batch)) == before
    narrow = acted(client, batch, "retry", dry_run=True, error_class="truncated")
    assert [(one["error_class"], one["tasks"]) for one in narrow["failed"]] == [("truncated", 1)]
    none = client.post(f"/admin/retry/{batch.id}", json={"error_class": "nothing like it"})
    assert none.status_code == 409
    preview = acted(client, batch, "retry", reason="the disk was full", path="/fonds/broken/half.jpg")
    assert (preview["round"], preview["files"]) == (2, 1)
    later = events(client, batch, after=before[-1][0])
    (retried,) = [data for _, kind, data in later if kind == "batch_retried"]
    assert (retried["data"]["actor"], retried["data"]["reason"]) == ("anonymous", "the disk was full")
    assert later[-1][1] == "end"
    assert attempts(client, batch) == {chosen[0]: 0, chosen[1]: 1, chosen[2]: 2}


@pytest.fixture
def dead(api_only):
    """Three dead letters of two classes in a queue where nobody works."""

    async def dead_letter(office):
        now = office.clock.now()
        for number, error_class in enumerate(("missing", "corrupt", "missing")):
            body = json.dumps({"n": number}).encode()
            message = Message(id=f"dead-{number}", body=body)
            await office.queues.send("arke-batch-jobs", [message], now=now)
            (leased,) = await office.queues.lease("arke-batch-jobs", limit=1, seconds=30, now=now, worker="w")
            await office.queues.dead_letter(leased, now=now, reason="no manifest", error_class=error_class)

    at_home(api_only, dead_letter)
    return "/api/queues/arke-batch-jobs/dead"


def test_dead_letters_are_listed_replayed_and_discarded(still_client, dead):
    listed = still_client.get(dead).json()
    assert listed["classes"] == {"missing": 2, "corrupt": 1}
    assert [one["id"] for one in listed["dead"]] == ["dead-0", "dead-1", "dead-2"]
    assert listed["dead"][0]["body"] == '{"n": 0}'
    assert [
        one["id"] for one in still_client.get(dead, params={"error_class": "corrupt"}).json()["dead"]
    ] == ["dead-1"]
    after = still_client.get(dead, params={"after": listed["dead"][1]["no"]}).json()
    assert [one["id"] for one in after["dead"]] == ["dead-2"]
    for said in (
        {},
        {"all": False},
        {"ids": "dead-1"},
        {"ids": [1]},
        {"all": True, "per_second": -1},
        {"text": 7},
    ):
        assert still_client.post(f"{dead}/replay", json=said).status_code == 400
        if "per_second" not in said:
            assert still_client.post(f"{dead}/discard", json=said).status_code == 400
    assert still_client.post(f"{dead}/replay", json={"ids": ["nobody"]}).status_code == 404
    assert still_client.get(dead).json() == listed
    replayed = still_client.post(
        f"{dead}/replay", json={"error_class": "missing", "reason": "it is there now"}
    )
    assert replayed.json() == {"ok": True, "messages": 2}
    assert [one["id"] for one in still_client.get(dead).json()["dead"]] == ["dead-1"]
    (queue,) = [
        one for one in still_client.get("/api/queues").json()["queues"] if one["queue"] == "arke-batch-jobs"
    ]
    assert (queue["waiting"], queue["dead"]) == (2, 1)
    discarded = still_client.post(f"{dead}/discard", json={"ids": ["dead-1"], "reason": "a test"})
    assert discarded.json() == {"ok": True, "messages": 1}
    assert still_client.get(dead).json() == {"dead": [], "classes": {}}
    trail = still_client.get("/api/audit").json()["events"]
    told = [
        (one["kind"], one["data"]["actor"], one["data"]["reason"], one["data"]["messages"]) for one in trail
    ]
    assert told == [
        ("dead_letters_replayed", "anonymous", "it is there now", 2),
        ("dead_letters_discarded", "anonymous", "a test", 1),
    ]
