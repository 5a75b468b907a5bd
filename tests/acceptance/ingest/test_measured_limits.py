"""Limits are measured, not declared: each with a client that lies, on local files and on the S3 server."""

import json
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest
from tests.acceptance.ingest.clients import CLIENTS, Item
from tests.acceptance.ingest.conftest import s3_environment, serving
from tests.acceptance.ingest.home import at_home, blob, keys_below
from tests.acceptance.ingest.sender import Sender, bytes_of
from tests.acceptance.ingest.test_who_may import as_, made, new_key

MIB = 1 << 20
TIGHT = {
    "QUIRE_INGEST_MAX_FILE_BYTES": str(16 * MIB),
    "QUIRE_INGEST_MAX_BATCH_BYTES": str(20 * MIB),
    "QUIRE_INGEST_MAX_FILES": "4",
}


@pytest.fixture(scope="module", params=["local", pytest.param("s3", marks=pytest.mark.service)])
def tight(request, tmp_path_factory):
    """A server with small limits on each store, with keys and without."""
    folder = tmp_path_factory.mktemp("tight")
    environment = dict(TIGHT)
    if request.param == "s3":
        environment |= s3_environment(request.getfixturevalue("s3_server"), f"tight/{folder.name}")
    admin = made(folder / "home", "--scope", "admin")
    with serving(folder, environment, "--api-only") as running:
        running.admin, running.kind = admin, request.param
        yield running


@pytest.fixture
def client(tight):
    with tight.client() as opened:
        yield opened


def refused_bytes(tight, answer: httpx.Response) -> bool:
    """Our own routes say what is wrong; S3 finds that the URL was not signed for this length."""
    if tight.kind == "local":
        return answer.status_code == 413 and "announced" in answer.json()["error"]
    return answer.status_code in {403, 411}


def stored(tight, sender: Sender) -> list[str]:
    return keys_below(tight, f"staging/{sender.id}")


def chunks(data: bytes, size: int = 64 << 10):
    for place in range(0, len(data), size):
        yield data[place : place + size]


@pytest.mark.parametrize("announced", [5, 3 * MIB])
def test_a_body_larger_than_announced_is_refused_and_nothing_of_it_is_stored(tight, client, announced):
    sender = Sender(client)
    url = sender.url("/a.txt", announced)
    for excess in (1, 2 * MIB):
        assert refused_bytes(tight, httpx.put(url, content=bytes_of(1, announced + excess)))
    assert stored(tight, sender) == []
    assert sender.complete("/a.txt").status_code == 400
    assert sender.finalize().json()["incomplete"] == ["a.txt"]
    assert sender.status()["total_bytes_uploaded"] == 0
    # The URL is as good as before.
    assert httpx.put(url, content=bytes_of(1, announced)).status_code == 200
    assert sender.complete("/a.txt").json() == {"success": True}


def test_a_body_without_a_length_is_cut_off_at_the_announced_size(tight, client):
    sender = Sender(client)
    url = sender.url("/a.txt", 100_000)
    assert refused_bytes(tight, httpx.put(url, content=chunks(bytes_of(1, 4 * MIB))))
    assert stored(tight, sender) == []


def test_a_length_that_is_a_lie_gains_nothing(tight, client):
    """Said five bytes and sent a megabyte: five bytes are the body, the rest is no request."""
    sender = Sender(client)
    place = urlsplit(sender.url("/a.txt", 5))
    target = place.path + (f"?{place.query}" if place.query else "")
    head = f"PUT {target} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: 5\r\n\r\n"
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        connection.sendall(head.encode() + b"hello")
        said = connection.recv(65536)
        try:
            connection.sendall(b"x" * MIB)
            while connection.recv(65536):
                pass
        except OSError:
            pass  # cut off
    assert b" 200 " in said.partition(b"\r\n")[0]
    assert stored(tight, sender) == [sender.key("/a.txt")]
    assert sender.complete("/a.txt").json() == {"success": True}
    assert blob(tight, sender.key("/a.txt")) == b"hello"


def test_many_bodies_at_once_leave_no_more_than_was_announced(tight, client):
    sender = Sender(client)
    honest, lie = bytes_of(1, 2 * MIB), bytes_of(2, 2 * MIB + 1)
    url = sender.url("/a.txt", len(honest))
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda data: httpx.put(url, content=data), [lie, honest, lie, honest]))
    assert refused_bytes(tight, ends[0])
    assert refused_bytes(tight, ends[2])
    assert [ends[1].status_code, ends[3].status_code] == [200, 200]
    assert sender.complete("/a.txt").json() == {"success": True}
    assert blob(tight, sender.key("/a.txt")) == honest


def in_parts(sender: Sender, path: str, size: int) -> dict:
    return sender.start(path, size).raise_for_status().json()


def complete(sender: Sender, path: str, ticket: dict, etags: list[str]) -> httpx.Response:
    parts = [{"part_number": number, "etag": etag} for number, etag in enumerate(etags, start=1)]
    return sender.complete(path, upload_id=ticket["upload_id"], parts=parts)


def test_the_only_part_of_a_file_has_its_size_and_no_more(tight, client):
    sender = Sender(client)
    ticket = in_parts(sender, "/a.tif", 6 * MIB)
    (part,) = ticket["presigned_urls"]
    assert refused_bytes(tight, httpx.put(part["url"], content=bytes_of(1, 6 * MIB + 1)))
    sent = httpx.put(part["url"], content=bytes_of(1, 6 * MIB))
    assert sent.status_code == 200
    assert complete(sender, "/a.tif", ticket, [sent.headers["etag"]]).json() == {"success": True}


def test_parts_that_are_larger_together_than_announced_never_count(tight, client):
    """Announced 11 MiB in two parts, sent 12."""
    sender = Sender(client)
    ticket = in_parts(sender, "/a.tif", 11 * MIB)
    first, second = (part["url"] for part in ticket["presigned_urls"])
    etags = [httpx.put(first, content=bytes_of(1, 6 * MIB)).headers["etag"]]
    answer = httpx.put(second, content=bytes_of(2, 6 * MIB))
    if tight.kind == "local":  # counted as they arrive
        assert refused_bytes(tight, answer)
        assert [
            part["size"]
            for part in sender.start("/a.tif", 11 * MIB, content_type="text/plain", resume=True).json()[
                "parts"
            ]
        ] == [6 * MIB]
        again = httpx.put(second, content=bytes_of(2, 5 * MIB))
        assert complete(sender, "/a.tif", ticket, [*etags, again.headers["etag"]]).status_code == 200
        return
    # The store takes parts of any size: they are measured when they are one file, and deleted.
    refused = complete(sender, "/a.tif", ticket, [*etags, answer.headers["etag"]])
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("Size mismatch: 11534336 bytes were announced, 12582912")
    assert stored(tight, sender) == []
    assert complete(sender, "/a.tif", ticket, [*etags, answer.headers["etag"]]).status_code == 400
    assert sender.status()["files"][0]["status"] == "uploading"
    assert sender.finalize().json()["incomplete"] == ["a.tif"]
    assert sender.finalize(skip_incomplete=True).status_code == 400  # no file is left
    assert stored(tight, sender) == []


def test_parts_sent_again_and_parts_at_once_are_counted_once(tight, client):
    sender = Sender(client)
    size = 12_000_000
    ticket = in_parts(sender, "/a.tif", size)
    urls = [part["url"] for part in ticket["presigned_urls"]]
    half = size // 2
    for number in range(3):  # a client on a bad line
        httpx.put(urls[0], content=bytes_of(number, half)).raise_for_status()
    with ThreadPoolExecutor(2) as pool:
        bodies = [(urls[0], bytes_of(7, half)), (urls[1], bytes_of(8, half))]
        ends = list(pool.map(lambda one: httpx.put(one[0], content=one[1]), bodies))
    assert [end.status_code for end in ends] == [200, 200]
    if tight.kind == "local":
        for url in urls:
            assert refused_bytes(tight, httpx.put(url, content=chunks(bytes_of(9, half + 1))))
    answer = complete(sender, "/a.tif", ticket, [end.headers["etag"] for end in ends])
    assert answer.json() == {"success": True}
    assert len(blob(tight, sender.key("/a.tif"))) == size


def test_a_file_announced_smaller_gives_back_what_was_sent_before(tight, client):
    """Otherwise each file would be stored large and counted small."""
    sender = Sender(client)
    earlier = sender.url("/a.txt", 4 * MIB)
    assert httpx.put(earlier, content=bytes_of(1, 4 * MIB)).status_code == 200
    assert sender.complete("/a.txt").status_code == 200
    sender.url("/a.txt", 5)
    assert stored(tight, sender) == []
    assert sender.status()["total_bytes_uploaded"] == 0
    late = httpx.put(earlier, content=bytes_of(1, 4 * MIB))
    if tight.kind == "local":
        assert late.status_code == 413
        return
    # S3 takes what was signed earlier; it is measured before it counts.
    assert late.status_code == 200
    assert sender.complete("/a.txt").json()["error"].startswith("Size mismatch")
    assert stored(tight, sender) == []


def test_a_whole_body_is_not_taken_beside_parts(tight, client):
    sender = Sender(client)
    earlier = sender.url("/a.txt", 4 * MIB)
    in_parts(sender, "/a.txt", 6 * MIB)
    late = httpx.put(earlier, content=bytes_of(1, 4 * MIB))
    if tight.kind == "local":
        assert late.status_code == 403
        assert stored(tight, sender) == []
    sender.finalize(skip_incomplete=True)
    assert stored(tight, sender) == []


def test_finalize_counts_what_is_stored(tight, client):
    """By earlier URLs, S3 replaces a confirmed file and stores a withdrawn one; both are found."""
    sender = Sender(client, file_count=3, total_size=30)
    old = sender.url("/a.txt", 9)
    withdrawn = sender.url("/gone.txt", 9)
    sender.send("/a.txt", b"confirmed!")
    sender.send("/b.txt", b"untouched.")
    assert sender.withdraw(sender.key("/gone.txt")).status_code == 200
    late = [httpx.put(url, content=b"too late.").status_code for url in (old, withdrawn)]
    assert late == ([403, 403] if tight.kind == "local" else [200, 200])
    if tight.kind == "s3":
        answer = sender.finalize()
        assert (answer.status_code, answer.json()["incomplete"]) == (400, ["a.txt"])
        assert sender.key("/gone.txt") not in stored(tight, sender)
        sender.send("/a.txt", b"confirmed!")
    closed = sender.finalize().json()
    assert (closed["files_uploaded"], closed["total_bytes"]) == (2, 20)
    assert blob(tight, sender.key("/a.txt")) == b"confirmed!"


def test_a_confirmed_file_that_is_not_stored_any_more_does_not_count(tight, client):
    sender = Sender(client, file_count=2)
    sender.send("/a.txt", b"first")
    sender.send("/b.txt", b"other")
    at_home(tight, lambda office: office.blobs.delete(sender.key("/b.txt")))
    answer = sender.finalize()
    assert (answer.status_code, answer.json()["incomplete"]) == (400, ["b.txt"])
    sender.send("/b.txt", b"other")
    assert sender.finalize().json()["total_bytes"] == 10


def test_a_batch_takes_no_more_bytes_than_a_batch_may_have_whatever_was_said_at_its_opening(tight, client):
    sender = Sender(client, total_size=1)
    assert sender.start("/a.tif", 16 * MIB + 1).status_code == 400
    assert sender.start("/a.tif", 12 * MIB).status_code == 200
    refused = sender.start("/b.tif", 9 * MIB)
    assert refused.status_code == 413
    assert "20971520" in refused.json()["error"]
    assert sender.start("/b.tif", 8 * MIB).status_code == 200
    assert sender.start("/c.txt", 1).status_code == 413
    assert sender.start("/a.tif", 3).status_code == 200
    for name in "cd":
        assert sender.start(f"/{name}.txt", 1).status_code == 200
    assert sender.start("/e.txt", 1).status_code == 413  # the fifth file


def test_a_key_has_no_more_than_it_may_whatever_it_said(tight):
    """Two batches opened as one byte each; what is announced in both together counts, also at once."""
    key = new_key(tight, scope="submit", max_bytes=3 * MIB)
    with as_(tight, key) as client:
        one, two = Sender(client, total_size=1), Sender(client, total_size=1)
        with ThreadPoolExecutor(4) as pool:
            wanted = [(sender, f"/{name}.txt") for sender in (one, two) for name in "abcd"]
            ends = list(pool.map(lambda pair: pair[0].start(pair[1], MIB), wanted))
        assert 2 <= sum(end.status_code == 200 for end in ends) <= 3
        refused = [end for end in ends if end.status_code != 200]
        assert {end.status_code for end in refused} == {429}
        assert all(int(end.headers["retry-after"]) > 0 for end in refused)
        # The URLs that were given are good for what was announced and no more.
        granted = [end.json()["presigned_url"] for end in ends if end.status_code == 200]
        with ThreadPoolExecutor(4) as pool:
            lies = list(pool.map(lambda url: httpx.put(url, content=bytes_of(1, MIB + 1)), granted))
        assert all(refused_bytes(tight, lie) for lie in lies)
        assert stored(tight, one) == stored(tight, two) == []


@pytest.mark.parametrize("name", CLIENTS)
def test_published_clients_are_not_hindered(tight, name):
    items = [
        Item("/box/a.txt", b"small"),
        Item("/box/b.tif", bytes_of(3, 6 * MIB)),
        Item("/box/c.tif", bytes_of(4, 12_000_000)),
    ]
    client = CLIENTS[name](tight.url)
    client.init(items, "/box")
    client.send_all(items)
    closed = client.finalize()
    assert (closed["files_uploaded"], closed["total_bytes"]) == (3, sum(len(item.data) for item in items))


@pytest.fixture(scope="module", params=["local", pytest.param("s3", marks=pytest.mark.service)])
def modest(request, tmp_path_factory):
    """A server whose callers without a key have little."""
    folder = tmp_path_factory.mktemp("modest")
    environment = {
        "QUIRE_SERVE_ANONYMOUS_MAX_BATCHES": "3",
        "QUIRE_SERVE_ANONYMOUS_MAX_FILES": "6",
        "QUIRE_SERVE_ANONYMOUS_MAX_BYTES": "1000",
    }
    if request.param == "s3":
        environment |= s3_environment(request.getfixturevalue("s3_server"), f"modest/{folder.name}")
    with serving(folder, environment, "--api-only") as running:
        yield running


def test_callers_without_a_key_have_a_bounded_budget(modest):
    opening = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": 1}
    with modest.client() as client:
        first, second = Sender(client, total_size=1), Sender(client, total_size=1)
        assert first.start("/a.txt", 999).status_code == 200
        refused = first.start("/b.txt", 1)
        assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
        assert "callers without a key" in refused.json()["error"]
        assert first.start("/a.txt", 5).status_code == 200
        for name in "bcde":
            assert first.start(f"/{name}.txt", 1).status_code == 200
        assert second.start("/a.txt", 1).status_code == 200
        assert second.start("/b.txt", 1).status_code == 429  # the seventh file
        assert first.withdraw(first.key("/e.txt")).status_code == 200
        third = client.post("/api/batches/init", json=opening)
        assert third.status_code == 201
        assert client.post("/api/batches/init", json=opening).status_code == 429
        too_much = client.post("/api/batches/init", json=opening | {"total_size": 1001})
        assert too_much.status_code == 400


ORIGINS = ("http://evil.example", "null", "http://127.0.0.1:1", "http://localhost")


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_page_of_another_origin_neither_uploads_nor_administers(tight, client, origin):
    sender = Sender(client)
    with tight.client(headers={"origin": origin}) as page:
        answers = [
            page.post("/api/batches/init", content=json.dumps({}), headers={"content-type": "text/plain"}),
            Sender.start(_of(sender, page), "/a.txt"),
            Sender.complete(_of(sender, page), "/a.txt"),
            Sender.withdraw(_of(sender, page), sender.key("/a.txt")),
            Sender.finalize(_of(sender, page)),
            page.post("/api/keys", json={"scope": "admin"}),
            page.get("/api/keys"),
            page.post(f"/admin/cancel/{sender.id}"),
        ]
    assert {answer.status_code for answer in answers} == {403}
    assert sender.status()["status"] == "uploading"
    with tight.client(headers={"origin": tight.url, "sec-fetch-site": "same-origin"}) as own:
        assert Sender.start(_of(sender, own), "/a.txt").status_code == 200
        assert own.get("/api/keys").status_code == 200


def _of(sender: Sender, client: httpx.Client) -> Sender:
    other = object.__new__(Sender)
    other.client, other.id, other.at = client, sender.id, sender.at
    return other


def test_a_foreign_name_of_this_machine_neither_uploads_nor_administers(tight):
    with tight.client(headers={"host": "evil.example", "origin": "http://evil.example"}) as page:
        init = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": 1}
        assert page.post("/api/batches/init", json=init).status_code == 403
        assert page.get("/api/keys").status_code == 403


def test_a_page_of_any_origin_uploads_with_a_key(tight):
    key = new_key(tight, scope="submit")
    headers = {"origin": "https://frontend.example", "sec-fetch-site": "cross-site"}
    with tight.client(headers=headers | {"authorization": f"Bearer {key}"}) as page:
        asked = page.options("/api/batches/init", headers={"access-control-request-method": "POST"})
        assert asked.headers["access-control-allow-origin"] == "*"
        sender = Sender(page)
        sender.send("/a.txt", b"hello")
        assert sender.finalize().status_code == 200
    with tight.client(headers=headers | {"authorization": f"Bearer {tight.admin}"}) as page:
        assert page.get("/api/keys").status_code == 403


def test_wrong_keys_are_slowed_down_and_right_ones_are_not(tight):
    with as_(tight, tight.admin) as right:
        assert right.get("/api/keys").status_code == 200
        ends = []
        # One wrong key in three seconds is allowed: on a busy machine more of them are needed.
        while not ends or (ends[-1].status_code == 401 and len(ends) < 400):
            wrong = {"authorization": f"Bearer qk_wrong{len(ends)}"}
            ends.append(right.get("/api/keys", headers=wrong))
        assert ends[0].status_code == 401
        assert ends[-1].status_code == 429
        assert int(ends[-1].headers["retry-after"]) >= 1
        # One who was let in a moment ago at this address still is; callers without a key are, too.
        assert right.get("/api/keys").status_code == 200
        with tight.client() as nobody:
            assert nobody.get("/").status_code == 200


def test_the_database_is_for_its_owner_alone(tight):
    found = [one for one in tight.home.iterdir() if one.name.startswith(("quire.db", "secret"))]
    assert {one.name for one in found} >= {"quire.db", "quire.db-wal", "quire.db-shm"}
    assert {stat.S_IMODE(one.stat().st_mode) & 0o077 for one in found} == {0}
