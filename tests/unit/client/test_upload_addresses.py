"""Bytes go to the place that the server has promised for them, or nowhere."""

from urllib.parse import quote

import pytest
from tests.standins.ingest_server import MIB, IngestServer, running
from tests.unit.client.test_folder_upload import Uploads

from quire.blobs.local.tokens import Grant, Tokens
from quire.client.upload_addresses import check_address, check_key
from quire.model.errors import Misconfigured
from quire.testing.time import FakeClock

BATCH = "01KA0000000000000000000000"
KEY = f"staging/{BATCH}/fonds/page 001 +#%é.tif"
ESCAPED = quote(KEY)


def token(method="PUT", key=KEY, part=0):
    grant = Grant(method, key, 4_000_000_000, "u-9" if part else "", part)
    return Tokens(b"s" * 32, FakeClock()).sign(grant)


@pytest.mark.parametrize(
    "url",
    [
        f"https://bucket.store.example/{ESCAPED}?X-Amz-Signature=ab",
        f"https://store.example/bucket/{ESCAPED}?X-Amz-Signature=ab",
        f"https://store.example/bucket/in/side/{ESCAPED}?partNumber=1&uploadId=u",
        f"http://[::1]:9000/bucket/{ESCAPED}",
        f"https://store.example/{quote(KEY, safe='')}",  # slashes escaped too
        f"https://store.example/{quote(KEY, safe='/+')}",
        f"https://store.example/{ESCAPED.replace('%C3', '%c3')}",
        f"https://quire.example/blobs/{token()}",
        f"https://quire.example/below/blobs/{token(part=2)}",
    ],
)
def test_an_address_of_the_key_is_taken(url):
    check_address(url, KEY)


@pytest.mark.parametrize(
    "url",
    [
        f"https://store.example/bucket/staging/{BATCH}/fonds/other.tif",
        f"https://store.example/bucket/{ESCAPED}x",
        f"https://store.example/bucket/{ESCAPED}/x",
        f"https://store.example/bucket/x{ESCAPED}",  # no whole segment
        f"https://store.example/bucket?/{ESCAPED}",
        f"https://store.example/bucket#/{ESCAPED}",
        f"https://store.example/bucket/{quote(ESCAPED)}",  # escaped twice
        f"https://store.example/bucket/{ESCAPED.replace('%20', '+')}",  # a plus is a plus
        f"https://store.example/bucket/../{ESCAPED}",
        f"https://store.example/bucket/%2e%2e/{ESCAPED}",
        f"https://store.example/bucket/{ESCAPED.replace('%C3%A9', '%E9')}",  # not UTF-8
        f"https://store.example/{ESCAPED.upper()}",
        f"https://quire.example/blobs/{token(key=KEY + 'x')}",
        f"https://quire.example/blobs/{token(method='GET')}",
        "https://quire.example/blobs/AAAA.BBBB",
        "https://quire.example/blobs/",
        "https://store.example",
    ],
)
def test_any_other_place_is_refused(url):
    with pytest.raises(Misconfigured, match="Nothing was sent") as refused:
        check_address(url, KEY)
    assert refused.value.code == "wrong_server"
    assert "X-Amz" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/staging/x",
        f"file:///{ESCAPED}",
        f"ftp://store.example/{ESCAPED}",
        f"https://user:secret@store.example/{ESCAPED}",
        f"https:///{ESCAPED}",
        f"https://store.example\\@other.example/{ESCAPED}",
        f"https://store.example/\n{ESCAPED}",
        f"https://[::1/{ESCAPED}",
        f"https://store.example/{'a' * 20_000}/{ESCAPED}",
    ],
)
def test_what_is_no_address_of_the_web_is_refused(url):
    with pytest.raises(Misconfigured, match="Nothing was sent") as refused:
        check_address(url, KEY)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "key", [f"staging/{BATCH}/a/b é.txt", f"staging/{BATCH}//a/b é.txt", f"staging/{BATCH}/a/b e\u0301.txt"]
)
def test_the_key_is_that_of_the_file_in_its_batch(key):
    check_key(key, BATCH, "/a/b é.txt")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "a/b é.txt",
        f"staging/{BATCH}/a/c.txt",
        f"staging/{BATCH[:-1]}1/a/b é.txt",
        f"/staging/{BATCH}/a/b é.txt",
    ],
)
def test_any_other_key_is_refused(key):
    with pytest.raises(Misconfigured, match="not the place of this file"):
        check_key(key, BATCH, "/a/b é.txt")


@pytest.fixture(params=[False, True], ids=["ours", "original"])
def server(request):
    with running(IngestServer(original=request.param)) as server:
        yield server


def swapped(answer, other):
    """As a proxy gives it that mixes up two answers."""
    text = {"presigned_url": answer.get("presigned_url", "")}
    text["presigned_url"] = text["presigned_url"].replace("a.txt", other)
    return answer | text


def parts_elsewhere(answer):
    urls = [one | {"url": one["url"].replace("large.bin", "a.txt")} for one in answer["presigned_urls"][-1:]]
    return answer | {"presigned_urls": [*answer["presigned_urls"][:-1], *urls]}


@pytest.mark.parametrize(
    ("name", "size", "lie"),
    [
        ("a.txt", 9, lambda answer: swapped(answer, "b.txt")),
        ("a.txt", 9, lambda answer: answer | {"r2_key": answer["r2_key"].replace("a.txt", "b.txt")}),
        ("a.txt", 9, lambda answer: swapped(answer | {"r2_key": "staging/x/a.txt"}, "a.txt")),
        ("a.txt", 9, lambda answer: answer | {"presigned_url": "http://127.0.0.1:1/a.txt"}),
        (
            "a.txt",
            9,
            lambda answer: answer | {"presigned_url": answer["presigned_url"].replace("/store/", "/%2e/")},
        ),
        ("large.bin", 12 * MIB, parts_elsewhere),
    ],
)
async def test_a_server_that_lies_gets_no_byte(tmp_path, server, name, size, lie):
    uploads = Uploads(tmp_path, server)
    uploads.write(name, bytes(size))
    server.lie = lie
    with pytest.raises(Misconfigured, match="Nothing was sent"):
        await uploads()
    assert server.paths("PUT") == []
    assert server.objects == {}
    assert server.closed() == []
    # When the server has been corrected, the same command goes on.
    server.lie = lambda answer: answer
    if not server.original:
        ended = await uploads()
        assert (ended.finalized, ended.sent) == (True, 1)
