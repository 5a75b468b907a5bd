"""Which keys are good ones, and what the built ones look like."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.blobs import keys
from quire.model.errors import Reject

ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
DIGEST = "ab" * 32


def test_built_keys_have_their_places():
    assert keys.content(DIGEST) == f"cas/ab/{DIGEST}"
    assert keys.manifest(ULID) == f"batches/{ULID}/manifest.json"
    assert keys.probe(ULID, "race") == f"probe/{ULID}/race"


@pytest.mark.parametrize("text", ["", "../x", ULID.lower(), ULID + "/", DIGEST + "\n", DIGEST[:-1], "é" * 26])
def test_no_other_text_gets_into_a_built_key(text):
    for build in (keys.content, keys.manifest, keys.probe):
        with pytest.raises(Reject) as refused:
            build(text)
        assert refused.value.code == "bad_key"


@given(st.text(max_size=40))
def test_a_key_is_good_or_refused_with_a_reason(text):
    try:
        assert keys.check(text) == text
    except Reject as refused:
        assert refused.code == "bad_key"  # noqa: PT017 - both ends are right
    else:
        segments = text.split("/")
        assert not {"", ".", ".."} & set(segments)
        assert "\\" not in text
        assert all(ord(letter) >= 32 for letter in text)
        assert segments[0].casefold() not in keys.RESERVED


def test_folders_end_with_one_slash():
    assert [keys.folder(text) for text in ("", "a", "a/b/")] == ["", "a/", "a/b/"]
    for text in ("/", "a//", "../"):
        with pytest.raises(Reject):
            keys.folder(text)


def test_the_message_says_what_is_wrong_and_stays_short():
    with pytest.raises(Reject, match=r"longer than 1024 bytes") as refused:
        keys.check("n/" * 9000 + "n")
    assert len(str(refused.value)) < 300
