"""What the pool and a worker say to each other over a pipe.

A frame is four bytes of length, one of kind, then MessagePack. To the worker: HELLO once, then CHUNKs, at the
end STOP. From the worker: READY once, then for each order STARTED (no content: orders start in the order
they were given), COMPUTED when its step has returned and its products are being stored, and a REPORT.
Everything written before a crash is still read after it, so the pool knows exactly which order a dead
worker was on.
"""

import struct
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from quire.model.errors import Bug
from quire.model.work import Order, Report, StepCall

HELLO, CHUNK, STOP, READY, STARTED, COMPUTED, REPORT = b"H", b"C", b"X", b"Y", b"S", b"D", b"R"

MAX_FRAME_BYTES = 256 * 1024 * 1024
_HEAD = struct.Struct("<IB")
HEAD_BYTES = _HEAD.size


class Chunk(Struct, frozen=True, array_like=True):
    call: StepCall
    orders: list[Order]


class Ready(Struct, frozen=True, array_like=True):
    pid: int


_encoder = msgspec.msgpack.Encoder()
chunk_decoder = msgspec.msgpack.Decoder(Chunk)
report_decoder = msgspec.msgpack.Decoder(Report)
ready_decoder = msgspec.msgpack.Decoder(Ready)


def frame(kind: bytes, content: Any = None) -> bytes:
    payload = b"" if content is None else _encoder.encode(content)
    return _HEAD.pack(len(payload), kind[0]) + payload


STARTED_FRAME = frame(STARTED)
COMPUTED_FRAME = frame(COMPUTED)


def head(data: bytes) -> tuple[int, bytes]:
    """(length, kind) of a frame's first bytes."""
    length, kind = _HEAD.unpack(data)
    if length > MAX_FRAME_BYTES:
        raise Bug(f"a frame of {length} bytes: the pipe is out of step")
    return length, bytes((kind,))


class Unframer:
    """Turns pieces of a byte stream into frames, however they were cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[bytes, memoryview]]:
        buffer = memoryview(self._rest + data if self._rest else data)
        at = 0
        while len(buffer) - at >= HEAD_BYTES:
            length, kind = head(bytes(buffer[at : at + HEAD_BYTES]))
            end = at + HEAD_BYTES + length
            if end > len(buffer):
                break
            yield kind, buffer[at + HEAD_BYTES : end]
            at = end
        self._rest = bytes(buffer[at:])
