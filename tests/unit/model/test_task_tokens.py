"""Tokens of tasks: whoever has not the secret cannot make one, and nobody can bend one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.model.errors import Reject
from quire.model.task_tokens import MAX_CHARACTERS, TokenAddress, issue_token, read_token

SECRET, FORMER = b"s" * 32, b"f" * 32
ADDRESS = TokenAddress("01KA0000000000000000000000", 1 << 40, 2)


def test_a_token_names_its_attempt_and_fits_into_a_url():
    token = issue_token(SECRET, ADDRESS)
    assert read_token((SECRET,), token) == ADDRESS
    assert len(token) <= MAX_CHARACTERS
    assert token.replace(".", "").isalnum()


def test_former_secrets_are_good_and_others_are_not():
    token = issue_token(FORMER, ADDRESS)
    assert read_token((SECRET, FORMER), token) == ADDRESS
    with pytest.raises(Reject) as caught:
        read_token((SECRET,), token)
    assert caught.value.code == "bad_signature"


@given(st.integers(0, 200), st.characters())
def test_a_bent_token_is_refused(place, character):
    token = issue_token(SECRET, ADDRESS)
    at = place % len(token)
    bent = token[:at] + character + token[at + 1 :]
    if bent != token:
        with pytest.raises(Reject):
            read_token((SECRET,), bent)


@given(st.text(max_size=300))
def test_nothing_else_is_one(text):
    with pytest.raises(Reject):
        read_token((SECRET,), text)
