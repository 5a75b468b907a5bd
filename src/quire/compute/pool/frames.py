"""What the pool and a worker say to each other over a pipe.

A frame is four bytes of length, one of kind, then MessagePack. To the worker: HELLO once, then CHUNKs, at the
end STOP; REVOKE says that nothing of a batch is to be started any more of what was sent before it. From the
worker: READY once, then for each order STARTED (no content: orders start in the order they were given),
COMPUTED when its step has returned and its products are being stored, and a REPORT; or SKIPPED alone for one
that was revoked. While a step runs, PROGRESS and SPENT speak of it. An order that needs more memory than its
chunk was granted asks between STARTED and its step (WEIGHED), and is answered at once: GO, or LATER, and
then there is no report, as it was never begun. RECALL asks for whatever was sent before it and has not
started; RECALLED gives all of that back, also while a step runs.
Everything written before a crash is still read after it, so the pool knows exactly which order a dead
worker was on.
"""

import struct
from typing import Any

import msgspec
from msgspec import Struct

from quire.model.cost import Cost
from quire.model.errors import Bug
from quire.model.work import Order, Report, StepCall

HELLO, CHUNK, REVOKE, STOP = b"H", b"C", b"V", b"X"
GO, LATER, RECALL = b"G", b"L", b"B"
READY, STARTED, SKIPPED, COMPUTED, REPORT = b"Y", b"S", b"K", b"D", b"R"
PROGRESS, SPENT = b"P", b"M"
WEIGHED, RECALLED = b"W", b"A"

MAX_FRAME_BYTES = 256 * 1024 * 1024
_HEAD = struct.Struct("<IB")
HEAD_BYTES = _HEAD.size
_KINDS = [bytes((number,)) for number in range(256)]


class Chunk(Struct, frozen=True, array_like=True):
    call: StepCall
    orders: list[Order]
    granted_mb: int = 1 << 30  # what each of them may need without asking


class Revoke(Struct, frozen=True, array_like=True):
    batch_no: int


class Progress(Struct, frozen=True, array_like=True):
    done: int
    total: int


class Weighed(Struct, frozen=True, array_like=True):
    megabytes: int


class Ready(Struct, frozen=True, array_like=True):
    pid: int


_encoder = msgspec.msgpack.Encoder()
chunk_decoder = msgspec.msgpack.Decoder(Chunk)
report_decoder = msgspec.msgpack.Decoder(Report)
revoke_decoder = msgspec.msgpack.Decoder(Revoke)
progress_decoder = msgspec.msgpack.Decoder(Progress)
cost_decoder = msgspec.msgpack.Decoder(Cost)
weighed_decoder = msgspec.msgpack.Decoder(Weighed)
ready_decoder = msgspec.msgpack.Decoder(Ready)


def frame(kind: bytes, content: Any = None) -> bytes:
    payload = b"" if content is None else _encoder.encode(content)
    if len(payload) > MAX_FRAME_BYTES:
        raise Bug(f"a frame of {len(payload)} bytes is more than the other side takes")
    return _HEAD.pack(len(payload), kind[0]) + payload


STARTED_FRAME = frame(STARTED)
SKIPPED_FRAME = frame(SKIPPED)
COMPUTED_FRAME = frame(COMPUTED)
RECALL_FRAME = frame(RECALL)
RECALLED_FRAME = frame(RECALLED)


def head(data: bytes) -> tuple[int, bytes]:
    """(length, kind) of a frame's first bytes."""
    length, kind = _HEAD.unpack(data)
    if length > MAX_FRAME_BYTES:
        raise _out_of_step(length)
    return length, _KINDS[kind]


class Unframer:
    """Turns pieces of a byte stream into frames, however they were cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[bytes, memoryview]]:
        buffer = self._rest + data if self._rest else data
        view, end, at = memoryview(buffer), len(buffer), 0
        found = []
        # Tens of thousands of frames per second go through here: nothing is called that can be written out.
        while end - at >= HEAD_BYTES:
            length, kind = _HEAD.unpack_from(buffer, at)
            if length > MAX_FRAME_BYTES:
                raise _out_of_step(length)
            start = at + HEAD_BYTES
            if start + length > end:
                break
            at = start + length
            found.append((_KINDS[kind], view[start:at]))
        self._rest = buffer[at:]
        return found


def _out_of_step(length: int) -> Bug:
    return Bug(f"a frame of {length} bytes: the pipe is out of step")
