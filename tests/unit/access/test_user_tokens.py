"""Tokens of users: what PyJWT signs is read, and nothing that was tampered with."""

import contextlib

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.access.user_tokens import UserTokens
from quire.model.errors import Reject
from quire.testing.time import FakeClock

SECRET = "a secret that nobody guesses, for tests"
GOOD = jwt.encode({"sub": "7"}, SECRET, algorithm="HS256")


def tokens(clock: FakeClock | None = None) -> UserTokens:
    return UserTokens(SECRET.encode(), clock or FakeClock())


@given(st.integers(0, 10**18 - 1))
def test_the_subject_of_a_token_is_read(user):
    for subject in (user, str(user)):
        assert tokens().identify(jwt.encode({"sub": subject}, SECRET, algorithm="HS256")) == str(user)


def test_a_token_ends_when_it_says():
    clock = FakeClock()
    text = jwt.encode({"sub": 7, "exp": int(clock.now()) + 100}, SECRET, algorithm="HS256")
    assert tokens(clock).identify(text) == "7"
    clock.advance(99)
    assert tokens(clock).identify(text) == "7"
    clock.advance(20)
    with pytest.raises(Reject):
        tokens(clock).identify(text)


@given(st.integers(0, len(GOOD) - 1), st.characters(codec="utf-8"))
def test_a_token_with_one_other_character_is_refused(place, character):
    other = GOOD[:place] + character + GOOD[place + 1 :]
    if other == GOOD:
        return
    user = None
    with contextlib.suppress(Reject):
        user = tokens().identify(other)
    # Base64 has bits to spare in its last character: another spelling of the same signature.
    assert user is None or (place, user) == (len(GOOD) - 1, "7")


@given(st.text(max_size=200))
def test_whatever_else_is_sent_is_refused(text):
    with pytest.raises(Reject):
        tokens().identify(text)
