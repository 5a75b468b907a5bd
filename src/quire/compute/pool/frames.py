"""The protocol between the pool and a worker, as frames over a pipe.

A frame is four bytes of length, one of kind, then MessagePack. To the worker: HELLO once, with the worker
configuration, then CHUNKs, at the end STOP; REVOKE forbids starting any order of a batch that was sent before
it. From the worker: READY once, then for each order STARTED (no content: orders start in the sequence in
which they were given), COMPUTED when its step has returned and its products are being stored, and a REPORT;
or only SKIPPED for a revoked order. While a step runs, PROGRESS and SPENT are about its order. An order that
needs more memory than its chunk was granted asks between STARTED and its step (NEEDS_MEMORY), and the pool
answers at once: GO, or WAIT, after which no report follows, because the step was not started. RECALL asks for
all orders that were sent before it and have not started; RECALLED gives them back, also while a step runs.
Everything written before a crash is still read after it, so the pool knows exactly which order a dead worker
was running.

A host runs many orders at once, so its frames name their attempt. To it: HOST once instead of HELLO, then
CHUNKs whose orders all start now, CANCEL for one attempt, PING, at the end STOP. From it: READY, STARTED,
COMPUTED, REPORT, PROGRESS and SPENT as above, PONG for each PING, all from its loop; and while the loop is
held up BLOCKED, with what holds it up, then RESUMED.
"""

import struct
from typing import Any

import msgspec
from msgspec import Struct

from quire.model.cost import Cost
from quire.model.errors import Bug
from quire.model.work import AttemptKey, Order, Report, StepCall

HELLO, CHUNK, REVOKE, STOP = b"H", b"C", b"V", b"X"
GO, WAIT, RECALL = b"G", b"L", b"B"
READY, STARTED, SKIPPED, COMPUTED, REPORT = b"Y", b"S", b"K", b"D", b"R"
PROGRESS, SPENT = b"P", b"M"
NEEDS_MEMORY, RECALLED = b"W", b"A"
HOST, CANCEL, PING = b"h", b"c", b"p"
PONG, BLOCKED, RESUMED = b"o", b"b", b"r"

MAX_FRAME_BYTES = 256 * 1024 * 1024
_HEAD = struct.Struct("<IB")
HEAD_BYTES = _HEAD.size
_KINDS = [bytes((number,)) for number in range(256)]


class Chunk(Struct, frozen=True, array_like=True):
    call: StepCall
    orders: list[Order]
    granted_mb: int = 1 << 30  # memory that each order may use without asking


class Revoke(Struct, frozen=True, array_like=True):
    batch_no: int


class ProgressFrame(Struct, frozen=True, array_like=True):
    done: int
    total: int


class AttemptProgress(Struct, frozen=True, array_like=True):
    attempt_key: AttemptKey
    done: int
    total: int


class AttemptSpending(Struct, frozen=True, array_like=True):
    attempt_key: AttemptKey
    cost: Cost


class BlockedLoop(Struct, frozen=True, array_like=True):
    """`place` is file, line and function. `attempt_key` is None when no order is known to be the cause."""

    attempt_key: AttemptKey | None
    place: str
    seconds: float  # so far


class ResumedLoop(Struct, frozen=True, array_like=True):
    seconds: float  # for which it was held up


class MemoryRequest(Struct, frozen=True, array_like=True):
    megabytes: int


class Ready(Struct, frozen=True, array_like=True):
    pid: int


_encoder = msgspec.msgpack.Encoder()
chunk_decoder = msgspec.msgpack.Decoder(Chunk)
report_decoder = msgspec.msgpack.Decoder(Report)
revoke_decoder = msgspec.msgpack.Decoder(Revoke)
progress_decoder = msgspec.msgpack.Decoder(ProgressFrame)
cost_decoder = msgspec.msgpack.Decoder(Cost)
memory_request_decoder = msgspec.msgpack.Decoder(MemoryRequest)
ready_decoder = msgspec.msgpack.Decoder(Ready)
attempt_decoder = msgspec.msgpack.Decoder(AttemptKey)
attempt_progress_decoder = msgspec.msgpack.Decoder(AttemptProgress)
attempt_spending_decoder = msgspec.msgpack.Decoder(AttemptSpending)
blocked_decoder = msgspec.msgpack.Decoder(BlockedLoop)
resumed_decoder = msgspec.msgpack.Decoder(ResumedLoop)


def encode_frame(kind: bytes, content: Any = None) -> bytes:
    payload = b"" if content is None else _encoder.encode(content)
    if len(payload) > MAX_FRAME_BYTES:
        raise Bug(f"a frame of {len(payload)} bytes is more than the other side accepts")
    return _HEAD.pack(len(payload), kind[0]) + payload


STARTED_FRAME = encode_frame(STARTED)
SKIPPED_FRAME = encode_frame(SKIPPED)
COMPUTED_FRAME = encode_frame(COMPUTED)
RECALL_FRAME = encode_frame(RECALL)
RECALLED_FRAME = encode_frame(RECALLED)
PING_FRAME = encode_frame(PING)
PONG_FRAME = encode_frame(PONG)


def encode_hello(kind: bytes, configuration: bytes) -> bytes:
    """The first frame to a process: HELLO or HOST, with its configuration as it is."""
    return _HEAD.pack(len(configuration), kind[0]) + configuration


def decode_head(data: bytes) -> tuple[int, bytes]:
    """(length, kind) from the first bytes of a frame."""
    length, kind = _HEAD.unpack(data)
    if length > MAX_FRAME_BYTES:
        raise _bad_length(length)
    return length, _KINDS[kind]


class FrameDecoder:
    """Turns pieces of a byte stream into frames, wherever the pieces were cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[bytes, memoryview]]:
        buffer = self._rest + data if self._rest else data
        view, end, at = memoryview(buffer), len(buffer), 0
        found = []
        # Tens of thousands of frames per second pass here: inlined instead of calling functions.
        while end - at >= HEAD_BYTES:
            length, kind = _HEAD.unpack_from(buffer, at)
            if length > MAX_FRAME_BYTES:
                raise _bad_length(length)
            start = at + HEAD_BYTES
            if start + length > end:
                break
            at = start + length
            found.append((_KINDS[kind], view[start:at]))
        self._rest = buffer[at:]
        return found


def _bad_length(length: int) -> Bug:
    return Bug(f"a frame of {length} bytes: the stream is corrupt")
