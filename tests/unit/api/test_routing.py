"""Bodies as JSON: a large one is the same as decoded at once, and others get their turn meanwhile."""

import asyncio
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.api import routing
from quire.api.routing import AT_ONCE_BYTES, decode_large

_plain = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text()
_values = st.recursive(
    _plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30
)


@given(_values, st.sampled_from([None, 1, "\t"]))
def test_in_turns_or_at_once_is_the_same(value, indent):
    body = json.dumps(value, indent=indent).encode()
    with pytest.MonkeyPatch.context() as small:
        small.setattr(routing, "AT_ONCE_BYTES", 3)
        assert asyncio.run(decode_large(body)) == msgspec.json.decode(body)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:0\\u tru', max_size=60).map(str.encode))
def test_what_is_refused_at_once_is_refused_in_turns(body):
    with pytest.MonkeyPatch.context() as small:
        small.setattr(routing, "AT_ONCE_BYTES", 3)
        try:
            wanted = msgspec.json.decode(body)
        except ValueError:
            with pytest.raises(ValueError):
                asyncio.run(decode_large(body))
        else:
            assert asyncio.run(decode_large(body)) == wanted


async def test_others_get_their_turn():
    file = {"r2_key": "x" * 100}
    body = msgspec.json.encode({"files": [file] * (10 * AT_ONCE_BYTES // 100), "more": 1})
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    found = await decode_large(body)
    beside.cancel()
    assert turns >= 10
    assert (len(found["files"]), found["files"][-1], found["more"]) == (10 * AT_ONCE_BYTES // 100, file, 1)
