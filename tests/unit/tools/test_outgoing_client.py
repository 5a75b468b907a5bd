"""The guarded POST: where it goes, where it does not, and that it ends."""

import asyncio
import socket
import ssl
import subprocess

import pytest
from tests.standins.webhook_receiver import Reply, receiver

from quire.model.errors import Reject, Retry
from quire.tools.outgoing_client import MOST_READ_BYTES, OutgoingClient


def resolving(*addresses):
    asked = []

    async def resolve(host, port):
        asked.append((host, port))
        return list(addresses)

    resolve.asked = asked
    return resolve


async def post(outgoing, url, body=b"{}", **headers):
    return await outgoing.post(url, body=body, headers=headers)


@pytest.fixture
def inside():
    """One that may call this machine."""
    return OutgoingClient(allow_private=True, timeout_seconds=10)


async def test_a_request_arrives_as_it_was_sent(inside):
    with receiver(Reply(200, {"Retry-After": "7"}, b"thanks")) as there:
        answer = await post(inside, there.url("/in?a=1#part"), b"abc", **{"x-own": "1"})
        assert (answer.status, answer.retry_after) == (200, "7")
        (got,) = there.received
    assert (got.path, got.body, got.headers["x-own"]) == ("/in?a=1", b"abc", "1")
    assert got.headers["host"] == f"127.0.0.1:{there.port}"


async def test_the_name_is_resolved_once_and_kept_in_the_host_header():
    resolve = resolving("127.0.0.1")
    outgoing = OutgoingClient(allow_private=True, resolve=resolve)
    with receiver() as there:
        await post(outgoing, f"http://hooks.example:{there.port}/in")
        assert there.received[0].headers["host"] == f"hooks.example:{there.port}"
    assert resolve.asked == [("hooks.example", there.port)]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "0.0.0.0",  # noqa: S104
        "::1",
        "::ffff:127.0.0.1",
        "fe80::1",
        "224.0.0.1",
    ],
)
async def test_a_name_that_leads_inside_is_refused_for_good(address):
    outgoing = OutgoingClient(resolve=resolving("8.8.8.8", address))
    with pytest.raises(Reject) as caught:
        await post(outgoing, "https://hooks.example/in")
    assert caught.value.code == "address_refused"
    assert address not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "[::1]", "localhost", "0"])
async def test_this_machine_is_not_called_whatever_it_is_written_like(host):
    with receiver() as there:
        with pytest.raises(Reject):
            await post(OutgoingClient(), f"http://{host}:{there.port}/in")
        assert there.received == []


async def test_where_clouds_hand_out_credentials_is_never_called():
    outgoing = OutgoingClient(allow_private=True, resolve=resolving("169.254.169.254"))
    with pytest.raises(Reject):
        await post(outgoing, "http://metadata.example/latest")


@pytest.mark.parametrize(
    "url",
    [
        *("", "hooks.example/in", "ftp://hooks.example", "file:///etc/passwd", "gopher://hooks.example"),
        *("https://", "https:///in", "https://user:word@hooks.example/", "https://user@hooks.example/"),
        *("https://hooks.example:0/", "https://hooks.example:70000/", "https://hooks.example:x/"),
        *("https://hooks.example/\n", "https://[::1", "javascript:alert(1)", "https://h/" + "x" * 2000),
    ],
)
async def test_what_is_no_such_url_is_refused(url):
    outgoing = OutgoingClient(resolve=resolving("8.8.8.8"))
    for asked in (lambda: outgoing.check_url(url), None):
        with pytest.raises(Reject) as caught:
            asked() if asked else await post(outgoing, url)
        assert caught.value.code == "bad_url"


def test_a_url_is_checked_before_anything_is_sent():
    assert OutgoingClient().check_url("https://hooks.example/in") == "https://hooks.example/in"
    for url in ("http://10.0.0.1/", "http://localhost:8080/", "http://[fe80::1]/", "http://LOCALHOST./"):
        with pytest.raises(Reject):
            OutgoingClient().check_url(url)
    inside = OutgoingClient(allow_private=True)
    assert inside.check_url("http://localhost/")
    assert inside.check_url("http://10.0.0.1/")
    with pytest.raises(Reject):
        inside.check_url("http://169.254.169.254/")


async def test_a_redirect_is_not_followed(inside):
    with receiver() as elsewhere, receiver(Reply(302, {"Location": elsewhere.url()})) as there:
        assert (await post(inside, there.url())).status == 302
        assert elsewhere.received == []


async def test_little_is_read_of_a_long_answer(inside):
    with receiver(Reply(200, {}, b"x" * 100 * MOST_READ_BYTES)) as there:
        assert (await post(inside, there.url())).status == 200


async def test_a_packed_answer_is_not_unpacked(inside):
    with receiver(Reply(200, {"Content-Encoding": "gzip"}, b"no gzip at all")) as there:
        assert (await post(inside, there.url())).status == 200
        assert there.received[0].headers["accept-encoding"] == "identity"


async def test_it_ends_in_time():
    with receiver(Reply(held=True)) as there:
        outgoing = OutgoingClient(allow_private=True, timeout_seconds=0.2)
        with pytest.raises(Retry) as caught:
            await post(outgoing, there.url())
    assert caught.value.code == "no_answer"


async def test_a_resolver_that_hangs_is_not_waited_for():
    async def resolve(_host, _port):
        await asyncio.Event().wait()

    with pytest.raises(Retry):
        await post(OutgoingClient(timeout_seconds=0.05, resolve=resolve), "https://hooks.example/in")


async def test_a_name_that_cannot_be_resolved_may_be_tried_again():
    async def resolve(_host, _port):
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    for refused in (resolve, resolving()):
        with pytest.raises(Retry) as caught:
            await post(OutgoingClient(resolve=refused), "https://hooks.example/in")
        assert caught.value.code == "no_answer"


async def test_where_nobody_listens_may_be_tried_again(inside):
    with receiver() as there:
        url = there.url()
    with pytest.raises(Retry) as caught:
        await post(inside, url)
    assert caught.value.code == "no_answer"


async def test_the_next_address_is_tried_when_no_connection_comes_about():
    with receiver() as there:
        # Nobody listens on this one: the receiver has the first address of the machine alone.
        outgoing = OutgoingClient(allow_private=True, resolve=resolving("127.0.0.9", "127.0.0.1"))
        assert (await post(outgoing, f"http://hooks.example:{there.port}/in")).status == 204


async def test_an_answer_that_is_no_http_may_be_tried_again(inside):
    async def babble(reader, writer):
        writer.write(b"SSH-2.0-hello\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    with pytest.raises(Retry):
        await post(inside, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    server.close()
    await server.wait_closed()


async def test_no_proxy_is_asked(inside, monkeypatch):
    with receiver() as proxy, receiver() as there:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url("/"))
        await post(inside, there.url())
        assert (len(proxy.received), len(there.received)) == (0, 1)


async def test_the_certificate_is_that_of_the_name(tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=hooks.example", "-addext", "subjectAltName=DNS:hooks.example"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    names = []
    serving.sni_callback = lambda _socket, name, _context: names.append(name)
    outgoing = OutgoingClient(
        allow_private=True,
        resolve=resolving("127.0.0.1"),
        tls=ssl.create_default_context(cafile=str(certificate)),
    )
    with receiver(tls=serving) as there:
        assert (await post(outgoing, f"https://hooks.example:{there.port}/in")).status == 204
        with pytest.raises(Retry):
            await post(outgoing, f"https://other.example:{there.port}/in")
        with pytest.raises(Retry):
            await post(
                OutgoingClient(allow_private=True, resolve=resolving("127.0.0.1")),
                f"https://hooks.example:{there.port}/in",
            )
    assert names[:2] == ["hooks.example", "other.example"]
    assert len(there.received) == 1
