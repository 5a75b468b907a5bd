"""A raw block's identifier and the SHA-256 in it."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.model.cid import cid_of, sha256_of

EMPTY = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"
HELLO = "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e"  # of b"hello world"


@pytest.mark.parametrize(("data", "cid"), [(b"", EMPTY), (b"hello world", HELLO)])
def test_known_files_have_their_known_identifiers(data, cid):
    assert cid_of(hashlib.sha256(data).digest()) == cid
    assert sha256_of(cid) == hashlib.sha256(data).digest()


@given(st.binary(min_size=32, max_size=32))
def test_every_digest_comes_back(digest):
    assert cid_of(digest).startswith("bafkrei")
    assert sha256_of(cid_of(digest)) == digest


@given(
    st.text(max_size=80)
    | st.text("abcdefghijklmnopqrstuvwxyz234567", min_size=58, max_size=58).map("b".__add__)
)
def test_any_text_is_an_identifier_in_its_one_spelling_or_none(text):
    digest = sha256_of(text)
    assert digest is None or cid_of(digest) == text


@pytest.mark.parametrize(
    "other",
    [
        "",
        "b",
        EMPTY.upper(),
        EMPTY[:-1],
        EMPTY + "a",
        EMPTY[:-1] + "v",  # the same digest, with other bits to spare
        "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi",
        "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG",
        "z" + EMPTY[1:],
        EMPTY[:-1] + "1",
        EMPTY[:-1] + "ı",  # noqa: RUF001 - its upper case is an ordinary I
    ],
)
def test_other_identifiers_say_nothing(other):
    assert sha256_of(other) is None


@pytest.mark.parametrize("digest", [b"", bytes(31), bytes(33)])
def test_what_is_no_digest_is_refused(digest):
    with pytest.raises(ValueError, match="32 bytes"):
        cid_of(digest)
