"""The server's patience: clients that say nothing, too little, too much or nonsense."""

import asyncio
import json
import socket
from contextlib import AsyncExitStack, asynccontextmanager, closing
from types import SimpleNamespace

import pytest

from quire.api import blobs, routing, server
from quire.api.app import ROUTES, build_app
from quire.api.authentication import Authenticator
from quire.api.routing import Route, json_response, read_json
from quire.model.errors import Misconfigured

SHORT = 0.05
NEVER = 1000.0


async def _nobody(text):
    return None


async def _json(context, request, caller):
    return json_response({"said": await read_json(request)})


async def _deaf(context, request, caller):
    return json_response({"deaf": True})


class CountingReceiver:
    """Counts what comes."""

    def __init__(self) -> None:
        self.taken = 0
        self.came = asyncio.Event()
        self.broken = asyncio.Event()

    async def receive(self, _token, body, **_):
        try:
            async for piece in body:
                self.taken += len(piece)
                self.came.set()
        except BaseException:
            self.broken.set()
            raise
        return "e"

    def read_download(self, _token):
        raise AssertionError


def _route(path, serve):
    return Route(
        method="POST", path=path, serve=serve, scope=None, name=path, about="", group="", contract=True
    )


@asynccontextmanager
async def serving(presigned=None):
    put = next(route for route in ROUTES if route.name == "putBytes")
    routes = (_route("/json", _json), _route("/deaf", _deaf), put)
    stop, started = asyncio.Event(), asyncio.Event()
    context = SimpleNamespace(ingest=SimpleNamespace(presigned=presigned), stopping=stop)
    app = build_app(context, Authenticator(_nobody, _nobody, anonymous=True, hosts=frozenset()), routes)
    sock = server.open_socket("127.0.0.1", 0)
    task = asyncio.create_task(server.serve(app, sock, stop, started))
    await started.wait()
    try:
        yield sock.getsockname()[1]
    finally:
        stop.set()
        await task
        sock.close()


@asynccontextmanager
async def connected(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def answered(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status = int(head.split()[1])
    headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
    assert headers["content-type"] == "application/json"
    return status, json.loads(await reader.readexactly(int(headers["content-length"])))


async def ended(reader):
    """Hung up on, with nothing more said."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(server, "HEADER_SECONDS", SHORT)


@pytest.mark.parametrize(
    "said",
    [b"", b"\r\n", b"P", b"POST /json HTTP/1.1\r\n", b"POST /json HTTP/1.1\r\nHost: x\r\nX-A: b"],
    ids=["nothing", "an empty line", "a letter", "a line", "half a header"],
)
async def test_who_does_not_finish_the_headers_is_hung_up_on(impatient, said):
    async with serving() as port, connected(port) as (reader, writer):
        writer.write(said)
        assert await ended(reader)


@pytest.mark.parametrize("then", [b"\r\n", b"P", b"POST /deaf HTTP/1.1\r\nHo"])
async def test_so_is_who_does_not_finish_those_of_the_next_request(monkeypatch, then):
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", NEVER)
    monkeypatch.setattr(server, "HEADER_SECONDS", SHORT)
    async with serving() as port, connected(port) as (reader, writer):
        writer.write(b"POST /deaf HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert await answered(reader) == (200, {"deaf": True})
        writer.write(then)
        assert await ended(reader)


async def test_so_is_who_never_ends_a_body_that_nobody_waits_for(monkeypatch):
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", NEVER)
    monkeypatch.setattr(server, "HEADER_SECONDS", SHORT)
    async with serving() as port, connected(port) as (reader, writer):
        writer.write(b"POST /deaf HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        assert await answered(reader) == (200, {"deaf": True})
        writer.write(b"x")
        assert await ended(reader)


async def test_a_connection_serves_several_requests():
    async with serving() as port, connected(port) as (reader, writer):
        for number in range(3):
            body = json.dumps(number).encode()
            writer.write(b"POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            assert await answered(reader) == (200, {"said": number})


async def test_small_answers_are_sent_at_once(monkeypatch):
    """Not after the 40 ms for which the other side waits with its acknowledgement."""
    seen = []

    def connection_made(self, transport):
        sock = transport.get_extra_info("socket")
        seen.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        made(self, transport)

    made = server._TimedProtocol.connection_made
    monkeypatch.setattr(server._TimedProtocol, "connection_made", connection_made)
    async with serving() as port, connected(port) as (reader, writer):
        writer.write(b"POST /deaf HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        await answered(reader)
    assert seen == [1]


async def test_headers_without_end_are_refused(monkeypatch):
    monkeypatch.setattr(server, "HEADER_BYTES", 1000)
    async with serving() as port, connected(port) as (reader, writer):
        writer.write(b"POST /json HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 2000)
        assert await answered(reader) == (431, {"error": "The headers are too large"})
        assert await ended(reader)


@pytest.mark.parametrize(
    "said",
    [
        b"NONSENSE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_answered_as_json(said):
    async with serving() as port, connected(port) as (reader, writer):
        writer.write(said)
        assert await answered(reader) == (400, {"error": "Invalid HTTP request received"})
        assert await ended(reader)


async def test_too_many_connections_are_told_to_come_again(monkeypatch):
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 1)
    request = b"POST /deaf HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    async with serving() as port, connected(port) as (first, writer):
        writer.write(request)
        assert await answered(first) == (200, {"deaf": True})
        async with connected(port) as (second, other):
            other.write(request)
            assert await answered(second) == (503, {"error": "Too many connections; come again soon"})


async def test_json_that_stalls_is_a_408(monkeypatch):
    monkeypatch.setattr(routing, "BODY_SECONDS", SHORT)
    async with serving() as port, connected(port) as (reader, writer):
        writer.write(b'POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"a"')
        words = "The body did not arrive in time; send it faster or in parts"
        assert await answered(reader) == (408, {"error": words})


async def test_bytes_that_stall_are_a_408_and_are_not_kept(monkeypatch):
    monkeypatch.setattr(blobs, "STALL_SECONDS", SHORT)
    presigned = CountingReceiver()
    async with serving(presigned) as port, connected(port) as (reader, writer):
        writer.write(b"PUT /blobs/t HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n123")
        assert await answered(reader) == (408, {"error": "The body stopped arriving; send it again"})
    assert presigned.taken == 3
    assert presigned.broken.is_set()


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 10\r\n\r\n123", b"Transfer-Encoding: chunked\r\n\r\n3\r\n123\r\n"]
)
async def test_bytes_that_are_cut_off_break_what_receives_them(framing):
    presigned = CountingReceiver()
    async with serving(presigned) as port:
        async with connected(port) as (_, writer):
            writer.write(b"PUT /blobs/t HTTP/1.1\r\nHost: x\r\n" + framing)
            await writer.drain()
        await asyncio.wait_for(presigned.broken.wait(), 10)


async def test_who_is_cut_off_at_the_end_is_no_fault_of_ours(monkeypatch, caplog):
    monkeypatch.setattr(server, "GRACE_SECONDS", SHORT)
    presigned = CountingReceiver()
    async with AsyncExitStack() as lasting, serving(presigned) as port:
        _, writer = await lasting.enter_async_context(connected(port))
        writer.write(b"PUT /blobs/t HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n123")
        await asyncio.wait_for(presigned.came.wait(), 10)
    assert presigned.broken.is_set()
    assert [record.exc_info for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize(("host", "advice"), [("no.such.invalid", "check --host"), ("127.0.0.1", "--port")])
def test_where_it_cannot_listen_it_says_what_to_do(host, advice):
    with closing(server.open_socket("127.0.0.1", 0)) as taken:
        taken.listen()
        with pytest.raises(Misconfigured, match=advice):
            server.open_socket(host, taken.getsockname()[1])
