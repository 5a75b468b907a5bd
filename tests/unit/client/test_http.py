"""The client speaks the published protocol, tries again what passes, and repeats a server's words safely."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standins.ingest_server import Fault, IngestServer, running

from quire.client.answers import IncompleteUpload, clean_text, translate_refusal, translate_store_refusal
from quire.client.http import ClientRetries, FileAnnouncement, IngestClient
from quire.model.errors import Misconfigured, Missing, QuireError, Reject, Retry
from quire.testing.time import FakeClock

INIT = {"uploader": "ana", "root_path": "/", "parent_pi": "", "file_count": 1, "total_size": 3}
FILE = FileAnnouncement(
    file_name="a.txt",
    file_size=3,
    logical_path="/a.txt",
    content_type="text/plain",
    processing_config={"ocr": True, "describe": True, "pinax": True},
)


@pytest.fixture
def server():
    with running(IngestServer(verify=False)) as server:
        yield server


class Slept(list):
    async def __call__(self, seconds):
        self.append(seconds)


@pytest.fixture
def slept():
    return Slept()


@pytest.fixture
async def client(server, slept):
    async with made(server.url, slept) as client:
        yield client


def made(url, slept, **more):
    return IngestClient(url, clock=FakeClock(), sleep=slept, fraction=lambda: 0.5, **more)


async def body():
    yield b"ab"
    yield b"c"


async def test_a_batch_is_opened_filled_and_closed(client, server):
    opened = await client.init(INIT, "key-1")
    started = await client.start(opened.batch_id, FILE)
    assert await client.put(started.presigned_url, body, 3, "text/plain")
    await client.complete(opened.batch_id, started.r2_key)
    closed = await client.finalize(opened.batch_id)
    assert (closed.status, closed.files_uploaded, closed.total_bytes) == ("preprocessing", 1, 3)
    status = await client.status(opened.batch_id)
    assert [(file.logical_path, file.status) for file in status.files] == [("/a.txt", "completed")]
    assert server.requests[0][2]["idempotency-key"] == "key-1"


@pytest.mark.parametrize("status", [500, 502, 503, 408])
async def test_what_passes_is_tried_again_later_each_time(client, server, slept, status):
    server.faults += [Fault("init", status=status)] * 3
    await client.init(INIT, None)
    assert slept == [1.0, 2.0, 4.0]
    assert len(server.batches) == 1


async def test_it_is_not_tried_for_ever(client, server, slept):
    server.faults += [Fault("init", status=500)] * 9
    with pytest.raises(Retry, match=r"a fault.*gave up after 5 attempts") as caught:
        await client.init(INIT, None)
    assert caught.value.code == "server_unavailable"
    assert len(slept) == 4


async def test_a_cut_connection_is_tried_again(client, server, slept):
    server.faults.append(Fault("init", lost=True))
    opened = await client.init(INIT, "same")
    assert len(slept) == 1
    assert list(server.batches) == [opened.batch_id]  # the key made it the same batch


async def test_nobody_there_is_an_error_without_the_address(slept):
    async with made("http://127.0.0.1:9", slept, retries=ClientRetries(attempts=2)) as client:
        with pytest.raises(Retry, match="cannot be reached"):
            await client.status("01KA")


@pytest.mark.parametrize(
    ("after", "wait"),
    [("0", 0.0), ("7", 7.0), ("999999", 300.0), ("Tue, 14 Nov 2023 22:13:30 GMT", 10.0), ("soon", 1.0)],
)
async def test_retry_after_is_honoured(client, server, slept, after, wait):
    server.faults.append(Fault("init", status=429, headers={"retry-after": after}))
    await client.init(INIT, None)
    assert slept == [wait]


async def test_bytes_are_sent_from_their_beginning_again(client, server):
    opened = await client.init(INIT, None)
    started = await client.start(opened.batch_id, FILE)
    server.faults += [Fault("PUT", status=503, body=b"<html>"), Fault("PUT", lost=True)]
    await client.put(started.presigned_url, body, 3, "text/plain")
    assert server.objects[started.r2_key] == b"abc"


async def test_the_key_is_for_the_service_alone(slept):
    with running(IngestServer(key="s3cret", verify=False)) as server:
        async with made(server.url, slept) as anonymous:
            with pytest.raises(Misconfigured, match="QUIRE_UPLOAD_KEY"):
                await anonymous.init(INIT, None)
        async with made(server.url, slept, key="s3cret") as client:
            opened = await client.init(INIT, None)
            started = await client.start(opened.batch_id, FILE)
            await client.put(started.presigned_url, body, 3, "text/plain")
        assert "authorization" not in server.requests[-1][2]


@pytest.mark.parametrize("quoted", [True, False])
async def test_tags_come_without_quotes(client, server, quoted):
    server.quoted = quoted
    opened = await client.init(INIT, None)
    started = await client.start(opened.batch_id, FILE)
    assert '"' not in await client.put(started.presigned_url, body, 3, "text/plain")


async def test_an_unknown_batch_is_missing(client):
    with pytest.raises(Missing, match="Batch not found"):
        await client.status("01KA" + "0" * 22)


async def test_what_is_no_batch_id_stays_inside_the_path(client, server):
    with pytest.raises(Missing):
        await client.status("../../secret?x#y")
    assert server.requests[-1][1].startswith("/api/batches/")


async def test_a_batch_that_misses_files_says_which(client):
    opened = await client.init(INIT, None)
    await client.start(opened.batch_id, FILE)
    with pytest.raises(IncompleteUpload, match=r"a\.txt"):
        await client.finalize(opened.batch_id)
    with pytest.raises(Reject, match="No files uploaded"):
        await client.finalize(opened.batch_id, skip_incomplete=True)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"<html>not found</html>"),
        (301, b""),
        (400, b"no"),
        (405, b'"text"'),
        (200, b"[]"),
        (200, b"<p>"),
    ],
)
async def test_another_kind_of_server_is_recognised(client, server, status, body):
    server.faults.append(Fault("init", status=status, body=body))
    with pytest.raises(Misconfigured, match="--to") as caught:
        await client.init(INIT, None)
    assert caught.value.code == "wrong_server"


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:999999", "nonsense"])
async def test_an_address_that_cannot_be_used_says_so(slept, url):
    async with made(url, slept, retries=ClientRetries(attempts=1)) as client:
        with pytest.raises(QuireError):
            await client.status("01KA")


PROBLEM = b'{"type":"about:blank","title":"Too large","status":413,"detail":"5 GiB are \\u001b[31mthe limit"}'


def test_problems_of_rfc_9457_are_told_in_their_words():
    error = translate_refusal(413, {}, PROBLEM, now=0)
    assert isinstance(error, Reject)
    assert "Too large; 5 GiB are [31mthe limit" in str(error)


def test_a_store_s_xml_is_told_in_its_words():
    body = b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"
    error = translate_store_refusal(403, {}, body, now=0)
    assert isinstance(error, Reject)  # this file alone: links expire
    assert "Request has expired" in str(error)


@given(
    st.integers(300, 599),
    st.binary(max_size=200) | st.text().map(lambda text: json.dumps({"error": text}).encode()),
)
def test_any_refusal_becomes_an_error_of_one_clean_line(status, body):
    for error in (
        translate_refusal(status, {}, body, now=0),
        translate_store_refusal(status, {}, body, now=0),
    ):
        assert str(error).isprintable() or not str(error).isascii()
        assert "\n" not in str(error)
        assert len(str(error)) < 1000


@given(st.text(max_size=1000))
def test_clean_text_is_short_and_steers_nothing(text):
    cleaned = clean_text(text)
    assert len(cleaned) <= 300
    assert not any(ord(one) < 32 or one in "\x7f\u202e\u2028" for one in cleaned)
