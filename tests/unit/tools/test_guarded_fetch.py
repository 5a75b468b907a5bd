"""The guarded GET: where it goes, where redirects may lead, how much is read, and that it ends."""

import gzip
import ssl
import subprocess
import zlib

import pytest
from tests.standins.raw_web_server import never_beginning, never_ending, redirect, reply, web_server

from quire.model.errors import Reject, Retry
from quire.tools.guarded_fetch import GuardedFetcher

INSIDE = GuardedFetcher(allow_private=True)


def resolving(*addresses, then=()):
    """Leads to `addresses`, and after the first question to `then`."""
    answers = [list(addresses), list(then or addresses)]

    async def resolve(_host, _port):
        return answers[0] if len(answers) == 1 else answers.pop(0)

    return resolve


async def fetch(url, fetcher=INSIDE, *, max_bytes=1000, timeout_seconds=20.0, **options):
    return await fetcher.fetch(url, max_bytes=max_bytes, timeout_seconds=timeout_seconds, **options)


async def refusal(url, fetcher=INSIDE, error=Reject, **options):
    with pytest.raises(error) as caught:
        await fetch(url, fetcher, **options)
    return caught.value.code


async def test_a_page_comes_with_its_type_and_its_final_address():
    async with web_server(a=redirect("/b?q=1#part"), b=reply(b"soup", content_type="text/plain")) as web:
        found = await fetch(web.url("/a"))
    assert (found.status, found.body, found.content_type) == (200, b"soup", "text/plain")
    assert found.final_url == web.url("/b?q=1")
    assert web.asked[0].headers["host"] == f"127.0.0.1:{web.port}"


async def test_a_status_that_is_no_success_is_an_answer():
    async with web_server(gone=reply(b"", "503 Busy", retry_after="7")) as web:
        found = await fetch(web.url("/gone"))
    assert (found.status, found.is_success, found.retry_after) == (503, False, "7")


async def test_only_the_head_is_asked_for_where_that_is_enough():
    async with web_server(a=reply(b"", content_type="image/png")) as web:
        assert (await fetch(web.url("/a"), method="HEAD")).content_type == "image/png"
        assert web.asked[0].line.startswith("HEAD ")


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "100.64.0.1", "fc00::1"],
)
async def test_one_address_inside_refuses_the_name(address):
    fetcher = GuardedFetcher(resolve=resolving("8.8.8.8", address))
    assert await refusal("https://pictures.example/1.jpg", fetcher) == "address_refused"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "[::1]", "localhost"])
async def test_this_machine_is_not_asked_whatever_it_is_written_like(host):
    async with web_server(a=reply(b"secret")) as web:
        with pytest.raises(Reject):
            await fetch(web.url("/a", host), GuardedFetcher())
        assert web.asked == []


@pytest.mark.parametrize(
    "place",
    ["http://169.254.169.254/latest", "//169.254.169.254/", "http://[fe80::1]/", "ftp://h/", "http://u:p@h/"],
)
async def test_a_redirect_is_checked_like_the_first_address(place):
    async with web_server(a=redirect(place)) as web:
        assert await refusal(web.url("/a")) in {"address_refused", "bad_url"}


async def test_a_redirect_from_outside_to_this_machine_is_refused():
    # The first name leads to this server as if it were public; only loopback by its own address is refused.
    async with web_server(inner=reply(b"secret")) as web:
        web.answers["/a"] = redirect(f"http://inner.example:{web.port}/inner")

        async def resolve(host, _port):
            return ["127.0.0.1"] if host == "outside.example" else ["169.254.169.254", "127.0.0.1"]

        fetcher = GuardedFetcher(allow_private=True, resolve=resolve)
        assert await refusal(web.url("/a", "outside.example"), fetcher) == "address_refused"
        assert [one.line for one in web.asked] == ["GET /a HTTP/1.1"]


async def test_the_connection_goes_to_the_address_that_was_checked():
    # A name that leads elsewhere a moment later is asked once: nothing resolves it again.
    async with web_server(a=reply(b"soup")) as web:
        fetcher = GuardedFetcher(allow_private=True, resolve=resolving("127.0.0.1", then=["169.254.169.254"]))
        assert (await fetch(web.url("/a", "rebinding.example"), fetcher)).body == b"soup"
        assert web.asked[0].headers["host"] == f"rebinding.example:{web.port}"


async def test_a_name_that_leads_inside_the_second_time_is_refused_after_a_redirect():
    async with web_server(a=redirect("/b"), b=reply(b"soup")) as web:
        fetcher = GuardedFetcher(allow_private=True, resolve=resolving("127.0.0.1", then=["169.254.169.254"]))
        assert await refusal(web.url("/a", "rebinding.example"), fetcher) == "address_refused"


async def test_redirects_end():
    async with web_server(a=redirect("/a")) as web:
        assert await refusal(web.url("/a")) == "too_many_redirects"
        assert len(web.asked) == 6


async def test_five_redirects_are_followed():
    steps = {f"r{number}": redirect(f"/r{number + 1}") for number in range(5)}
    async with web_server(**steps, r5=reply(b"there")) as web:
        assert (await fetch(web.url("/r0"))).body == b"there"


async def test_credentials_stay_with_their_origin():
    headers = {"Authorization": "Bearer word", "Cookie": "a=1", "Accept": "text/html"}
    async with web_server(b=reply(b"there")) as other, web_server(a=redirect("/c")) as web:
        web.answers["/c"] = redirect(other.url("/b"))
        await fetch(web.url("/a"), headers=headers)
        assert web.asked[1].headers["authorization"] == "Bearer word"
        assert other.asked[0].headers["accept"] == "text/html"
        assert not {"authorization", "cookie"} & set(other.asked[0].headers)


async def test_a_body_without_an_end_is_cut_off():
    async with web_server(a=never_ending) as web:
        assert await refusal(web.url("/a")) == "too_large"


async def test_a_body_that_is_announced_too_large_is_not_read():
    async with web_server(a=reply(b"x" * 10, content_length="999999999999999")) as web:
        assert await refusal(web.url("/a")) == "too_large"


async def test_a_body_of_exactly_the_limit_fits():
    async with web_server(a=reply(b"x" * 1000), b=reply(b"x" * 1001)) as web:
        assert len((await fetch(web.url("/a"))).body) == 1000
        assert await refusal(web.url("/b")) == "too_large"


async def test_a_packed_page_is_unpacked_up_to_the_limit():
    bomb = gzip.compress(b"\0" * 5_000_000)
    async with web_server(
        good=reply(gzip.compress(b"soup"), content_encoding="gzip"),
        zlib=reply(zlib.compress(b"stew"), content_encoding="deflate"),
        bomb=reply(bomb, content_encoding="gzip"),
        wrong=reply(b"no gzip", content_encoding="gzip"),
        strange=reply(b"soup", content_encoding="br"),
        short=reply(gzip.compress(b"soup" * 50)[:-9], content_encoding="gzip"),
    ) as web:
        assert (await fetch(web.url("/good"))).body == b"soup"
        assert (await fetch(web.url("/zlib"))).body == b"stew"
        assert await refusal(web.url("/bomb"), max_bytes=100_000) == "too_large"
        assert await refusal(web.url("/wrong")) == "bad_encoding"
        assert await refusal(web.url("/strange")) == "bad_encoding"
        assert await refusal(web.url("/short"), error=Retry) == "no_answer"


async def test_it_ends_in_time():
    async with web_server(a=never_beginning) as web:
        assert await refusal(web.url("/a"), error=Retry, timeout_seconds=0.2) == "timeout"


async def test_where_nobody_listens_may_be_tried_again():
    async with web_server() as web:
        url = web.url("/")
    assert await refusal(url, error=Retry) == "no_answer"


async def test_no_proxy_is_asked(monkeypatch):
    async with web_server() as proxy, web_server(a=reply(b"soup")) as web:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url("/"))
        assert (await fetch(web.url("/a"))).body == b"soup"
        assert proxy.asked == []


@pytest.mark.parametrize(
    "url", ["", "file:///etc/passwd", "https://u:p@h/", "gopher://h/", "https://h/" + "x" * 8000]
)
async def test_what_is_no_url_is_refused(url):
    assert await refusal(url) == "bad_url"
    with pytest.raises(Reject):
        INSIDE.check_url(url)


def test_a_url_can_be_checked_before_it_is_fetched():
    assert GuardedFetcher().check_url("https://pictures.example/1.jpg")
    with pytest.raises(Reject, match=r"closed\.networks"):
        GuardedFetcher(setting="closed.networks").check_url("http://10.0.0.1/")


async def test_the_certificate_is_that_of_the_name(tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += [
        "-days",
        "2",
        "-subj",
        "/CN=pictures.example",
        "-addext",
        "subjectAltName=DNS:pictures.example",
    ]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    trusted = ssl.create_default_context(cafile=str(certificate))
    fetcher = GuardedFetcher(allow_private=True, resolve=resolving("127.0.0.1"), tls=trusted)
    async with web_server(tls=serving, a=reply(b"soup")) as web:
        assert (await fetch(f"https://pictures.example:{web.port}/a", fetcher)).body == b"soup"
        assert await refusal(f"https://other.example:{web.port}/a", fetcher, Retry) == "no_answer"
