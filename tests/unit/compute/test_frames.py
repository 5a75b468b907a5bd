"""Frames survive any cutting of the stream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.compute.pool import frames
from quire.model.errors import Bug
from quire.model.work import Order, Outcome, StepCall
from quire.testing.factories import file, report

KINDS = st.sampled_from([frames.CHUNK, frames.REPORT, frames.STARTED, frames.READY])


@given(
    sent=st.lists(st.tuples(KINDS, st.none() | st.binary(max_size=300)), max_size=20),
    cuts=st.lists(st.integers(1, 50), min_size=1, max_size=30),
)
def test_frames_come_out_whole_and_in_order_however_they_were_cut(sent, cuts):
    stream = b"".join(frames.encode_frame(kind, content) for kind, content in sent)
    unframer, heard, at, turn = frames.FrameDecoder(), [], 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        heard += [(kind, bytes(payload)) for kind, payload in unframer.feed(stream[at : at + size])]
        at, turn = at + size, turn + 1
    assert heard == [
        (kind, frames.encode_frame(kind, content)[frames.HEAD_BYTES :]) for kind, content in sent
    ]


def test_a_chunk_and_a_report_arrive_as_they_were_sent():
    call = StepCall(step="x", version=3, options={"a": [1, "é"]}, timeout_seconds=2.5)
    chunk = frames.Chunk(call, [Order(1, 2, 3, file("a b/ü.tif", tags=("t",)))])
    told = report(2, 3, Outcome.CRASHED, error_class="crash", error="☠", delay_seconds=4.0)
    (kind, payload), (_, other) = frames.FrameDecoder().feed(
        frames.encode_frame(frames.CHUNK, chunk) + frames.encode_frame(frames.REPORT, told)
    )
    assert (kind, frames.chunk_decoder.decode(payload)) == (frames.CHUNK, chunk)
    assert frames.report_decoder.decode(other) == told


def test_a_stream_out_of_step_is_noticed_before_memory_is_taken():
    with pytest.raises(Bug):
        list(frames.FrameDecoder().feed(b"\xff\xff\xff\xffR"))
