"""The published clients' own calls, against the server as a process, on local files and on S3. No conductor
runs: the message and the manifest that a batch leaves are read as the next stage would find them.
"""

import hashlib
import http.client
import json
import random
import re
from urllib.parse import urlsplit

import pytest
from tests.acceptance.ingest.clients import CLIENTS, CONFIG, MIB, ORIGIN, CommandLine, Item, Refused, Sdk, ask
from tests.acceptance.ingest.home import (
    BATCH,
    PREPROCESS,
    at_home,
    blob,
    blobs,
    keys_below,
    manifest,
    messages,
)

pytestmark = pytest.mark.slow
ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
OTHER = {"ocr": False, "describe": True, "pinax": False, "reorganize": False, "x-ours": {"depth": 1}}
NAMES = (
    "page 001.tif",
    "two  blanks .txt",
    "a+b.txt",
    "c#1.txt",
    "100%.txt",
    "d%20e.txt",
    "%2e%2e",
    "l'été.txt",
    "e\u0301te\u0301.txt",  # the same to the eye, other letters
    "古文書.jpg",
    "🗞 news.webp",
    "a&b=c;d,e@f!g$h(i)[j]{k}~^`.bin",
    ".hidden",
    "README",
    "notes.md",
    "x.ref.json",
)
# Where simple ends, one part, two parts, a last part of one byte.
SIZES = (1, 5 * MIB - 1, 5 * MIB, 6 * MIB, 12_000_000, 20 * MIB + 1)


@pytest.fixture(params=list(CLIENTS))
def client(request, still):
    return CLIENTS[request.param](still.url)


def bytes_of(size):
    return random.Random(size).randbytes(size)


def item(path, size=100, content_type="text/plain", config=CONFIG):
    return Item(path, random.Random(path).randbytes(size), content_type, config)


def status(client):
    reply = ask("GET", client.url + client.at("status"), {"Accept": "*/*"})
    assert reply.status == 200
    return reply.json()


def refusal(act, *arguments):
    with pytest.raises(Refused) as caught:
        act(*arguments)
    return caught.value.reply


def described(batch, sent, *, config=None):
    """The manifest's entry of a file, without what is ours alone."""
    made = {
        "r2_key": f"staging/{batch}{sent.path}",
        "logical_path": sent.path,
        "file_name": sent.name,
        "file_size": len(sent.data),
        "content_type": sent.content_type,
        "cid": sent.cid,
    }
    return made if config is None else made | {"processing_config": config}


def without_digests(listed, items):
    """`sha256` is an addition of ours: not everywhere, but never wrong."""
    digests = {one.path: hashlib.sha256(one.data).hexdigest() for one in items}
    for folder in listed["directories"]:
        for entry in folder["files"]:
            assert entry.pop("sha256", None) in {None, digests[entry["logical_path"]]}
    return listed


def test_awkward_names_arrive_as_they_are(client, still):
    items = [item(f"/fonds/box 7/{name}") for name in NAMES]
    client.init(items, "/fonds/box 7")
    client.send_all(items)
    answer = client.finalize()
    total = sum(len(one.data) for one in items)
    assert answer == {
        "batch_id": client.batch,
        "status": "preprocessing",
        "files_uploaded": len(items),
        "total_bytes": total,
        "r2_prefix": f"staging/{client.batch}/",
    }
    keys = [f"staging/{client.batch}{one.path}" for one in items]
    assert blobs(still, keys) == [one.data for one in items]
    assert set(keys_below(still, f"staging/{client.batch}")) == {
        *keys,
        f"staging/{client.batch}/_manifest.json",
    }
    (folder,) = without_digests(manifest(still, client.batch), items)["directories"]
    ordered = sorted(items, key=lambda one: one.path)
    assert folder["files"] == [described(client.batch, one) for one in ordered]


def test_sizes_around_the_limits(client, still):
    items = [Item(f"/scans/{size}.tif", bytes_of(size), "image/tiff") for size in SIZES]
    client.init(items)
    client.send_all(items)
    assert client.finalize()["total_bytes"] == sum(SIZES)
    said = {one["file_name"]: one for one in status(client)["files"]}
    assert [said[one.name]["upload_type"] for one in items] == ["simple"] * 2 + ["multipart"] * 4
    for one in items:
        assert blob(still, said[one.name]["r2_key"]) == one.data, one.name


@pytest.mark.parametrize(("size", "urls"), [(5 * MIB, 1), (6 * MIB, 1), (12_000_000, 2), (20 * MIB + 1, 3)])
def test_a_large_file_has_a_url_for_each_ten_mebibytes(still, size, urls):
    client = CommandLine(still.url)
    large = item("/a.tif")
    client.init([large])
    ticket = client.post(client.at("files/start"), large.announcement() | {"file_size": size})
    assert set(ticket) == {"r2_key", "upload_type", "upload_id", "part_size", "presigned_urls"}
    assert ticket["part_size"] == 10_485_760
    assert [one["part_number"] for one in ticket["presigned_urls"]] == list(range(1, urls + 1))
    assert all(set(one) == {"part_number", "url"} for one in ticket["presigned_urls"])


def test_the_key_is_raw_and_the_url_escaped(still):
    client = CommandLine(still.url)
    awkward = item("/fonds/l'été #1 100%+.txt")
    client.init([awkward])
    ticket = client.start(awkward)
    assert set(ticket) == {"r2_key", "upload_type", "presigned_url"}
    assert ticket["r2_key"] == f"staging/{client.batch}{awkward.path}"
    assert ticket["presigned_url"].isascii()
    assert " " not in ticket["presigned_url"]
    assert "#" not in ticket["presigned_url"]


def test_message_and_manifest_field_by_field(still):
    """Folders in order, and only those that hold files; a file's own configuration only where it differs."""
    client = CommandLine(still.url)
    items = [
        item("/b/2.txt"),
        item("/b/1.txt", config=OTHER),
        item("/b-c/3.txt", config=OTHER),
        item("/b/d/4.txt"),
        item("/top.txt", content_type="text/markdown"),
        item("/B/5.txt"),
    ]
    prompts = {"general": "Cartes en català", "pinax": "local terms"}
    metadata = {"shelf": "B7", "nested": {"n": [1, 2.5, None, True]}, "é": "ü"}
    client.init(items, "/", parent_pi=None, metadata=metadata, custom_prompts=prompts)
    client.send_all(items)
    client.finalize()
    total = sum(len(one.data) for one in items)
    (message,) = messages(still, PREPROCESS, client.batch)
    said = status(client)
    assert message == {
        "batch_id": client.batch,
        "manifest_r2_key": f"staging/{client.batch}/_manifest.json",
        "r2_prefix": f"staging/{client.batch}/",
        "uploader": "ana@example.org",
        "root_path": "/",
        "parent_pi": ORIGIN,
        "total_files": 6,
        "total_bytes": total,
        "uploaded_at": said["created_at"],
        "finalized_at": said["enqueued_at"],
        "metadata": metadata,
        "custom_prompts": prompts,
    }
    assert blob(still, message["manifest_r2_key"]).startswith(b'{\n  "batch_id"')
    named = {one.path: one for one in items}

    def folder(path, config, *files):
        return {
            "directory_path": path,
            "processing_config": config,
            "file_count": len(files),
            "total_bytes": sum(len(named[one["logical_path"]].data) for one in files),
            "files": list(files),
        }

    def entry(path, config=None):
        return described(client.batch, named[path], config=config)

    assert without_digests(manifest(still, client.batch), items) == {
        "batch_id": client.batch,
        "directories": [
            folder("/", CONFIG, entry("/top.txt")),
            folder("/B", CONFIG, entry("/B/5.txt")),
            folder("/b", OTHER, entry("/b/1.txt"), entry("/b/2.txt", CONFIG)),
            folder("/b-c", OTHER, entry("/b-c/3.txt")),
            folder("/b/d", CONFIG, entry("/b/d/4.txt")),
        ],
        "total_files": 6,
        "total_bytes": total,
    }


def test_the_message_is_sent_though_no_conductor_runs(still):
    """Whoever reads the queue need not be one of us."""
    client = CommandLine(still.url)
    client.init([item("/a.txt")])
    client.upload(item("/a.txt"))
    client.finalize()

    async def arrives(office):
        for _ in range(20):
            lying = await office.queues.peek(PREPROCESS, limit=10_000, now=office.clock.now())
            if found := [one for one in lying if one.id == f"start-{client.batch}"]:
                return found
            await office.queues.wait([PREPROCESS], seconds=1)
        return []

    assert len(at_home(still, arrives)) == 1
    assert at_home(still, lambda office: office.outbox.list_unsent(10)) == []


def test_without_prompts_the_message_has_none(still):
    client = Sdk(still.url)
    client.init([item("/a.txt")])
    client.upload(item("/a.txt"))
    client.finalize()
    (message,) = messages(still, PREPROCESS, client.batch)
    assert "custom_prompts" not in message
    assert message["metadata"] == {}


def test_status_field_by_field(still):
    client = Sdk(still.url)
    done, open_ = item("/fonds/a.txt", 1200), item("/fonds/b.txt", 5 * MIB)
    client.init([done, open_], "/fonds", metadata={"shelf": "B7"})
    client.upload(done)
    ticket = client.start(open_)
    said = status(client)
    assert ULID.fullmatch(said["batch_id"])
    assert ULID.fullmatch(said["session_id"].removeprefix("sess_"))
    assert MOMENT.fullmatch(said["created_at"])
    files = said.pop("files")
    assert MOMENT.fullmatch(files[0].pop("completed_at"))

    def line(sent, kind, state):
        return described(client.batch, sent, config=CONFIG) | {"upload_type": kind, "status": state}

    assert files == [line(done, "simple", "completed"), line(open_, "multipart", "uploading")]
    assert files[1]["r2_key"] == ticket["r2_key"]
    assert said == {
        "batch_id": client.batch,
        "session_id": said["session_id"],
        "status": "uploading",
        "uploader": "ana@example.org",
        "root_path": "/fonds",
        "parent_pi": ORIGIN,
        "file_count": 2,
        "files_uploaded": 1,
        "total_size": 1200 + 5 * MIB,
        "total_bytes_uploaded": 1200,
        "created_at": said["created_at"],
        "enqueued_at": None,
        "metadata": {"shelf": "B7"},
        "custom_prompts": {},
    }


def test_the_sdk_finalizes_though_a_file_failed(still):
    client = Sdk(still.url)
    good, bad = item("/a.txt"), item("/scans/b é.jpg", 6 * MIB)
    client.init([good, bad])
    client.upload(good)
    ticket = client.start(bad)
    refused = refusal(client.finalize)
    assert refused.status == 400
    assert refused.json() == {"error": "Not all files completed", "incomplete": ["b é.jpg"]}
    assert messages(still, PREPROCESS, client.batch) == []
    # Then it can give the file up, or say that it does not matter.
    reply = ask(
        "DELETE",
        client.url + client.at("files"),
        {**client.headers, "Content-Type": "application/json", "Content-Length": "200"},
        json.dumps({"r2_key": ticket["r2_key"]}).encode().ljust(200),
    )
    assert (reply.status, reply.json()) == (200, {"success": True})
    answer = client.finalize()
    assert answer["files_uploaded"] == 1
    assert len(answer["warnings"]) == 2
    assert len(messages(still, PREPROCESS, client.batch)) == 1


def test_incomplete_files_can_be_left_out(still):
    client = Sdk(still.url)
    good = item("/a.txt")
    client.init([good])
    client.upload(good)
    client.start(item("/b.txt"))
    client.start(item("/c.txt", 6 * MIB))
    answer = client.post(client.at("finalize"), {"skip_incomplete": True})
    assert (answer["files_uploaded"], answer["total_bytes"]) == (1, 100)
    assert [one["file_name"] for one in status(client)["files"]] == ["a.txt"]


def test_a_batch_without_files_is_not_closed(client):
    client.init([item("/a.txt")])
    refused = refusal(client.finalize)
    assert (refused.status, refused.json()) == (400, {"error": "No files uploaded in this batch"})


@pytest.mark.parametrize(
    ("method", "path", "body", "answered"),
    [
        ("GET", "/nowhere", b"", (404, {"error": "Not found"})),
        ("GET", "/api/batches/01KA0000000000000000000000/status", b"", (404, {"error": "Batch not found"})),
        (
            "POST",
            "/api/batches/01KA0000000000000000000000/finalize",
            b"",
            (404, {"error": "Batch not found"}),
        ),
        (
            "POST",
            "/api/batches/01KA0000000000000000000000/files/start",
            b"{}",
            (404, {"error": "Batch not found"}),
        ),
        ("POST", "/api/batches/init", b"{", (400, {"error": "Invalid JSON body"})),
        ("POST", "/api/batches/init", b"", (400, {"error": "Invalid JSON body"})),
        ("POST", "/api/batches/init", b"\xff\xfe", (400, {"error": "Invalid JSON body"})),
        ("POST", "/api/batches/init", b"{}", (400, {"error": "Missing or invalid uploader"})),
    ],
)
def test_every_error_is_json(api_only, method, path, body, answered):
    headers = {**Sdk.headers, "Content-Type": "application/json", "Content-Length": str(len(body))}
    reply = ask(method, api_only.url + path, headers, body)
    assert (reply.status, reply.json()) == answered
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("path", ["/blobs/altered.token", "/nowhere", "/api/batches/init"])
def test_who_is_refused_before_all_was_sent_can_go_on_with_the_connection(api_only, path):
    """Node keeps connections: an answer without the body being read must not upset the next request."""
    parts = urlsplit(api_only.url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    try:
        for _ in range(3):
            connection.request("PUT" if "blobs" in path else "POST", path, body=bytes(4 * MIB))
            refused = connection.getresponse()
            assert refused.status in {403, 404, 413}
            assert json.loads(refused.read())["error"]
            connection.request("GET", "/")
            assert connection.getresponse().read().endswith(b'"healthy"}')
    finally:
        connection.close()


def test_a_method_that_is_not_served_is_refused_as_json(api_only):
    reply = ask("GET", api_only.url + "/api/batches/init", Sdk.headers)
    assert reply.status == 405
    assert reply.json()["error"]


@pytest.mark.parametrize(
    "path", ["init", "01KA/files/start", "01KA/files/complete", "01KA/finalize", "01KA/status"]
)
def test_browsers_may_ask_from_anywhere(api_only, path):
    asked = {
        "Origin": "https://archive.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-user-id",
    }
    reply = ask("OPTIONS", f"{api_only.url}/api/batches/{path}", asked)
    assert 200 <= reply.status < 300
    assert reply.headers["access-control-allow-origin"] == "*"
    assert reply.headers["access-control-max-age"] == "86400"
    allowed = {one.strip().lower() for one in reply.headers["access-control-allow-headers"].split(",")}
    assert {"content-type", "authorization", "x-user-id", "idempotency-key"} <= allowed
    methods = {one.strip() for one in reply.headers["access-control-allow-methods"].split(",")}
    assert {"GET", "POST", "PUT", "OPTIONS"} <= methods


def test_a_browser_may_put_and_read_the_etag(api_only):
    """On local files the URLs are ours; those of a bucket answer as the bucket is configured."""
    client = Sdk(api_only.url)
    sent = item("/a é.txt")
    client.init([sent])
    url = client.start(sent)["presigned_url"]
    origin = {"Origin": "https://archive.example"}
    asked = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "content-type"}
    before = ask("OPTIONS", url, {**origin, **asked})
    assert 200 <= before.status < 300
    assert "PUT" in before.headers["access-control-allow-methods"]
    assert "content-type" in before.headers["access-control-allow-headers"].lower()
    reply = ask("PUT", url, {**origin, "Content-Type": "text/plain", "Content-Length": "100"}, sent.data)
    assert reply.status == 200
    assert reply.headers["etag"]
    assert "etag" in reply.headers["access-control-expose-headers"].lower()
    assert reply.headers["access-control-allow-origin"] == "*"


# The published preprocessing orchestrator.


def uploaded(still, *items):
    client = CommandLine(still.url)
    client.init(items, "/fonds", custom_prompts={"general": "Letters"}, metadata={"shelf": "B7"})
    client.send_all(items)
    client.finalize()
    return client


def processed(client, *files):
    body = json.dumps({"files": list(files)}).encode()
    headers = {
        "Accept": "application/json, text/plain, */*",
        "Content-Type": "application/json",
        "User-Agent": "axios/1.13.2",
        "Content-Length": str(len(body)),
    }
    return ask("POST", client.url + client.at("enqueue-processed"), headers, body)


def reference(batch, name="p1.jpg"):
    path = f"/fonds/{name}.ref.json"
    return {
        "r2_key": f"staging/{batch}{path}",
        "logical_path": path,
        "file_name": f"{name}.ref.json",
        "file_size": 212,
        "content_type": "application/json",
        "processing_config": CONFIG,
        "source_file": name,
        "preprocessor_tags": ["ImageProcessor"],
    }


def test_the_orchestrator_hands_its_files_back(still):
    scan = item("/fonds/p1.tif", 6 * MIB, "image/tiff")
    client = uploaded(still, scan)
    (start,) = messages(still, PREPROCESS, client.batch)
    first = blob(still, start["manifest_r2_key"])
    source = described(client.batch, scan, config=CONFIG) | {"preprocessor_tags": ["TiffConverter:source"]}
    made = reference(client.batch)
    bare = {
        "r2_key": f"staging/{client.batch}/fonds/a.bin",
        "logical_path": "/fonds/a.bin",
        "file_name": "a.bin",
        "file_size": 7,
        "content_type": "application/octet-stream",
    }
    reply = processed(client, source, made, bare)
    expected = {"success": True, "batch_id": client.batch, "status": "enqueued", "total_files": 3}
    assert (reply.status, reply.json()) == (200, expected)
    assert blob(still, f"staging/{client.batch}/_manifest.original.json") == first
    total = 6 * MIB + 212 + 7
    nothing = {"ocr": False, "describe": False, "pinax": False}
    plain = [
        {name: value for name, value in one.items() if name != "processing_config"} for one in (made, source)
    ]
    assert manifest(still, client.batch) == {
        "batch_id": client.batch,
        "directories": [
            {
                "directory_path": "/fonds",
                "processing_config": nothing,
                "file_count": 3,
                "total_bytes": total,
                "files": [bare, *(one | {"processing_config": CONFIG} for one in plain)],
            }
        ],
        "total_files": 3,
        "total_bytes": total,
    }
    (message,) = messages(still, BATCH, client.batch)
    assert message == start | {"total_files": 3, "total_bytes": total}
    said = status(client)
    assert (said["status"], said["files_uploaded"], said["total_bytes_uploaded"]) == ("enqueued", 3, total)
    assert [one["file_name"] for one in said["files"]] == ["a.bin", "p1.jpg.ref.json", "p1.tif"]
    assert said["files"][1]["source_file"] == "p1.jpg"
    assert said["files"][2]["preprocessor_tags"] == ["TiffConverter:source"]


@pytest.mark.parametrize(
    "change",
    [
        {"r2_key": "staging/01KA0000000000000000000000/fonds/p1.jpg.ref.json"},
        {"r2_key": "archive/p1.jpg.ref.json"},
        {"r2_key": "staging/{batch}/../other/p1.jpg.ref.json"},
        {"r2_key": "staging/{batch}/_manifest.json"},
        {"r2_key": "staging/{batch}//fonds/p1.jpg.ref.json"},
        {"r2_key": "staging/{batch}/fonds/p1.jpg.ref.json/"},
        {"r2_key": 7},
        {"logical_path": "/fonds/../p1.jpg.ref.json"},
        {"logical_path": "/fonds/other.json"},
        {"file_size": -1},
        {"file_size": "212"},
        {"preprocessor_tags": "ImageProcessor"},
        {"source_file": 3},
        {"processing_config": "all"},
    ],
    ids=str,
)
def test_what_the_orchestrator_may_not_say(api_only, change):
    client = uploaded(api_only, item("/fonds/p1.txt"))
    made = reference(client.batch)
    change = {
        name: value.format(batch=client.batch) if isinstance(value, str) else value
        for name, value in change.items()
    }
    reply = processed(client, made | change)
    assert reply.status == 400, reply.body
    assert reply.json()["error"].startswith("files[0]: ")
    assert status(client)["status"] == "preprocessing"
    assert messages(api_only, BATCH, client.batch) == []
    assert manifest(api_only, client.batch)["total_files"] == 1
    assert processed(client, made).status == 200


def test_the_orchestrator_must_name_files_and_wait_for_its_turn(still):
    client = CommandLine(still.url)
    sent = item("/fonds/p1.txt")
    client.init([sent])
    early = processed(client, reference(client.batch))
    assert (early.status, early.json()) == (
        400,
        {"error": "Invalid batch state: uploading, expected preprocessing"},
    )
    client.upload(sent)
    client.finalize()
    none = processed(client)
    assert none.status == 400
    assert none.json()["error"]
    twice = processed(client, reference(client.batch), reference(client.batch))
    assert twice.status == 400
    assert status(client)["status"] == "preprocessing"
