"""Tokens: what we signed comes back, everything else is refused without a crash."""

import base64
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.blobs.local.tokens import Grant, Tokens
from quire.model.errors import Misconfigured, Reject
from quire.testing.time import FakeClock

CLOCK = FakeClock(1000.0)
TOKENS = Tokens(b"k" * 32, CLOCK)
FIT = set(string.ascii_letters + string.digits + "-_.")
GRANT = Grant("PUT", "staging/a b", 2000, "ab" * 16, 7)


def refusal(token, method="PUT", tokens=TOKENS):
    with pytest.raises(Reject) as refused:
        tokens.read(token, method=method)
    return refused.value.code


@given(
    st.builds(
        Grant,
        st.sampled_from(["PUT", "GET"]),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
        st.integers(1001, 1 << 40),
        st.text(string.hexdigits, max_size=32),
        st.integers(0, 10_000),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    )
)
def test_what_was_signed_comes_back(grant):
    token = TOKENS.sign(grant)
    assert set(token) <= FIT
    assert TOKENS.read(token, method=grant.method) == grant


@given(st.one_of(st.text(), st.text(sorted(FIT)), st.binary().map(lambda data: data.decode("latin-1"))))
def test_garbage_is_refused(text):
    assert refusal(text) == "bad_signature"


@given(st.binary(max_size=200))
def test_even_signed_garbage_is_refused(data):
    said = base64.urlsafe_b64encode(data).rstrip(b"=")
    token = (said + b"." + TOKENS._signature(said)).decode()
    assert refusal(token) in {"bad_signature", "url_expired"}


def test_no_letter_can_be_altered():
    token = TOKENS.sign(GRANT)
    for at, letter in enumerate(token):
        for other in FIT - {letter}:
            assert refusal(token[:at] + other + token[at + 1 :]) == "bad_signature"
    for other in (token + "A", token + "=", token[:-1], token.partition(".")[0], token + ".", "." + token):
        assert refusal(other) == "bad_signature"


def test_a_token_is_for_its_method_and_its_time():
    token = TOKENS.sign(GRANT)
    assert refusal(token, "GET") == "bad_signature"
    clock = FakeClock(1999.9)
    tokens = Tokens(b"k" * 32, clock)
    assert tokens.read(token, method="PUT") == GRANT
    clock.advance(0.1)
    assert refusal(token, tokens=tokens) == "url_expired"


def test_another_secret_signs_otherwise():
    assert refusal(TOKENS.sign(GRANT), tokens=Tokens(b"l" * 32, CLOCK)) == "bad_signature"
    with pytest.raises(Misconfigured):
        Tokens(b"short", CLOCK)
