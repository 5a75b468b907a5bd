"""What S3 servers answer on bad days, played by a scripted one: lost answers, conflicts, refusals."""

import asyncio
import contextlib
import hashlib
import sys

import pytest

from quire.blobs.port import IfAbsent, IfVersion
from quire.blobs.s3 import S3Blobs
from quire.blobs.s3 import body as s3_body
from quire.model.errors import Misconfigured, Missing, Reject, Retry, Stale

SECRET = "do-not-tell-anyone"


class Server:
    """A little S3: keeps objects, honours conditions, and does as the script says to the next PUTs."""

    def __init__(self):
        self.objects = {}
        self.script = []
        self.puts = 0

    async def connected(self, reader, writer):
        """One request to a connection, so that none is open when the test ends."""
        # A client that goes away in the middle of a request is none of the test's business.
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, path, _ = head[0].split(" ")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            path = path.partition("?")[0]
            status, extra, answer = self.put(path, headers, body) if method == "PUT" else self.found(path)
            lines = {"content-length": str(len(answer)), "connection": "close", **extra}
            text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            if status:
                writer.write(
                    f"HTTP/1.1 {status} X\r\n{text}\r\n".encode() + (b"" if method == "HEAD" else answer)
                )
            writer.close()
            await writer.wait_closed()

    def found(self, path):
        if path not in self.objects:
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        return 200, *self.objects[path]

    def put(self, path, headers, body):
        self.puts += 1
        word = self.script.pop(0) if self.script else "as usual"
        if word.isdigit():
            return int(word), {}, b"<Error><Code>Scripted</Code></Error>"
        if word == "rival":
            self.keep(path, {"x-amz-meta-quire-nonce": "somebody else"}, b"rival")
        present = self.objects.get(path)
        missed = "if-match" in headers and present is None
        other = "if-match" in headers and present and present[0]["etag"] != headers["if-match"]
        if missed or other or ("if-none-match" in headers and present):
            return (404 if missed else 412), {}, b"<Error><Code>PreconditionFailed</Code></Error>"
        etag = self.keep(path, headers, body)
        status = {"answer lost": 500, "line cut": 0}.get(word, 200)
        return status, {"etag": etag}, b""

    def keep(self, path, headers, body):
        etag = f'"{hashlib.md5(body).hexdigest()}"'  # noqa: S324 - as S3 does
        marks = {name: value for name, value in headers.items() if name.startswith("x-amz-meta-")}
        when = "Sun, 06 Nov 1994 08:49:37 GMT"
        self.objects[path] = ({"etag": etag, "last-modified": when, **marks}, body)
        return etag


@pytest.fixture
async def server():
    server = Server()
    running = await asyncio.start_server(server.connected, "127.0.0.1", 0)
    server.port = running.sockets[0].getsockname()[1]
    yield server
    running.close()


def client(port, **changes):
    values = {
        "bucket": "bucket",
        "endpoint": f"http://127.0.0.1:{port}",
        "access_key_id": "id",
        "secret_access_key": SECRET,
        "allow_http": True,
        "timeout_seconds": 10,
    }
    return S3Blobs(**{**values, **changes})


@pytest.fixture
def blobs(server):
    return client(server.port)


@pytest.mark.parametrize("lost", [["answer lost"], ["line cut"], ["answer lost", "500"], ["409", "line cut"]])
async def test_a_create_recognises_its_own_lost_success(server, blobs, lost):
    server.script = lost
    stored = await blobs.put("key", b"mine", metadata={"a": "b"}, condition=IfAbsent())
    assert (await blobs.head("key")).version == stored.version
    assert await blobs.get("key") == b"mine"
    assert (await blobs.head("key")).metadata == {"a": "b"}
    with pytest.raises(Stale):
        await blobs.put("key", b"mine", condition=IfAbsent())


@pytest.mark.parametrize("lost", ["answer lost", "line cut"])
async def test_a_swap_recognises_its_own_lost_success(server, blobs, lost):
    first = await blobs.put("key", b"one")
    server.script = [lost]
    second = await blobs.put("key", b"two", condition=IfVersion(first.version))
    assert (await blobs.head("key")).version == second.version
    assert await blobs.get("key") == b"two"


async def test_a_rivals_success_is_not_taken_for_ones_own(server, blobs):
    server.script = ["rival"]
    with pytest.raises(Stale) as told:
        await blobs.put("key", b"mine", condition=IfAbsent())
    assert told.value.__cause__ is not None
    assert await blobs.get("key") == b"rival"


async def test_a_conflict_means_nobody_won_and_is_tried_again(server, blobs):
    server.script = ["409", "409"]
    first = await blobs.put("key", b"one", condition=IfAbsent())
    server.script = ["409"]
    await blobs.put("key", b"two", condition=IfVersion(first.version))
    assert await blobs.get("key") == b"two"


async def test_endless_conflict_ends_in_retry(server, blobs):
    server.script = ["409"] * 500
    with pytest.raises(Retry):
        await blobs.put("key", b"x", condition=IfAbsent())
    assert server.puts < 100


async def test_if_match_on_nothing_is_stale_where_servers_say_404(blobs):
    with pytest.raises(Stale):
        await blobs.put("nothing", b"x", condition=IfVersion('"0"'))


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        ("403", Misconfigured, "storage_denied"),
        ("401", Misconfigured, "storage_denied"),
        ("400", Misconfigured, "storage_refused"),
        ("501", Misconfigured, "broken_store"),
        ("503", Retry, "storage_unavailable"),
    ],
)
@pytest.mark.parametrize("condition", [None, IfAbsent()])
async def test_refusals_say_what_to_do_and_tell_no_secret(server, status, error, code, condition):
    blobs = client(server.port, timeout_seconds=1)
    server.script = [status] * 100
    with pytest.raises(error) as told:
        await blobs.put("key", b"x", condition=condition)
    assert told.value.code == code
    assert told.value.__cause__ is not None
    for text in (str(told.value), str(told.value.__cause__), repr(blobs)):
        assert SECRET not in text


async def test_nobody_there_is_worth_a_retry(server):
    blobs = client(9, timeout_seconds=0.5)
    for call in (
        blobs.get("a"),
        blobs.head("a"),
        blobs.put("a", b""),
        blobs.put("a", b"", condition=IfAbsent()),
    ):
        with pytest.raises(Retry):
            await call


async def test_the_nonce_stays_inside(blobs):
    await blobs.put("key", b"x", condition=IfAbsent())
    assert (await blobs.head("key")).metadata == {}
    with pytest.raises(Missing):
        await blobs.head("other")


async def test_a_conditional_write_has_a_limit(blobs, tmp_path, monkeypatch):
    monkeypatch.setattr(s3_body, "MAX_CONDITIONAL_BYTES", 1000)
    (tmp_path / "file").write_bytes(b"x" * 1001)

    async def endless():
        while True:
            yield b"x" * 100

    for data in (b"x" * 1001, tmp_path / "file", endless()):
        with pytest.raises(Reject) as refused:
            await blobs.put("key", data, condition=IfAbsent())
        assert refused.value.code == "too_large"
    assert (await blobs.put("key", tmp_path / "file")).size == 1001


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(Misconfigured, match=r"quire\[s3\]"):
        client(1)


@pytest.mark.service
async def test_a_wrong_secret_is_a_setting_to_change(s3_server):
    blobs = client(0, endpoint=s3_server.endpoint, bucket=s3_server.bucket, access_key_id="test")
    for call in (blobs.put("k", b""), blobs.get("k"), blobs.put("k", b"", condition=IfAbsent())):
        with pytest.raises(Misconfigured) as told:
            await call
        assert SECRET not in str(told.value) + str(told.value.__cause__)
