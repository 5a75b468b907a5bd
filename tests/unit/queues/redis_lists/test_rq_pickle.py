"""The pickled call of an RQ job is read without running anything; whatever is no such call is refused."""

import pickle
import pickletools
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.model.errors import Reject
from quire.queues.redis_lists.rq_pickle import read_call, write_call

LIMIT = 10_000
CALL = ("module.function", None, ("text",), {})
RAN = []


class Trap:
    """Runs when it is unpickled."""

    def __reduce__(self):
        return RAN.append, ("it ran",)


def read(data):
    return read_call(zlib.compress(data), max_bytes=LIMIT)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("text", ["", "text", "漢🙂\n'\"\\", "x" * 9000])
def test_a_call_with_one_text_is_read_in_every_protocol(protocol, text):
    call = ("module.function", None, (text,), {})
    assert read(pickle.dumps(call, protocol=protocol)) == text
    assert read(pickletools.optimize(pickle.dumps(call, protocol=protocol))) == text


@given(st.text(max_size=300))
def test_what_is_written_is_what_is_read_and_what_python_reads(text):
    data = write_call("a.b", text)
    assert read_call(data, max_bytes=LIMIT) == text
    assert pickle.loads(zlib.decompress(data)) == ("a.b", None, (text,), {})  # noqa: S301


def test_the_function_and_other_arguments_do_not_matter():
    assert read(pickle.dumps(("os.system", None, ("text",), {"timeout": 7}))) == "text"


def test_data_that_was_never_compressed_are_read():
    assert read_call(pickle.dumps(CALL), max_bytes=LIMIT) == "text"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("place", range(4))
def test_nothing_is_run(protocol, place):
    call = [*CALL]
    call[place] = Trap()
    with pytest.raises(Reject, match="does not need"):
        read(pickle.dumps(tuple(call), protocol=protocol))
    with pytest.raises(Reject):
        read(pickle.dumps(Trap(), protocol=protocol))
    assert RAN == []


@pytest.mark.parametrize(
    "data",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
        b"\x80\x02(i__main__\nTrap\n.",
        b"\x80\x02Pspam\n.",
        b"\x80\x02K\x01Q.",
        b"\x80\x02\x82\x01.",
        b"\x80\x04N\x94r" + struct.pack("<I", 2**31) + b".",
        b"\x80\x04\x8d" + struct.pack("<Q", 2**40) + b"x.",
        b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"x.",
        b"\x80\x04\x8b" + struct.pack("<i", -1) + b".",
        b"I" + b"9" * 5000 + b"\n.",
        b"(" * 5000 + b".",
        b"N" * 5000 + b".",
        b"\x80\x04)." * 3,
        b"\x80\x04(.",
        b"\x80\x04t.",
        b"\x80\x04\x85.",
        b"\x80\x04N\x86.",
        b"\x80\x04h\x07.",
        b"\x80\x04}(Ku.",
        b"\x80\x04}]Ns.",
        b"\x80\x04Na.",
        b"\x80\x04N",
        b".",
        b"",
        b"\xff\xfe\x00garbage",
        pickle.dumps("text"),
        pickle.dumps(CALL[:3]),
        pickle.dumps(("f", None, (), {})),
        pickle.dumps(("f", None, ("a", "b"), {})),
        pickle.dumps(("f", None, (b"bytes",), {})),
        pickle.dumps(("f", None, ({"a": "dictionary"},), {})),
        pickle.dumps(("f", None, None, {})),
    ],
)
def test_whatever_is_no_call_with_one_text_is_refused(data):
    with pytest.raises(Reject) as caught:
        read(data)
    assert caught.value.code == "bad_message"


def test_a_list_that_contains_itself_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(Reject):
        read(pickle.dumps(("f", None, loop, {})))


def test_little_that_becomes_much_is_refused_before_it_is_there():
    bomb = zlib.compress(b"\x00" * 50_000_000, 9)
    with pytest.raises(Reject, match="larger than"):
        read_call(bomb, max_bytes=LIMIT)
    with pytest.raises(Reject, match="larger than"):
        read_call(write_call("f", "x" * 2 * LIMIT), max_bytes=LIMIT)


def test_a_stream_that_ends_too_early_is_refused():
    for length in range(1, len(write_call("f", "text"))):
        with pytest.raises(Reject):
            read_call(write_call("f", "text")[:length], max_bytes=LIMIT)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_text_or_refused(data):
    for stored in (data, zlib.compress(data)):
        with pytest.raises(Reject):
            read_call(stored, max_bytes=LIMIT)


@given(st.data())
def test_a_damaged_call_is_a_text_or_refused(data):
    whole = bytearray(pickle.dumps(CALL, protocol=data.draw(st.integers(0, 5))))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(read(bytes(whole)), str)
    except Reject as error:
        assert error.code == "bad_message"  # noqa: PT017 - both are right, and nothing else is


def test_names_of_arguments_are_texts_alone():
    pairs = b"".join(b"\x94h" + bytes([place]) + b"\x86" for place in range(200))
    # Each tuple holds the one before it twice: as a name, it would be hashed for longer than anybody waits.
    for ending in (b"Ns.", b"(h\x05Nu."):
        with pytest.raises(Reject, match="damaged"):
            read(b"\x80\x04}" + b")" + pairs + ending)
