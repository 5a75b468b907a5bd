"""A checksum within a small JSON object."""

import json
import zlib

from hypothesis import given
from hypothesis import strategies as st

from quire.blobs import seals

OBJECT = st.dictionaries(st.text(max_size=8), st.text(max_size=20) | st.integers(), min_size=1, max_size=8)


@given(OBJECT)
def test_what_was_sealed_is_read_with_its_seal(said):
    said.pop("crc32", None)
    said["name"] = "x"
    text = json.dumps(said).encode()
    opened = seals.open_sealed(seals.seal(text))
    assert opened is not None
    assert not opened.mended
    assert json.loads(opened.text) == said | {"crc32": zlib.crc32(text)}


def test_each_wrong_bit_is_put_right_or_changes_nothing_but_the_name_of_the_seal():
    text = json.dumps({"id": "a" * 26, "width": 1080, "key": "cas/76/76e1"}).encode()
    sealed = seals.seal(text)
    mended = 0
    for bit in range(8 * len(sealed)):
        changed = bytearray(sealed)
        changed[bit // 8] ^= 1 << bit % 8
        opened = seals.open_sealed(bytes(changed))
        assert opened is not None
        if opened.mended:
            assert opened.text == sealed
            mended += 1
        else:
            assert opened.text[: len(text) - 1] == text[:-1]
    assert mended >= 8 * len(text)


def test_more_damage_is_found():
    sealed = seals.seal(b'{"id":"abcdefgh","width":1080,"height":671}')
    changed = sealed.replace(b"1080", b"2160").replace(b"671", b"134")
    assert seals.open_sealed(changed) is None


def test_what_has_no_seal_is_given_back_as_it_is():
    assert seals.open_sealed(b'{"id":1}') == (b'{"id":1}', False)


def test_a_long_object_is_not_mended():
    sealed = seals.seal(json.dumps({"names": ["a"] * 2000}).encode())
    assert seals.open_sealed(sealed.replace(b'"a"', b'"b"', 1)) is None
