"""Whatever the bytes are: an envelope, or BadEnvelope, which knows whom to answer if anybody can know it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.situations.envelopes import ABSENT, COMPLETED, REQUEST, changed, written

from quire.model.envelope_reading import (
    failure_code,
    read_created_at,
    read_envelope,
    read_moment,
    read_ocr_completed,
    read_ocr_request,
    reply_address,
)
from quire.model.envelope_writing import encode_envelope
from quire.model.envelopes import (
    MAX_ENVELOPE_BYTES,
    BadEnvelope,
    JobEnvelope,
    MessageError,
    OcrCompleted,
    OcrRequest,
    ReplyAddress,
    Trace,
)
from quire.model.page_text import Tier

ADDRESS = ReplyAddress(
    reply_to="jarvis.recipes.jobs",
    job_id="5b0e",
    workflow_id="5b0e",
    source="jarvis-recipes-server",
    trace=Trace(request_id="r"),
    indices=(0, 4),
    language="de",
)


def test_a_request_is_read():
    request = read_ocr_request(written(REQUEST))
    assert [(one.kind, one.value, one.index) for one in request.payload.image_refs] == [
        ("s3", "s3://recipes/0.jpg", 0),
        ("local_path", "1.jpg", 4),
    ]
    assert (request.payload.options.language, request.attempt) == ("de", 1)
    assert reply_address(request) == ADDRESS


def test_a_completion_is_read():
    completed = read_ocr_completed(written(COMPLETED))
    (result,) = completed.payload.results
    assert (result.ocr_text, result.meta.tier, result.meta.confidence) == (
        "Pancakes\n2 eggs",
        Tier.TESSERACT,
        0.82,
    )
    assert completed.trace.parent_job_id == "5b0e"
    assert failure_code(completed) is None


@pytest.mark.parametrize("kind", ["url", "image", "ingestion", "recipe.import.url.requested", "new.kind"])
def test_any_other_job_keeps_its_payload(kind):
    envelope = changed(COMPLETED, job_type=kind, payload={"url": "https://x", "deep": {"er": [1, None]}})
    job = read_envelope(written(envelope))
    assert isinstance(job, JobEnvelope)
    assert (job.job_type, job.payload) == (kind, envelope["payload"])
    assert read_envelope(encode_envelope(job)).payload == envelope["payload"]


def test_the_job_type_decides_what_is_read():
    assert isinstance(read_envelope(written(REQUEST)), OcrRequest)
    assert isinstance(read_envelope(written(COMPLETED)), OcrCompleted)
    with pytest.raises(BadEnvelope):
        read_ocr_completed(written(REQUEST))


BAD = [
    {"schema_version": 2},
    {"schema_version": None},
    {"job_type": "ocr.completed"},
    {"job_type": None},
    {"attempt": 0},
    {"attempt": "many"},
    {"attempt": 10**18},
    {"attempt": 1e30},
    {"payload__image_refs__1__index": 2**53 + 1},
    {"payload__image_refs__1__index": 1e300},
    {"created_at": "yesterday"},
    {"created_at": 7},
    {"target": ""},
    {"target": ABSENT},
    {"payload": None},
    {"payload__image_refs": {}},
    {"payload__image_refs__1__index": 0},
    {"payload__image_count": 3},
    {"payload__image_count": None},
]


@pytest.mark.parametrize("changes", BAD)
def test_the_sender_of_a_bad_request_can_be_answered(changes):
    with pytest.raises(BadEnvelope) as caught:
        read_ocr_request(written(changed(REQUEST, **changes)))
    assert caught.value.code == "bad_request"
    reply = caught.value.reply
    assert (reply.reply_to, reply.job_id, reply.source) == ("jarvis.recipes.jobs", "5b0e", ADDRESS.source)
    assert reply.trace == ADDRESS.trace


def test_the_answer_names_the_pictures_that_can_be_named():
    refs = [{"kind": "http", "value": "x", "index": 4}, {"index": 1}, {"index": -1}, {"index": True}, None]
    with pytest.raises(BadEnvelope) as caught:
        read_ocr_request(written(changed(REQUEST, payload__image_refs=refs)))
    assert (caught.value.reply.indices, caught.value.reply.language) == ((1, 4), "de")


@pytest.mark.parametrize("name", ["reply_to", "workflow_id", "source", "job_id", "trace"])
@pytest.mark.parametrize("value", [ABSENT, None, 7, [], "", "x" * 501])
def test_without_any_of_these_nobody_can_be_answered(name, value):
    with pytest.raises(BadEnvelope) as caught:
        read_ocr_request(written(changed(REQUEST, schema_version=3, **{name: value})))
    assert caught.value.reply is None


@pytest.mark.parametrize("name", ["two words", "line\nbreak", "nul\0", "x" * 201, "\u202e"])
def test_an_answer_goes_to_queues_alone(name):
    with pytest.raises(BadEnvelope) as caught:
        read_ocr_request(written(changed(REQUEST, reply_to=name)))
    assert caught.value.reply is None


HOSTILE = [
    b"",
    b"null",
    b"[]",
    b"7",
    b'"text"',
    b"{",
    b"\xff\xfe\x00",
    b"\x80\x04\x95",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"payload":' * 65 + b"{}" + b"}" * 65,
    b'{"job_type":"\\ud800"}',
    b'{"attempt":' + b"9" * 5000 + b"}",
    b'{"attempt":1e400}',
    b'{"attempt":NaN}',
    b" " * (MAX_ENVELOPE_BYTES + 1),
]


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("read", [read_envelope, read_ocr_request, read_ocr_completed])
def test_hostile_bytes_are_refused(read, body):
    with pytest.raises(BadEnvelope) as caught:
        read(body)
    assert caught.value.reply is None
    assert len(str(caught.value)) < 600
    assert read_created_at(body) is None


def test_the_size_is_checked_before_anything_is_decoded():
    large = written(changed(REQUEST, padding="x" * MAX_ENVELOPE_BYTES))
    with pytest.raises(BadEnvelope, match="the limit is") as caught:
        read_ocr_request(large)
    assert caught.value.reply is None


def test_a_free_payload_may_be_nested_but_not_without_end():
    def nested(levels):
        value = {}
        for _ in range(levels):
            value = {"in": value}
        return written(changed(COMPLETED, job_type="ingestion", payload=value))

    assert isinstance(read_envelope(nested(60)), JobEnvelope)
    with pytest.raises(BadEnvelope, match="nested"):
        read_envelope(nested(64))


def test_two_nulls_are_no_error():
    nulls = {"message": None, "code": None}
    completed = read_ocr_completed(written(changed(COMPLETED, payload__error=nulls)))
    assert completed.payload.error is None


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        (
            {
                "payload__error": {"message": None, "code": None},
                "payload__results__0__error": {"message": "m", "code": "ocr_no_valid_output"},
            },
            "ocr_no_valid_output",
        ),
        ({"payload__error": {"message": "m", "code": "bad_request"}, "payload__results": []}, "bad_request"),
        ({"payload__results": []}, "ocr_no_results"),
        ({}, "ocr_no_results"),
    ],
)
def test_the_code_of_a_failure_is_found_where_it_is(changes, code):
    completed = read_ocr_completed(written(changed(COMPLETED, payload__status="failed", **changes)))
    assert failure_code(completed) == code


@pytest.mark.parametrize(
    ("written_tier", "tier"),
    [
        ("rapidocr", Tier.PADDLEOCR),
        ("unknown", Tier.TESSERACT),
        ("new", Tier.TESSERACT),
        ("easyocr", Tier.EASYOCR),
    ],
)
def test_no_tier_costs_a_text(written_tier, tier):
    completed = read_ocr_completed(written(changed(COMPLETED, payload__results__0__meta__tier=written_tier)))
    assert completed.payload.results[0].meta.tier is tier


def test_results_come_in_the_order_of_their_index_and_each_once():
    result = COMPLETED["payload"]["results"][0]
    results = [result | {"index": index} for index in (2, 0, 1)]
    read = read_ocr_completed(written(changed(COMPLETED, payload__results=results)))
    assert [one.index for one in read.payload.results] == [0, 1, 2]
    with pytest.raises(BadEnvelope):
        read_ocr_completed(written(changed(COMPLETED, payload__results=[result, result])))


def test_a_result_without_meta_has_no_valid_text():
    result = {
        "index": 0,
        "ocr_text": None,
        "meta": None,
        "error": {"message": "m", "code": "image_not_found"},
    }
    (read,) = read_ocr_completed(written(changed(COMPLETED, payload__results=[result]))).payload.results
    assert (read.ocr_text, read.meta.is_valid) == ("", False)
    assert read.error == MessageError(message="m", code="image_not_found")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00:10", 10.0),
        ("1970-01-01T00:00:10.500000", 10.5),
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T02:00:10+02:00", 10.0),
        ("0001-01-01T00:00:00+23:00", None),
        ("soon", None),
        ("", None),
    ],
)
def test_moments_without_a_zone_are_utc(text, moment):
    assert read_moment(text) == moment


def test_the_moment_of_a_message_is_found_without_reading_the_rest():
    assert read_created_at(written({"created_at": "1970-01-01T00:00:10", "job_type": 7})) == 10
    for value in (None, 7, [], "x"):
        assert read_created_at(written({"created_at": value})) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PATHS = [
    *(name for name in REQUEST),
    *(f"payload__{name}" for name in ("image_refs", "options", "image_count", "results", "status", "error")),
    *(f"payload__image_refs__0__{name}" for name in ("kind", "value", "index")),
    *(f"payload__results__0__{name}" for name in ("index", "ocr_text", "truncated", "meta", "error")),
    *(f"payload__results__0__meta__{name}" for name in ("confidence", "tier", "language", "text_len")),
]


@given(st.sampled_from([REQUEST, COMPLETED]), st.sampled_from(PATHS), JSON)
def test_anything_in_any_place_is_an_envelope_or_refused(valid, path, value):
    try:
        envelope = changed(valid, **{path: value})
    except (KeyError, IndexError):
        return
    try:
        read = read_envelope(written(envelope))
    except BadEnvelope:
        return
    assert read.schema_version == 1
    assert read.attempt >= 1
    if isinstance(read, OcrCompleted):
        assert [one.index for one in read.payload.results] == sorted(
            {one.index for one in read.payload.results}
        )
        assert failure_code(read) or read.payload.status == "success"
    if isinstance(read, JobEnvelope | OcrRequest):
        assert read_envelope(encode_envelope(read)).job_id == read.job_id


@given(st.binary(max_size=200) | JSON.map(json.dumps).map(str.encode))
def test_any_bytes_are_an_envelope_or_refused(body):
    for read in (read_envelope, read_ocr_request, read_ocr_completed):
        with pytest.raises(BadEnvelope):
            read(body)


@pytest.mark.parametrize(("confidence", "expected"), [(10**400, 1.0), (-(10**400), 0.0), (1, 1.0)])
def test_a_confidence_may_be_any_number(confidence, expected):
    result = {"index": 0, "ocr_text": "x", "meta": {"confidence": confidence}}
    completed = read_ocr_completed(written(changed(COMPLETED, payload__results=[result])))
    assert [one.meta.confidence for one in completed.payload.results] == [expected]
