"""Callback URLs: whoever has not the secret cannot make one, and nobody can bend one."""

from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from quire.batches.remote.attempts import AttemptAddress, CallbackAnswer, build_url, sign, verify
from quire.model.errors import Reject

SECRET = b"s" * 32
ABOUT = AttemptAddress(batch_id="01KA", task_id="tiff_3f0a", task_no=7, attempt=2)


def test_what_was_signed_passes():
    verify((SECRET,), ABOUT, sign(SECRET, ABOUT))


@pytest.mark.parametrize(
    "change",
    [
        {"batch_id": "01KB"},
        {"task_id": "tiff_3f0b"},
        {"task_no": 8},
        {"attempt": 3},
        {"batch_id": "01KA\0tiff_3f0a", "task_id": ""},
    ],
)
def test_a_signature_is_for_one_attempt(change):
    with pytest.raises(Reject) as caught:
        verify((SECRET,), structs.replace(ABOUT, **change), sign(SECRET, ABOUT))
    assert caught.value.code == "bad_signature"


@given(st.text(max_size=80))
def test_nothing_else_is_one(signature):
    with pytest.raises(Reject, match="not issued by this server"):
        verify((SECRET,), ABOUT, signature)


def test_another_secret_gives_another_signature():
    assert sign(b"t" * 32, ABOUT) != sign(SECRET, ABOUT)


def test_the_url_carries_all_that_is_needed_to_come_back():
    parts = urlsplit(build_url("https://quire.example/", SECRET, ABOUT))
    assert (parts.netloc, parts.path) == ("quire.example", "/callback/01KA/tiff_3f0a")
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    assert query == {"attempt": "2", "task": "7", "sig": sign(SECRET, ABOUT)}


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (CallbackAnswer(ok=True), {"ok": True}),
        (CallbackAnswer(ok=True, duplicate=True), {"ok": True, "duplicate": True}),
        (CallbackAnswer(ok=True, late=True), {"ok": True, "late": True}),
    ],
)
def test_an_answer_says_only_what_there_is_to_say(answer, body):
    assert msgspec.to_builtins(answer) == body
