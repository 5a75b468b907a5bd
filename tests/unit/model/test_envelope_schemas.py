"""The schemas from the structs are the locked ones; what is accepted and refused is the same under both."""

import json
from pathlib import Path

import jsonschema
import pytest
from tests.situations.envelopes import ABSENT, COMPLETED, REQUEST, changed

from quire.model.envelope_reading import read_ocr_completed, read_ocr_request
from quire.model.envelope_schemas import build_schema
from quire.model.envelope_writing import encode_envelope
from quire.model.envelopes import BadEnvelope, JobEnvelope, OcrCompleted, OcrRequest
from quire.model.errors import Reject

FOLDER = Path(__file__).parent / "locked_schemas"
LOCKED = {
    OcrRequest: json.loads((FOLDER / "ocr_request.json").read_text()),
    OcrCompleted: json.loads((FOLDER / "ocr_completed.json").read_text()),
}
ERROR = {"message": "m", "code": "c"}
# Reading forgives these to an answer: nothing depends on them.
FORGIVEN = [(COMPLETED, {"reply_to": ABSENT}), (COMPLETED, {"trace": ABSENT})]


def in_one_order(schema):
    """Lists whose order says nothing are sorted."""
    if isinstance(schema, dict):
        return {
            key: sorted(value) if key in {"required", "enum"} else in_one_order(value)
            for key, value in schema.items()
        }
    return schema


@pytest.mark.parametrize("kind", LOCKED)
def test_the_generated_schema_is_the_locked_one(kind):
    assert in_one_order(build_schema(kind)) == in_one_order(LOCKED[kind])


@pytest.mark.parametrize("kind", [*LOCKED, JobEnvelope])
def test_it_is_a_schema(kind):
    jsonschema.Draft202012Validator.check_schema(build_schema(kind))


ACCEPTED = [
    *((REQUEST, changes) for changes in (
        {},
        {"attempt": 7},
        {"attempt": 1.0},
        {"job_id": ""},
        {"payload__options": ABSENT},
        {"payload__options__language": ABSENT},
        {"payload__image_refs": [{"kind": "db", "value": "7", "index": 12}]},
        {"trace": {"request_id": None, "parent_job_id": "p"}},
        {"reply_to": "another.list"},
    )),
    *((COMPLETED, changes) for changes in (
        {},
        {"reply_to": "a.list"},
        {"payload__status": "failed", "payload__error": ERROR},
        {"payload__error": {"message": None, "code": None}},
        {"payload__artifact_ref": {"any": ["thing"]}},
        {"payload__results__0__error": ERROR},
        {"payload__results__0__meta__confidence": 1},
        {"payload__results__0__meta__tier": "llm_cloud"},
        {"payload__results__0__ocr_text": ""},
    )),
]  # fmt: skip
REFUSED = [
    *((REQUEST, {name: ABSENT}) for name in REQUEST),
    *((COMPLETED, {name: ABSENT}) for name in COMPLETED),
    *((REQUEST, changes) for changes in (
        {"schema_version": 2},
        {"schema_version": True},
        {"job_id": 7},
        {"job_type": "ocr.completed"},
        {"source": ""},
        {"target": ""},
        {"attempt": 0},
        {"attempt": "1"},
        {"attempt": True},
        {"reply_to": ""},
        {"reply_to": None},
        {"payload": []},
        {"payload__image_refs": []},
        {"payload__image_refs": ABSENT},
        {"payload__image_refs": [{"kind": "s3", "value": "v", "index": index} for index in range(9)]},
        {"payload__image_refs__0__kind": "http"},
        {"payload__image_refs__0__value": ""},
        {"payload__image_refs__0__index": -1},
        {"payload__image_refs__0__index": 0.5},
        {"payload__image_refs__0__value": ABSENT},
        {"payload__options__language": 7},
        {"trace__request_id": 7},
    )),
    *((COMPLETED, changes) for changes in (
        {"payload__status": "partial"},
        {"payload__results": ABSENT},
        {"payload__results__0__index": "0"},
        {"payload__results__0__meta__confidence": "high"},
        {"payload__results__0__meta__is_valid": None},
        {"payload__error": "text"},
        {"payload__artifact_ref": []},
        {"payload__results": [COMPLETED["payload"]["results"][0] | {"index": one} for one in range(9)]},
    )),
]  # fmt: skip
# Written by published programs, understood by our reading, and never written by us.
DEVIATIONS = [
    *((REQUEST, changes) for changes in (
        {"more": 1},
        {"payload__image_count": 2},
        {"payload__image_refs__0__more": 1},
        {"payload__options": None},
        {"payload__options__language": ""},
    )),
    *((COMPLETED, changes) for changes in (
        {"payload__results": []},
        {"payload__results__0__meta__tier": "rapidocr"},
        {"payload__results__0__meta__tier": "unknown"},
        {"payload__results__0__meta__validation_reason": "looks fine"},
        {"payload__results__0__meta__confidence": 1.5},
        {"trace__more": 1},
    )),
]  # fmt: skip


def schemas_of(envelope):
    kind = OcrRequest if envelope is REQUEST else OcrCompleted
    return [jsonschema.Draft202012Validator(one) for one in (LOCKED[kind], build_schema(kind))]


def reader_of(envelope):
    return read_ocr_request if envelope is REQUEST else read_ocr_completed


@pytest.mark.parametrize(("valid", "changes"), ACCEPTED)
def test_what_the_locked_schema_accepts_we_accept(valid, changes):
    envelope = changed(valid, **changes)
    assert [schema.is_valid(envelope) for schema in schemas_of(valid)] == [True, True]
    encoded = encode_envelope(reader_of(valid)(json.dumps(envelope).encode()))
    assert [schema.is_valid(json.loads(encoded)) for schema in schemas_of(valid)] == [True, True]


@pytest.mark.parametrize(("valid", "changes"), REFUSED)
def test_what_the_locked_schema_refuses_we_refuse(valid, changes):
    envelope = changed(valid, **changes)
    assert [schema.is_valid(envelope) for schema in schemas_of(valid)] == [False, False]
    if (valid, changes) in FORGIVEN:
        assert reader_of(valid)(json.dumps(envelope).encode()).job_id == "c1d2"
    else:
        with pytest.raises(BadEnvelope):
            reader_of(valid)(json.dumps(envelope).encode())


@pytest.mark.parametrize(("valid", "changes"), DEVIATIONS)
def test_deviations_are_read_and_what_is_written_after_them_is_valid(valid, changes):
    envelope = changed(valid, **changes)
    assert not any(schema.is_valid(envelope) for schema in schemas_of(valid))
    read = reader_of(valid)(json.dumps(envelope).encode())
    if changes == {"payload__results": []}:
        with pytest.raises(Reject):
            encode_envelope(read)
        return
    encoded = json.loads(encode_envelope(read))
    assert all(schema.is_valid(encoded) for schema in schemas_of(valid))
