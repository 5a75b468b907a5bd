"""Envelopes: what is written is read again, what is too large is stored, what is wrong is refused."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.compute.queue import envelopes
from quire.compute.queue.envelopes import Task, TaskEnvelope
from quire.model.errors import Missing, Reject
from quire.model.work import ExternalRequest, Order, Outcome, StepCall, StepResult, Value
from quire.queues.port import MAX_MESSAGE_BYTES
from quire.testing.factories import file, product, report
from quire.testing.memory_blobs import MemoryBlobs

SENDER = "0123456789abcdef-" + "0" * 26
CALL = StepCall(step="copy", version=1, options={"a": [1, "b"]}, timeout_seconds=5.0)
TASK = Task(CALL, Order(1, 2, 3, file("a/b.tif")))
ENVELOPE = TaskEnvelope(
    schema_version=1, sender=SENDER, batch_no=1, serial=7, start_by=10.0, proof="cas/aa/proof"
)


def read_told(body):
    return envelopes.read_report(body, f"t-reports-{SENDER}")


READERS = (envelopes.read_envelope, read_told, envelopes.read_recall)


@pytest.fixture
def blobs():
    return MemoryBlobs()


async def test_what_is_packed_is_read(blobs):
    body = await envelopes.pack_task(ENVELOPE, TASK, blobs)
    assert await envelopes.load_task(envelopes.read_envelope(body), blobs) == TASK
    done = report(result=StepResult(products=(product(facts={"width": 3}),), facts={"pages": 1}))
    told = read_told(await envelopes.pack_report(SENDER, done, blobs))
    assert (told.sender, await envelopes.load_report(told, blobs)) == (SENDER, done)
    recall = envelopes.read_recall(envelopes.pack_recall(SENDER, 4, 9))
    assert (recall.sender, recall.batch_no, recall.serial) == (SENDER, 4, 9)


async def test_values_and_requests_travel_unchanged(blobs):
    stored = Value(key=f"cas/{'a' * 2}/{'a' * 64}", size=5000, digest="a" * 64)
    asked = Task(
        msgspec.structs.replace(CALL, asynchronous=True, at_once=3, resource="model"),
        Order(1, 2, 3, file(), (), {"notes": Value(data={"score": 0.5}), "long": stored}),
    )
    body = await envelopes.pack_task(ENVELOPE, asked, blobs)
    assert await envelopes.load_task(envelopes.read_envelope(body), blobs) == asked
    outside = ExternalRequest(queue="work", body=b"\x00\xffplease", within_seconds=60)
    result = StepResult(products=(product(name="a", change="join"),), value=stored, tags=("t",))
    waiting = report(outcome=Outcome.EXTERNAL, result=result, request=outside)
    told = read_told(await envelopes.pack_report(SENDER, waiting, blobs))
    assert await envelopes.load_report(told, blobs) == waiting


async def test_what_is_too_large_is_stored_and_told_by_its_digest(blobs):
    long = "x" * MAX_MESSAGE_BYTES
    done = report(result=StepResult(facts={"text": long}))
    body = await envelopes.pack_report(SENDER, done, blobs)
    assert len(body) < 300
    told = read_told(body)
    assert await envelopes.load_report(told, blobs) == done
    big = Task(msgspec.structs.replace(CALL, options={"text": long}), TASK.order)
    body = await envelopes.pack_task(ENVELOPE, big, blobs)
    assert len(body) < 400
    assert await envelopes.load_task(envelopes.read_envelope(body), blobs) == big
    with pytest.raises(Missing):
        await envelopes.load_report(told, MemoryBlobs())


async def test_what_is_far_too_large_is_refused(blobs, monkeypatch):
    monkeypatch.setattr(envelopes, "MAX_STORED_BYTES", MAX_MESSAGE_BYTES)
    done = report(result=StepResult(facts={"text": "x" * MAX_MESSAGE_BYTES}))
    with pytest.raises(Reject, match="let the step write a file instead"):
        await envelopes.pack_report(SENDER, done, blobs)


async def changed(blobs, **changes):
    said = json.loads(await envelopes.pack_task(ENVELOPE, TASK, blobs))
    return json.dumps(said | changes).encode()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"schema_version": 2}, "wrong_schema_version"),
        ({"schema_version": "1"}, "bad_message"),
        ({"house": "../other"}, "bad_message"),
        ({"house": SENDER + "\n"}, "bad_message"),
        ({"serial": -1}, "bad_message"),
        ({"more": 1}, "bad_message"),
        ({"stored": "f" * 64}, "bad_message"),
        ({"stored": "../x"}, "bad_message"),
        ({"task": None}, "bad_message"),
        ({"start_by": "soon"}, "bad_message"),
    ],
)
async def test_a_wrong_envelope_is_refused_by_name(blobs, changes, code):
    with pytest.raises(Reject) as refused:
        envelopes.read_envelope(await changed(blobs, **changes))
    assert refused.value.code == code


@pytest.mark.parametrize(
    "call",
    [
        {"timeout_seconds": 0},
        {"page_seconds": -1},
        {"timeout_seconds": 1e9},
        {"memory_mb": 0},
        {"stall_seconds": -1},
        {"at_once": -1},
    ],
)
async def test_limits_that_cannot_be_are_refused(blobs, call):
    task = Task(msgspec.structs.replace(CALL, **call), TASK.order)
    with pytest.raises(Reject, match="limits"):
        envelopes.read_envelope(await envelopes.pack_task(ENVELOPE, task, blobs))


@pytest.mark.parametrize(
    "one",
    [
        report(known=True),
        report(delay_seconds=1e12),
        report(result=StepResult(products=(product(key="../../etc/passwd"),))),
        report(result=StepResult(value=Value(key="other", digest="a" * 64))),
        report(result=StepResult(value=Value(key="other"))),
        report(result=StepResult(value=Value(digest="../x"))),
        report(outcome=Outcome.EXTERNAL),
        report(request=ExternalRequest()),
        report(outcome=Outcome.EXTERNAL, request=ExternalRequest(within_seconds=-1)),
    ],
)
async def test_reports_that_cannot_be_are_refused(blobs, one):
    with pytest.raises(Reject):
        read_told(await envelopes.pack_report(SENDER, one, blobs))


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_read_or_refused(body):
    for read in READERS:
        with pytest.raises(Reject):
            read(body)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["house", "batch_no", "serial", "start_by", "proof", "task", "stored", "report"]),
        _JSON,
    )
)
def test_any_json_is_read_or_refused(said):
    for read in READERS:
        try:
            read(json.dumps(said | {"schema_version": 1}).encode())
        except Reject:
            continue


def test_a_message_over_the_limit_is_refused_before_it_is_read():
    with pytest.raises(Reject) as refused:
        envelopes.read_envelope(b" " * (MAX_MESSAGE_BYTES + 1))
    assert refused.value.code == "message_too_large"
