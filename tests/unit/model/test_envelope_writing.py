"""What is written is valid, complete and in order, whatever the results were."""

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from quire.model.envelope_reading import failure_code, read_ocr_completed, read_ocr_request
from quire.model.envelope_writing import (
    build_completion,
    build_failed_completion,
    build_image_failure,
    build_image_text,
    build_ocr_request,
    cut_text,
    encode_envelope,
)
from quire.model.envelopes import MAX_ENVELOPE_BYTES, MAX_TEXT_BYTES, ImageRef, ReplyAddress, Trace
from quire.model.errors import Reject
from quire.model.page_text import Tier

FOLDER = Path(__file__).parent / "locked_schemas"
COMPLETED = jsonschema.Draft202012Validator(json.loads((FOLDER / "ocr_completed.json").read_text()))
REQUEST = jsonschema.Draft202012Validator(json.loads((FOLDER / "ocr_request.json").read_text()))
ADDRESS = ReplyAddress(
    reply_to="r",
    job_id="parent",
    workflow_id="w",
    source="jarvis-recipes-server",
    trace=Trace(request_id="q", parent_job_id="other"),
    indices=(0, 2, 5),
)


def text_of(index, text="Pancakes", *, is_valid=True, confidence=0.8):
    return build_image_text(
        index, text, language="en", confidence=confidence, is_valid=is_valid, tier=Tier.TESSERACT
    )


def completion(*results, to=ADDRESS):
    return build_completion(to, results, job_id="fresh", now=0.5)


def test_a_completion_answers_its_request():
    made = completion(text_of(0), text_of(2), text_of(5))
    assert (made.job_id, made.workflow_id, made.job_type) == ("fresh", "w", "ocr.completed")
    assert (made.source, made.target, made.reply_to) == ("jarvis-ocr-service", "jarvis-recipes-server", None)
    assert made.trace == Trace(request_id="q", parent_job_id="parent")
    assert (made.attempt, made.created_at) == (1, "1970-01-01T00:00:00.500Z")
    COMPLETED.validate(json.loads(encode_envelope(made)))
    assert read_ocr_completed(encode_envelope(made)) == made


def test_there_is_one_result_for_each_picture_in_order():
    made = completion(text_of(5), text_of(7), text_of(0))
    assert [(one.index, one.error is None) for one in made.payload.results] == [
        (0, True),
        (2, False),
        (5, True),
    ]
    assert (made.payload.status, made.payload.error) == ("success", None)


def test_without_any_valid_text_the_job_has_failed_with_the_first_code():
    gone = build_image_failure(2, "image_not_found", "gone")
    made = completion(text_of(0, is_valid=False), gone, text_of(5, is_valid=False))
    assert made.payload.status == "failed"
    assert failure_code(made) == "image_not_found"
    doubtful = completion(*(text_of(index, is_valid=False) for index in ADDRESS.indices))
    assert failure_code(doubtful) == "ocr_no_valid_output"


@pytest.mark.parametrize("indices", [(), (3,), tuple(range(8))])
def test_a_failed_job_has_its_error_for_each_picture(indices):
    to = structs.replace(ADDRESS, indices=indices)
    made = build_failed_completion(to, code="bad_request", message="x" * 2000, job_id="fresh", now=0)
    assert [one.index for one in made.payload.results] == list(indices or (0,))
    assert {one.error.code for one in made.payload.results} == {"bad_request"}
    COMPLETED.validate(json.loads(encode_envelope(made)))


@pytest.mark.parametrize("text", ["", "a", "ä" * 30, "🙂" * 30, "aä漢🙂" * 9, "\ud800x\x00"])
@pytest.mark.parametrize("most", [0, 1, 2, 3, 4, 5, 50, 10**6])
def test_a_text_is_cut_between_characters(text, most):
    kept, was_cut = cut_text(text, most)
    whole = text.encode("utf-8", "replace").decode()
    assert whole.startswith(kept)
    assert len(kept.encode()) <= most
    assert was_cut == (kept != whole)
    assert not was_cut or len((kept + whole[len(kept)]).encode()) > most


@given(st.text(alphabet=st.characters(codec=None)), st.integers(0, 40))
def test_any_text_is_cut_between_characters(text, most):
    kept, was_cut = cut_text(text, most)
    assert len(kept.encode()) <= most
    assert was_cut or kept == text.encode("utf-8", "replace").decode()


def test_a_text_of_exactly_the_limit_is_not_cut():
    exact = text_of(0, "x" * MAX_TEXT_BYTES)
    longer = text_of(0, "x" * (MAX_TEXT_BYTES - 1) + "ä")
    assert (exact.truncated, exact.meta.text_len) == (False, 51_200)
    assert (longer.truncated, longer.meta.text_len) == (True, 51_199)


def test_the_longest_completion_fits():
    to = structs.replace(ADDRESS, indices=tuple(range(8)))
    worst = [text_of(index, "\x01" * MAX_TEXT_BYTES) for index in range(8)]
    body = encode_envelope(completion(*worst, to=to))
    assert len(body) < MAX_ENVELOPE_BYTES
    assert read_ocr_completed(body).payload.results[7].ocr_text == "\x01" * MAX_TEXT_BYTES


def test_where_messages_must_be_small_texts_are_cut_and_say_so():
    to = structs.replace(ADDRESS, indices=(0, 1))
    made = completion(text_of(0, "short"), text_of(1, "ä" * 20_000), to=to)
    body = encode_envelope(made, max_bytes=12_000)
    short, long = read_ocr_completed(body).payload.results
    assert len(body) <= 12_000
    assert (short.ocr_text, short.truncated) == ("short", False)
    assert long.truncated
    assert long.meta.text_len == len(long.ocr_text.encode()) > 5_000
    COMPLETED.validate(json.loads(body))
    with pytest.raises(Reject, match="limit") as caught:
        encode_envelope(made, max_bytes=500)
    assert caught.value.code == "bad_envelope"


def test_a_request_is_its_own_workflow():
    refs = [ImageRef(kind="local_path", value="a.jpg", index=0)]
    made = build_ocr_request(job_id="j", source="me", reply_to="q", image_refs=refs, now=1, request_id="r")
    assert (made.job_id, made.workflow_id, made.target) == ("j", "j", "jarvis-ocr-service")
    body = encode_envelope(made)
    REQUEST.validate(json.loads(body))
    assert read_ocr_request(body) == made


@pytest.mark.parametrize(
    ("given_at", "written_at"),
    [
        ("2026-01-10T12:00:00.123456", "2026-01-10T12:00:00.123456Z"),
        ("2026-01-10T12:00:00", "2026-01-10T12:00:00.000000Z"),
        ("2026-01-10T14:00:00+02:00", "2026-01-10T12:00:00.000000Z"),
        ("2026-01-10T12:00:00Z", "2026-01-10T12:00:00Z"),
    ],
)
def test_moments_are_written_in_utc_with_their_zone(given_at, written_at):
    made = structs.replace(completion(text_of(0)), created_at=given_at)
    assert json.loads(encode_envelope(made))["created_at"] == written_at


@pytest.mark.parametrize(
    "changes",
    [
        {"source": "somebody else"},
        {"job_type": "ocr.extract_text.requested"},
        {"schema_version": 2},
        {"target": ""},
        {"attempt": 0},
        {"created_at": "now"},
        {"workflow_id": "\ud800"},
    ],
)
def test_an_invalid_envelope_is_not_written(changes):
    with pytest.raises(Reject) as caught:
        encode_envelope(structs.replace(completion(text_of(0)), **changes))
    assert caught.value.code == "bad_envelope"


def test_an_index_twice_is_not_written():
    made = completion(text_of(0))
    payload = structs.replace(made.payload, results=(text_of(0), text_of(0)))
    with pytest.raises(Reject, match="same index"):
        encode_envelope(structs.replace(made, payload=payload))


@given(
    st.lists(st.tuples(st.integers(0, 9), st.text(alphabet=st.characters(codec=None)), st.booleans())),
    st.sets(st.integers(0, 9), max_size=8),
    st.floats(allow_nan=False),
)
def test_whatever_the_results_what_is_written_is_valid(found, indices, confidence):
    results = [text_of(index, text, is_valid=valid, confidence=confidence) for index, text, valid in found]
    made = completion(*results, to=structs.replace(ADDRESS, indices=tuple(sorted(indices))))
    body = encode_envelope(made)
    COMPLETED.validate(msgspec.json.decode(body))
    assert read_ocr_completed(body) == made
