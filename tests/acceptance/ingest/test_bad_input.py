"""What must not be taken: each refusal with its status and words, and the batch as it was before."""

import asyncio
import json
import re
import socket
from contextlib import contextmanager
from urllib.parse import quote, urlsplit

import httpx
import pytest
from tests.acceptance.ingest.conftest import serving
from tests.acceptance.ingest.described import Described
from tests.acceptance.ingest.home import settings_of
from tests.acceptance.ingest.sender import Sender, bytes_of

from quire.api.app import ROUTES
from quire.assembly.secrets import load_signing_secret
from quire.blobs.local.presigned_uploads import LocalPresignedUploads
from quire.testing.time import FakeClock

MIB = 1 << 20
ORIGIN = "http://elsewhere.example"
UNKNOWN = "01KA0000000000000000000000"


@pytest.fixture(scope="module")
def document(api_only):
    return httpx.get(f"{api_only.url}/openapi.json").raise_for_status().json()


def _guarded(response):
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.status_code < 500, response.read()


@pytest.fixture(scope="module")
def api(api_only, document):
    hooks = [Described(document), _guarded]
    with api_only.client(event_hooks={"response": hooks}) as client:
        yield client


@pytest.fixture(scope="module")
def batch(api):
    """A file is there, one is awaited, one is awaited in parts; and no test here changes that."""
    made = Sender(api, file_count=3)
    made.send("/fonds/there.txt", b"12345")
    made.start("/fonds/awaited.txt").raise_for_status()
    made.start("/fonds/parts.bin", 6 * MIB).raise_for_status()
    return made


@contextmanager
def unchanged(*batches):
    before = [batch.status() for batch in batches]
    yield
    assert [batch.status() for batch in batches] == before


def told(response, status, words):
    assert (response.status_code, response.json()) == (status, {"error": words})


def problem(response, status):
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["status"] == status


def raw(server, head: str, body: bytes = b"", *, hold: bool = False) -> bytes:
    """Bytes on the wire as they are; the answer to them. Unless `hold`, nothing more can come from us."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        if not hold:
            line.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := line.recv(65536):
            answer += piece
            if hold:
                break
        return answer


INIT = [
    ({"uploader": ""}, "Missing or invalid uploader"),
    ({"uploader": 7}, "Missing or invalid uploader"),
    ({"root_path": "fonds"}, "Missing or invalid root_path"),
    ({"root_path": "/a/../b"}, "Missing or invalid root_path: it must not contain . or .. segments"),
    ({"file_count": 0}, "Invalid file_count"),
    ({"file_count": "1"}, "Invalid file_count"),
    ({"total_size": 1.5}, "Invalid total_size"),
    ({"total_size": 10**30}, "Invalid total_size"),
    ({"parent_pi": "01ka"}, "Invalid parent_pi format (must be 26-character ULID)"),
    ({"parent_pi": 0}, "Invalid parent_pi format (must be 26-character ULID)"),
    ({"total_size": 107_374_182_401}, "Batch size 107374182401 exceeds maximum 107374182400"),
    ({"metadata": []}, "Invalid metadata (must be an object)"),
    ({"custom_prompts": "x"}, "Invalid custom_prompts (must be an object)"),
    ({"custom_prompts": {"pinax": 1}}, "Invalid custom_prompts: pinax must be text"),
    ({"custom_prompts": {"pinax": "x" * 60_001}}, "Invalid custom_prompts: pinax exceeds 60000 characters"),
]


@pytest.mark.parametrize(("said", "words"), INIT)
def test_a_batch_that_breaks_a_rule_is_not_opened(api, said, words):
    newest = api.get("/api/batches", params={"limit": 1}).json()
    body = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": 5} | said
    told(api.post("/api/batches/init", json=body), 400, words)
    assert api.get("/api/batches", params={"limit": 1}).json() == newest


def test_a_message_that_would_be_too_large_is_refused_at_once(api):
    body = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": 5}
    answer = api.post("/api/batches/init", json=body | {"metadata": {"x": "é" * 70_000}})
    assert answer.status_code == 413
    assert "the limit is 128000" in answer.json()["error"]


def test_a_key_for_repeating_is_for_one_request(api):
    body = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": 5}
    headers = {"Idempotency-Key": "test-a-key-for-repeating"}
    first = api.post("/api/batches/init", json=body, headers=headers)
    assert api.post("/api/batches/init", json=body, headers=headers).json() == first.json()
    other = api.post("/api/batches/init", json=body | {"file_count": 2}, headers=headers)
    assert other.status_code == 422
    assert set(other.json()) == {"error"}
    for bad in ("x" * 256, "a\tb"):
        assert api.post("/api/batches/init", json=body, headers={"Idempotency-Key": bad}).status_code == 400


DOTS = "Invalid logical_path: it must not contain . or .. segments"
LETTERS = 'Invalid logical_path: it must not contain any of < > : " | ? * \\ or control characters'
NO_PATH = "Missing or invalid logical_path (must start with /)"
START = [
    ({"file_name": ""}, "Missing or invalid file_name"),
    ({"file_size": 0}, "Invalid file_size"),
    ({"file_size": -5}, "Invalid file_size"),
    ({"file_size": 5_368_709_121}, "File size 5368709121 exceeds maximum 5368709120"),
    ({"logical_path": "a.txt"}, NO_PATH),
    ({"logical_path": None}, NO_PATH),
    ({"logical_path": "/"}, "Invalid logical_path: it names no file"),
    ({"logical_path": "/../a.txt"}, DOTS),
    ({"logical_path": "/x/../../../etc/a.txt"}, DOTS),
    ({"logical_path": "/./a.txt"}, DOTS),
    ({"logical_path": "/..\\a.txt"}, LETTERS),
    ({"logical_path": "/C:/a.txt"}, LETTERS),
    ({"logical_path": "/x\x00/a.txt"}, LETTERS),
    ({"logical_path": "/x\n/a.txt"}, LETTERS),
    (
        {"logical_path": "/\u202etxt.exe/a.txt"},
        "Invalid logical_path: it must not contain characters that change the direction of writing",
    ),
    ({"logical_path": "/b.txt"}, "Invalid logical_path: its last segment must be file_name"),
    (
        {"logical_path": "/_manifest.json", "file_name": "_manifest.json"},
        "Invalid logical_path: this name is reserved for the manifest",
    ),
    ({"content_type": 7}, "Missing or invalid content_type"),
    ({"cid": []}, "Invalid cid"),
    ({"processing_config": None}, "Missing or invalid processing_config"),
    ({"processing_config": {}}, "Invalid processing_config: ocr must be true or false"),
]


@pytest.mark.parametrize(("said", "words"), START)
def test_a_file_that_breaks_a_rule_is_not_announced(batch, said, words):
    with unchanged(batch):
        told(batch.start("/a.txt", **said), 400, words)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        b" ",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"NaN",
        b'{"a": 1e999}',
        b'{"a": "\\ud800"}',
        b"{'a': 1}",
        b"{}x",
    ],
)
@pytest.mark.parametrize("way", ["init", "start", "complete", "enqueue-processed"])
def test_what_is_not_json_is_refused_as_that(api, batch, way, body):
    paths = {
        "init": "/api/batches/init",
        "start": f"{batch.at}/files/start",
        "complete": f"{batch.at}/files/complete",
        "enqueue-processed": f"{batch.at}/enqueue-processed",
    }
    with unchanged(batch):
        told(api.post(paths[way], content=body), 400, "Invalid JSON body")


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_json_that_is_nested_without_end_is_refused(api, opening):
    told(api.post("/api/batches/init", content=opening * 50_000), 400, "Invalid JSON body")


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"1", b"true", b"null"])
def test_json_of_another_kind_is_refused(api, batch, body):
    no_object = "Invalid JSON body (must be an object)"
    with unchanged(batch):
        told(api.post("/api/batches/init", content=body), 400, no_object)
        told(api.post(f"{batch.at}/files/start", content=body), 400, no_object)
        told(api.post(f"{batch.at}/files/complete", content=body), 400, "Missing or invalid r2_key")
        told(api.post(f"{batch.at}/finalize", content=body), 400, no_object)
        told(api.post(f"{batch.at}/enqueue-processed", content=body), 400, "Missing or empty files array")
        told(api.post(f"/admin/reset/{batch.id}", content=body), 400, no_object)
        problem(api.post(f"/admin/cancel/{batch.id}", content=body), 400)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "nonsense", None])
def test_the_content_type_is_not_what_makes_it_json(api, kind):
    body = b'{"uploader":"ana","root_path":"/","file_count":1,"total_size":5}'
    headers = {} if kind is None else {"content-type": kind}
    assert api.post("/api/batches/init", content=body, headers=headers).status_code == 201


def test_bodies_have_a_limit_whether_they_say_their_length_or_not(api, batch):
    large = b'{"uploader":"' + b"x" * MIB + b'"}'
    words = "The body is larger than 1048576 bytes, which is the limit here"
    with unchanged(batch):
        for path in ("/api/batches/init", f"{batch.at}/files/start", f"{batch.at}/files/complete"):
            told(api.post(path, content=large), 413, words)
            told(api.post(path, content=iter([large[:MIB], large[MIB:]])), 413, words)
        told(api.post(f"{batch.at}/finalize", content=large), 413, words)
        problem(api.post(f"/admin/pause/{batch.id}", content=large), 413)


def test_a_length_beyond_the_limit_is_refused_before_the_body_comes(api_only):
    head = f"POST /api/batches/init HTTP/1.1\nHost: localhost\nContent-Length: {1 << 40}"
    assert raw(api_only, head, hold=True).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "route", [one for one in ROUTES if "{batch_id" in one.path], ids=lambda one: one.name
)
@pytest.mark.parametrize("batch_id", [UNKNOWN, "%00", "%2e%2e", "a%20b", "x" * 2000])
def test_an_unknown_batch_is_not_found_anywhere(api, route, batch_id):
    path = re.sub(r"\{batch_id:str\}", batch_id, route.path)
    path = re.sub(r"\{[a-z_]+:str\}", "x", path)
    body = {} if route.method in {"POST", "PUT"} else None
    if route.body_example:
        body = route.body_example
    answer = api.request(route.method, path, json=body, params={"path": "/a.txt", "r2_key": "staging/x/a"})
    # What a worker asks without its signature is refused before anything is looked for.
    refused = {403, 404} if route.name in {"callback", "moreOutputs"} else {404}
    assert answer.status_code in refused
    assert "error" in answer.json() or answer.json()["status"] == answer.status_code


def test_keys_and_uploads_of_another_batch_are_not_known_here(api, batch):
    other = Sender(api)
    other.start("/fonds/parts.bin", 6 * MIB).raise_for_status()
    other.send("/mine.txt", b"12345")
    upload_id = batch.start("/fonds/parts.bin", 6 * MIB).json()["upload_id"]
    with unchanged(batch, other):
        for key in (other.key("/mine.txt"), other.key("/fonds/parts.bin")):
            answer = api.post(f"{batch.at}/files/complete", json={"r2_key": key})
            told(answer, 404, "File not found in batch")
            told(batch.withdraw(key), 404, "File not found in batch")
        parts = [{"part_number": 1, "etag": "x"}]
        told(other.complete("/fonds/parts.bin", upload_id=upload_id, parts=parts), 400, "upload_id mismatch")


ODD_KEYS = [
    "",
    "/etc/passwd",
    "../../etc/passwd",
    "staging/{id}/",
    "staging/{id}/../{id}/fonds/there.txt",
    "staging/{id}/fonds/../fonds/there.txt",
    "staging/{id}//fonds/there.txt",
    "staging/{id}/fonds/there.txt/",
    "staging/{id}/fonds%2fthere.txt",
    "staging/{id}\\fonds\\there.txt",
    "staging/{id}/fonds/there.txt\x00",
    "staging/{id}/_manifest.json",
    "staging/{id}",
    "x" * 5000,
]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_a_key_is_one_that_was_given_or_none(api, batch, key):
    key = key.replace("{id}", batch.id)
    with unchanged(batch):
        answer = api.post(f"{batch.at}/files/complete", json={"r2_key": key})
        told(answer, 404, "File not found in batch")
        gone = batch.withdraw(key)
        assert gone.status_code in {400, 404}
        assert api.request("DELETE", f"{batch.at}/files", json={"r2_key": key}).status_code in {400, 404}


@pytest.mark.parametrize("key", [None, 7, [], {}, True])
def test_a_key_is_text(api, batch, key):
    with unchanged(batch):
        told(api.post(f"{batch.at}/files/complete", json={"r2_key": key}), 400, "Missing or invalid r2_key")
        told(
            api.request("DELETE", f"{batch.at}/files", json={"r2_key": key}), 400, "Missing or invalid r2_key"
        )


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "../secret.key",
        "/fonds/../fonds/there.txt",
        "/fonds",
        "/",
        "//",
        "%2e%2e",
        "\x00",
        "é" * 900,
    ],
)
def test_a_path_in_the_query_names_a_file_of_the_batch_or_none(api, batch, path):
    for way in ("history", "download"):
        answer = api.get(f"{batch.at}/files/{way}", params={"path": path})
        problem(answer, 400 if "\x00" in path else 404)
    problem(api.get(f"{batch.at}/files/download"), 400)


BAD_PARTS = [
    {},
    {"parts": [{"part_number": 1, "etag": "x"}]},
    {"upload_id": "right"},
    {"upload_id": "right", "parts": []},
    {"upload_id": "wrong", "parts": [{"part_number": 1, "etag": "x"}]},
    {"upload_id": ["right"], "parts": [{"part_number": 1, "etag": "x"}]},
    {"upload_id": "right", "parts": "x"},
    {"upload_id": "right", "parts": [1]},
    {"upload_id": "right", "parts": [{"part_number": 0, "etag": "x"}]},
    {"upload_id": "right", "parts": [{"part_number": 10_001, "etag": "x"}]},
    {"upload_id": "right", "parts": [{"part_number": True, "etag": "x"}]},
    {"upload_id": "right", "parts": [{"part_number": "1", "etag": "x"}]},
    {"upload_id": "right", "parts": [{"part_number": 1}]},
    {"upload_id": "right", "parts": [{"part_number": 1, "etag": ""}]},
    {"upload_id": "right", "parts": [{"part_number": 1, "etag": "a\nb"}]},
    {"upload_id": "right", "parts": [{"part_number": 1, "etag": "x"}, {"part_number": 1, "etag": "x"}]},
    {"upload_id": "right", "parts": [{"part_number": 1, "etag": "0" * 32}]},
    {"upload_id": "right", "parts": [{"part_number": 2, "etag": "sent"}]},
    {"upload_id": "right", "parts": [{"part_number": 1, "etag": "sent"}, {"part_number": 2, "etag": "x"}]},
]
WORDS = [
    *["Missing upload_id or parts for multipart upload"] * 4,
    *["upload_id mismatch"] * 2,
    *["Invalid parts format"] * 10,
    *[None] * 3,  # the store's words
]


@pytest.mark.parametrize(("said", "words"), list(zip(BAD_PARTS, WORDS, strict=True)))
def test_parts_that_are_not_those_that_were_sent_are_not_joined(api, said, words):
    batch, data = Sender(api), bytes_of(1, 5 * MIB)
    ticket = batch.start("/a.bin", len(data)).json()
    etag = api.put(ticket["presigned_urls"][0]["url"], content=data).headers["etag"]
    right = {"right": ticket["upload_id"], "sent": etag}
    text = json.dumps(said)
    for name, value in right.items():
        text = text.replace(f'"{name}"', json.dumps(value))
    with unchanged(batch):
        answer = batch.complete("/a.bin", **json.loads(text))
        assert answer.status_code == 400
        assert words is None or answer.json() == {"error": words}
    good = {"upload_id": ticket["upload_id"], "parts": [{"part_number": 1, "etag": etag}]}
    assert batch.complete("/a.bin", **good).json() == {"success": True}


def test_what_was_not_sent_cannot_be_confirmed(batch):
    with unchanged(batch):
        answer = batch.complete("/fonds/awaited.txt")
        told(answer, 400, "Object not found in storage: upload the file to its URL first")


@pytest.mark.parametrize("data", [b"", b"1234"])
@pytest.mark.parametrize("chunked", [True, False])
def test_a_file_of_another_size_is_not_confirmed_until_it_is_sent_right(api, data, chunked):
    batch = Sender(api)
    url = batch.url("/a.txt")
    with unchanged(batch):
        assert api.put(url, content=iter([data]) if chunked else data).status_code == 200
        answer = batch.complete("/a.txt")
        assert answer.status_code == 400
        words = f"Size mismatch: 5 bytes were announced, {len(data)} are stored; start the file again"
        assert answer.json()["error"].startswith(words)
    assert api.put(url, content=b"12345").status_code == 200
    assert batch.complete("/a.txt").json() == {"success": True}


def test_a_body_beyond_the_largest_file_is_refused(api, api_only):
    path = urlsplit(Sender(api).url("/a.txt")).path
    head = f"PUT {path} HTTP/1.1\nHost: x\nContent-Length: 5368709121"
    assert raw(api_only, head, hold=True).startswith(b"HTTP/1.1 413 ")


CUTS = [
    ("Content-Length: 5", b"123"),
    ("Transfer-Encoding: chunked", b"3\r\n123\r\n"),
    ("Transfer-Encoding: chunked", b"5\r\n123"),
]


def test_an_upload_that_is_cut_off_leaves_nothing_behind(tmp_path):
    """On a server of its own: when that has ended, all it had begun has, and the disk is looked at."""
    with serving(tmp_path, {}, "--api-only") as server:
        blobs = server.home / "blobs"
        with server.client() as client:
            batch = Sender(client)
            for number, (headers, body) in enumerate(CUTS):
                fresh, sent = f"/fresh-{number}.txt", f"/sent-{number}.txt"
                urls = {path: batch.url(path) for path in (fresh, sent)}
                assert client.put(urls[sent], content=b"first").status_code == 200
                for url in urls.values():
                    raw(server, f"PUT {urlsplit(url).path} HTTP/1.1\nHost: x\n{headers}", body)
                assert batch.complete(fresh).status_code == 400
                assert batch.complete(sent).json() == {"success": True}
        assert server.stop() == 0
    assert [file for file in (blobs / ".tmp").rglob("*") if file.is_file()] == []
    for number in range(len(CUTS)):
        assert not (blobs / batch.key(f"/fresh-{number}.txt")).exists()
        assert (blobs / batch.key(f"/sent-{number}.txt")).read_bytes() == b"first"


def test_a_url_that_is_altered_in_one_letter_is_refused(api, api_only):
    batch = Sender(api)
    url = batch.url("/a.txt")
    token = url.rpartition("/")[2]
    with unchanged(batch):
        for place, letter in enumerate(token):
            other = "A" if letter != "A" else "B"
            answer = api.put(f"/blobs/{token[:place]}{other}{token[place + 1 :]}", content=b"12345")
            assert answer.status_code == 403, place
            assert set(answer.json()) == {"error"}
        for cut in ("", token[:-1], token.partition(".")[0], token + "A", token * 40):
            assert api.put(f"/blobs/{cut}", content=b"12345").status_code in {403, 404, 405}
    assert batch.complete("/a.txt").status_code == 400


@pytest.mark.parametrize(
    "token", ["x", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%00", "a.b.c", "é", "A" * 5000, "staging"]
)
def test_a_token_is_ours_or_nothing(api, token):
    for answer in (api.get(f"/blobs/{quote(token, safe='%')}"), api.put(f"/blobs/{token}", content=b"1")):
        assert answer.status_code in {403, 404, 405}
        assert set(answer.json()) == {"error"}


def test_a_url_is_for_its_method_and_for_its_time(api, api_only):
    batch = Sender(api)
    put = batch.url("/a.txt")
    assert api.get(put).status_code == 403
    settings = settings_of(api_only)

    def presigned(now):
        return LocalPresignedUploads(
            settings.home / "blobs",
            secret=load_signing_secret(settings),
            clock=FakeClock(now),
            max_blob_bytes=100,
            max_part_bytes=100,
        )

    async def urls(now):
        key, made = batch.key("/a.txt"), presigned(now)
        return (
            await made.sign_put(key, seconds=60, base_url=api_only.url),
            await made.sign_get(key, seconds=60, base_url=api_only.url, name="a.txt"),
        )

    expired_put, expired_get = asyncio.run(urls(1_000_000_000.0))
    valid_put, valid_get = asyncio.run(urls(4_000_000_000.0))
    with unchanged(batch):
        for answer in (api.put(expired_put, content=b"12345"), api.get(expired_get)):
            assert answer.status_code == 403
            assert "run out" in answer.json()["error"] or "expired" in answer.json()["error"]
        assert api.put(valid_get, content=b"12345").status_code == 403
    assert api.put(valid_put, content=b"12345").status_code == 200
    assert api.get(valid_get).content == b"12345"
    assert api.get(valid_put).status_code == 403


def test_what_was_confirmed_or_closed_takes_nothing_more(api, api_only):
    batch = Sender(api)
    url = batch.url("/a.txt")
    api.put(url, content=b"first")
    batch.complete("/a.txt")
    with unchanged(batch):
        assert api.put(url, content=b"other").status_code == 403
    assert batch.finalize().status_code == 200
    with unchanged(batch):
        assert api.put(url, content=b"other").status_code == 403
        told(batch.start("/b.txt"), 400, "Batch status is preprocessing, cannot add files")
        told(batch.start("/a.txt"), 400, "Batch status is preprocessing, cannot add files")
        told(batch.start("/c.bin", 6 * MIB), 400, "Batch status is preprocessing, cannot add files")
        told(batch.withdraw(batch.key("/a.txt")), 400, "Batch status is preprocessing, cannot withdraw files")
        told(batch.complete("/b.txt"), 404, "File not found in batch")
        assert batch.complete("/a.txt").json() == {"success": True}
        assert batch.finalize().json()["status"] == "preprocessing"
    assert (api_only.home / "blobs" / batch.key("/a.txt")).read_bytes() == b"first"


def test_of_two_who_send_the_same_path_the_later_announcement_counts(api):
    batch = Sender(api)
    first, second = batch.start("/a.bin", 6 * MIB).json(), batch.start("/a.bin", 5 * MIB).json()
    data = bytes_of(2, 5 * MIB)
    early = api.put(first["presigned_urls"][0]["url"], content=b"x")
    assert early.status_code == 404
    etag = api.put(second["presigned_urls"][0]["url"], content=data).headers["etag"]
    parts = [{"part_number": 1, "etag": etag}]
    with unchanged(batch):
        told(batch.complete("/a.bin", upload_id=first["upload_id"], parts=parts), 400, "upload_id mismatch")
    assert batch.complete("/a.bin", upload_id=second["upload_id"], parts=parts).json() == {"success": True}
    (file,) = batch.status()["files"]
    assert (file["file_size"], file["status"]) == (5 * MIB, "completed")


@pytest.mark.parametrize(("first", "second"), [("/a", "/a/b"), ("/a/b", "/a"), ("/x/y/z", "/x")])
def test_a_file_cannot_be_the_folder_of_another(api, first, second):
    batch = Sender(api)
    batch.start(first).raise_for_status()
    with unchanged(batch):
        answer = batch.start(second)
        assert answer.status_code == 400
        assert "cannot both be files" in answer.json()["error"]
    batch.withdraw(batch.key(first))
    batch.send(second, b"12345")


@pytest.mark.parametrize(
    ("one", "two"), [("/A.txt", "/a.txt"), ("/é.txt", "/e\u0301.txt"), ("/ß.txt", "/ss.txt")]
)
def test_names_that_look_alike_are_two_files(api, api_only, one, two):
    batch = Sender(api, file_count=2, total_size=10)
    batch.send(one, b"first")
    batch.send(two, b"other")
    assert {file["logical_path"] for file in batch.status()["files"]} == {one, two}
    assert (api_only.home / "blobs" / batch.key(one)).read_bytes() == b"first"
    assert batch.finalize().json()["files_uploaded"] == 2


def test_a_batch_without_files_or_with_awaited_ones_is_not_closed(api, batch):
    empty = Sender(api)
    with unchanged(empty, batch):
        told(empty.finalize(), 400, "No files uploaded in this batch")
        told(empty.finalize(skip_incomplete=True), 400, "No files uploaded in this batch")
        answer = batch.finalize()
        assert answer.status_code == 400
        missing = {"error": "Not all files completed", "incomplete": ["awaited.txt", "parts.bin"]}
        assert answer.json() == missing
        assert batch.finalize(skip_incomplete="yes").json() == missing


def _entry(batch, path="/a.jpg", **said):
    made = {
        "r2_key": batch.key(path),
        "logical_path": path,
        "file_name": path.rpartition("/")[2],
        "file_size": 9,
    }
    return made | said


BAD_ENTRIES = [
    (7, "is not an object"),
    ({"r2_key": None}, "r2_key must begin with staging/{id}/"),
    ({"r2_key": "staging/01KA0000000000000000000000/a.jpg"}, "r2_key must begin with staging/{id}/"),
    ({"r2_key": "staging/{id}/../a.jpg"}, DOTS),
    ({"r2_key": "staging/{id}/x/../../../a.jpg"}, DOTS),
    ({"r2_key": "staging/{id}/a\x00.jpg"}, LETTERS),
    ({"logical_path": "/../a.jpg"}, DOTS),
    ({"logical_path": "a.jpg"}, NO_PATH),
    ({"file_size": -1}, "Invalid file_size"),
    ({"file_size": "9"}, "Invalid file_size"),
    ({"file_name": "b.jpg"}, "Invalid logical_path: its last segment must be file_name"),
    ({"content_type": []}, "Missing or invalid content_type"),
    ({"cid": 1}, "cid and source_file must be text, preprocessor_tags a list of texts"),
    ({"source_file": "a\x00"}, "cid and source_file must be text, preprocessor_tags a list of texts"),
    ({"preprocessor_tags": "x"}, "cid and source_file must be text, preprocessor_tags a list of texts"),
    ({"preprocessor_tags": [1]}, "cid and source_file must be text, preprocessor_tags a list of texts"),
]


def _closed(api):
    batch = Sender(api)
    batch.send("/a.txt", b"12345")
    batch.finalize().raise_for_status()
    return batch


@pytest.fixture(scope="module")
def closed(api):
    """And nothing here changes it."""
    return _closed(api)


@pytest.mark.parametrize(("said", "words"), BAD_ENTRIES)
def test_files_processed_elsewhere_obey_the_same_rules(api, closed, said, words):
    said = json.loads(json.dumps(said).replace("{id}", closed.id))
    entry = _entry(closed, **said) if isinstance(said, dict) else said
    with unchanged(closed):
        answer = api.post(f"{closed.at}/enqueue-processed", json={"files": [_entry(closed, "/b.jpg"), entry]})
        told(answer, 400, f"files[1]: {words.replace('{id}', closed.id)}")


def test_files_processed_elsewhere_come_once_and_in_their_state(api, batch):
    closed = _closed(api)
    at = f"{closed.at}/enqueue-processed"
    with unchanged(batch, closed):
        answer = api.post(f"{batch.at}/enqueue-processed", json={"files": [_entry(batch)]})
        told(answer, 400, "Invalid batch state: uploading, expected preprocessing")
        for files in ([], {}, None, "x"):
            told(api.post(at, json={"files": files}), 400, "Missing or empty files array")
        twice = api.post(at, json={"files": [_entry(closed), _entry(closed)]})
        told(twice, 400, "files[1]: '/a.jpg' is listed twice")
    done = api.post(at, json={"files": [_entry(closed)]}).json()
    assert done == {"success": True, "batch_id": closed.id, "status": "enqueued", "total_files": 1}
    with unchanged(closed):
        assert api.post(at, json={"files": [_entry(closed, "/other.jpg")]}).json() == done


def _asked(route) -> str:
    return re.sub(r"\{[a-z_]+:[a-z]+\}", "x", route.path)


METHODS = {}
for _route in ROUTES:
    METHODS.setdefault(_asked(_route), set()).add(_route.method)


@pytest.mark.parametrize("path", METHODS)
def test_other_methods_are_refused_as_json_and_told_which_there_are(api_only, path):
    allowed = METHODS[path] | {"OPTIONS"}
    with api_only.client() as client:
        for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PURGE"} - allowed:
            answer = client.request(method, path)
            assert answer.status_code == 405
            assert set(answer.headers["allow"].split(", ")) == allowed
            assert method == "HEAD" or answer.json() == {"error": "Method Not Allowed"}
            assert answer.headers["x-content-type-options"] == "nosniff"
        asked = client.options(path)
        assert asked.status_code == 204
        assert set(asked.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize(
    "path", ["/nowhere", "/api", "/api/batches/x", "/api/batches/x/files/other", "/blobs"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_an_unknown_route_is_a_404_that_clients_can_read(api_only, path, method):
    with api_only.client() as client:
        told(client.request(method, path), 404, "Not found")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_pages_of_other_origins_are_let_in_where_that_is_meant(api_only, route):
    """And nowhere else: neither asked first nor answered."""
    headers = {"Origin": ORIGIN, "Access-Control-Request-Method": route.method}
    with api_only.client(headers=headers) as client:
        asked = client.options(_asked(route))
        answer = client.request(route.method, _asked(route), content=b"{")
    shared = {one.path for one in ROUTES if one.pages}
    assert ("access-control-allow-origin" in asked.headers) == (route.path in shared)
    assert ("access-control-allow-origin" in answer.headers) == route.pages
    if route.pages:
        assert asked.headers["access-control-allow-origin"] == "*"
        assert route.method in asked.headers["access-control-allow-methods"]
        assert asked.headers["access-control-max-age"] == "86400"
        assert {"Content-Type", "Authorization", "X-User-Id", "Idempotency-Key"} <= set(
            asked.headers["access-control-allow-headers"].split(", ")
        )
        assert "ETag" in answer.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in answer.headers
    elif route.scope is not None:
        assert answer.status_code == 403


def test_a_foreign_name_for_this_machine_is_refused(api_only, api, batch):
    with unchanged(batch):
        headers = {"Host": "evil.example"}
        problem(api.post(f"/admin/cancel/{batch.id}", headers=headers), 403)
        problem(api.get("/api/batches", headers=headers), 403)


def test_the_page_for_people_runs_nothing(api):
    page = api.get("/docs")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<script" not in page.text
