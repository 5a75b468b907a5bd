"""What S3 servers answer to uploads on bad days, played by a scripted one: silence, errors, odd XML."""

import asyncio
import contextlib

import pytest

from quire.blobs.presigned_uploads import CompletedPart, StoredPart
from quire.blobs.s3.presigned_uploads import S3PresignedUploads
from quire.model.errors import Misconfigured, Missing, Reject, Retry
from quire.testing.time import FakeClock

SECRET = "do-not-tell-anyone"
PARTS = [CompletedPart(1, "a" * 32)]
BEGUN = (
    "<InitiateMultipartUploadResult xmlns='urn:x'><UploadId>u+1/=</UploadId></InitiateMultipartUploadResult>"
)
JOINED = (
    '<?xml version="1.0"?><CompleteMultipartUploadResult><ETag>"e-1"</ETag></CompleteMultipartUploadResult>'
)


def error(code):
    return f"<Error><Code>{code}</Code><Message>no</Message></Error>"


class Server:
    """Answers as the script says, one request to a connection; the last answer holds for ever."""

    def __init__(self):
        self.script = []
        self.requests = []

    async def connected(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.requests.append((head[0], headers, body.decode()))
            answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
            if answer is not None:
                status, content = answer
                content = content if isinstance(content, bytes) else content.encode()
                extra = 'etag: "e-1"\r\n' if head[0].startswith("HEAD") else ""
                writer.write(
                    f"HTTP/1.1 {status} X\r\nconnection: close\r\n{extra}"
                    f"content-length: {len(content)}\r\n\r\n".encode()
                    + (b"" if head[0].startswith("HEAD") else content)
                )
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@pytest.fixture
async def server():
    server = Server()
    running = await asyncio.start_server(server.connected, "127.0.0.1", 0)
    server.port = running.sockets[0].getsockname()[1]
    yield server
    running.close()
    await running.wait_closed()


def open_presigned(port, **more):
    async def at_once(_):
        return

    given = {
        "bucket": "bucket",
        "endpoint": f"http://127.0.0.1:{port}",
        "access_key_id": "key",
        "secret_access_key": SECRET,
        "allow_http": True,
        "timeout_seconds": 5,
        "pause": at_once,
    }
    return S3PresignedUploads(clock=FakeClock(), **{**given, **more})


@pytest.fixture
async def presigned(server):
    presigned = open_presigned(server.port)
    yield presigned
    await presigned.close()


async def test_an_upload_id_of_any_letters_is_escaped(presigned, server):
    server.script = [(200, BEGUN)]
    assert await presigned.begin("a b", content_type="image/tiff") == "u+1/="
    line, headers, _ = server.requests[0]
    assert line.startswith("POST /bucket/a%20b?")
    assert "&uploads=&" in line
    assert headers["content-type"] == "image/tiff"
    url = (await presigned.sign_parts("a b", "u+1/=", parts=1, seconds=60, base_url=""))[0]
    assert "partNumber=1&uploadId=u%2B1%2F%3D&X-Amz-Signature=" in url


async def test_a_join_is_well_formed_whatever_the_etags_are(presigned, server):
    server.script = [(200, JOINED), (200, "x" * 77)]
    stored = await presigned.join("k", "u", [CompletedPart(2, '"</ETag>&<'), CompletedPart(1, "a")])
    assert (stored.size, stored.version) == (77, '"e-1"')
    body = server.requests[0][2]
    assert "<PartNumber>1</PartNumber><ETag>&quot;a&quot;</ETag>" in body
    assert "&lt;/ETag&gt;&amp;&lt;&quot;</ETag>" in body


@pytest.mark.parametrize("bad", [None, (500, ""), (503, error("SlowDown")), (200, error("InternalError"))])
async def test_transient_faults_are_retried_and_then_reported(presigned, server, bad):
    server.script = [bad, bad, (200, BEGUN)]
    assert await presigned.begin("k", content_type="a/b") == "u+1/="
    server.script = [bad]
    for call in (
        presigned.begin("k", content_type="a/b"),
        presigned.list_parts("k", "u"),
        presigned.join("k", "u", PARTS),
        presigned.abort("k", "u"),
    ):
        server.requests.clear()
        with pytest.raises(Retry) as told:
            await call
        assert told.value.code == "storage_unavailable"
        assert len(server.requests) == 4
        assert SECRET not in str(told.value)
        assert "Signature" not in str(told.value)


async def test_a_join_whose_answer_was_lost_is_missing_at_the_next(presigned, server):
    server.script = [None, (404, error("NoSuchUpload"))]
    with pytest.raises(Missing):
        await presigned.join("k", "u", PARTS)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        ((200, error("InvalidPart")), Reject, "bad_parts"),
        ((400, error("InvalidPart")), Reject, "bad_parts"),
        ((400, error("InvalidPartOrder")), Reject, "bad_parts"),
        ((400, error("EntityTooSmall")), Reject, "bad_parts"),
        ((200, error("NoSuchUpload")), Missing, "missing"),
        ((404, error("NoSuchBucket")), Misconfigured, "no_bucket"),
        ((403, error("SignatureDoesNotMatch")), Misconfigured, "storage_denied"),
        ((403, error("RequestTimeTooSkewed")), Misconfigured, "clock_skew"),
        ((301, error("PermanentRedirect")), Misconfigured, "storage_refused"),
        ((501, ""), Misconfigured, "broken_store"),
        ((400, "not XML at all"), Misconfigured, "storage_refused"),
    ],
)
async def test_refusals_say_what_to_do(presigned, server, answer, kind, code):
    server.script = [answer]
    with pytest.raises(kind) as told:
        await presigned.join("k", "u", PARTS)
    assert told.value.code == code
    assert len(server.requests) == 1


async def test_blanks_ahead_of_an_answer_do_not_matter(presigned, server):
    server.script = [(200, "  \n\n " + JOINED), (200, "x")]
    assert (await presigned.join("k", "u", PARTS)).size == 1


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><x><UploadId>&b;</UploadId></x>'


@pytest.mark.parametrize(
    "content",
    [
        BOMB,
        BOMB.encode("utf-16"),
        "<x><UploadId></UploadId></x>",
        "<x>",
        "",
        b"\xff\xfe\x00",
        "<x><UploadId>u</UploadId>" + "<y/>" * 300_000 + "</x>",
    ],
    ids=["entities", "entities in UTF-16", "empty", "cut", "nothing", "not text", "too long"],
)
async def test_answers_that_are_none_are_refused(presigned, server, content):
    server.script = [(200, content)]
    with pytest.raises(Misconfigured) as told:
        await presigned.begin("k", content_type="a/b")
    assert told.value.code == "broken_store"


def listed(*numbers, following=None):
    rows = "".join(
        f"<Part><PartNumber>{no}</PartNumber><ETag>&quot;e{no}&quot;</ETag><Size>{no * 10}</Size></Part>"
        for no in numbers
    )
    marker = f"<NextPartNumberMarker>{following}</NextPartNumberMarker>" if following is not None else ""
    more = "true" if following is not None else "false"
    return (
        f"<ListPartsResult xmlns='urn:x'><Owner><ID>o</ID></Owner>{marker}<IsTruncated>{more}</IsTruncated>"
        f"{rows}</ListPartsResult>"
    )


async def test_parts_are_listed_page_by_page(presigned, server):
    server.script = [(200, listed(1, 2, following=2)), (200, listed(7, following=7)), (200, listed(1000))]
    parts = await presigned.list_parts("k", "u+1")
    assert parts == [StoredPart(no, f"e{no}", no * 10) for no in (1, 2, 7, 1000)]
    markers = [line.partition("part-number-marker=")[2].partition("&")[0] for line, _, _ in server.requests]
    assert markers == ["0", "2", "7"]
    assert "uploadId=u%2B1&" in server.requests[0][0]


@pytest.mark.parametrize(
    "content",
    [
        listed(1, following=0),
        listed(1, following=10_001),
        listed(1, following="x"),
        listed(1).replace("ListParts", "ListBuckets"),
        listed(1).replace("<Size>10", "<Size>ten"),
        listed(1).replace("ETag>", "Tag>"),
        listed(1).replace("false", "true"),
        "<!DOCTYPE x>" + listed(1),
        "",
    ],
    ids=["back", "beyond", "no number", "other", "size", "tag", "no marker", "DTD", "nothing"],
)
async def test_a_list_of_parts_that_is_none_is_refused(presigned, server, content):
    server.script = [(200, listed(1, following=1)), (200, content)]
    with pytest.raises(Misconfigured) as told:
        await presigned.list_parts("k", "u")
    assert told.value.code == "broken_store"
    assert len(server.requests) == 2


async def test_a_part_of_which_two_are_listed_is_none(presigned, server):
    server.script = [(200, listed(1, 2, 2, following=2)), (200, listed(3))]
    assert [part.number for part in await presigned.list_parts("k", "u")] == [1, 3]


async def test_parts_of_an_upload_that_is_not_there_are_missing(presigned, server):
    server.script = [(404, error("NoSuchUpload"))]
    with pytest.raises(Missing):
        await presigned.list_parts("k", "u")


async def test_an_address_without_a_server_is_reported(unused_tcp_port):
    presigned = open_presigned(unused_tcp_port)
    with pytest.raises(Retry) as told:
        await presigned.begin("k", content_type="a/b")
    assert told.value.code == "storage_unavailable"
    await presigned.close()
    await presigned.close()


async def test_uploaders_may_have_another_address_than_we(server):
    presigned = open_presigned(server.port, public_endpoint="https://store.example", prefix="archive")
    url = await presigned.sign_put("k", seconds=60, base_url="http://quire")
    assert url.startswith("https://store.example/bucket/archive/k?")
    server.script = [(200, BEGUN)]
    await presigned.begin("k", content_type="a/b")
    assert server.requests[0][0].startswith("POST /bucket/archive/k?")
    assert SECRET not in repr(presigned)
    await presigned.close()


async def test_without_an_endpoint_it_is_aws():
    presigned = open_presigned(0, endpoint=None, region="eu-west-3", allow_http=False)
    url = await presigned.sign_put("k", seconds=60, base_url="")
    assert url.startswith("https://s3.eu-west-3.amazonaws.com/bucket/k?")
    await presigned.close()


@pytest.mark.parametrize(
    "more", [{"public_endpoint": "http://store.example"}, {"endpoint": "http://a.example"}]
)
async def test_plain_http_must_be_allowed(more):
    given = {"endpoint": "https://a.example", "allow_http": False, **more}
    with pytest.raises(Misconfigured):
        open_presigned(0, **given)
