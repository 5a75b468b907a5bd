"""The protocol between a worker and its decoder, as frames over a pipe.

To the decoder: HELLO once, with its configuration, then CHUNK for one order after the other. From it: READY
once; for each order, while its step runs, PROGRESS and SPENT, NEEDS_MEMORY (answered by GO or WAIT, after
which nothing more is said of the order), FETCH and RESOLVE (answered by GIVEN or REFUSED); at the end DONE or
FAILED. The worker takes nothing that the decoder says for true: it may have been taken over by a file.
"""

import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from quire.compute.failures import AttemptFailure
from quire.compute.pool import frames
from quire.model.step import StepOutput
from quire.model.work import MemberFile, Order, StepCall

FETCH, RESOLVE, GIVEN, REFUSED = b"f", b"v", b"g", b"n"
DONE, FAILED = b"d", b"e"


class DecoderOrder(Struct, frozen=True, array_like=True):
    """One order, its input laid out for the decoder. More memory than `granted_mb` has to be asked for."""

    call: StepCall
    order: Order
    source: str
    folder: str
    granted_mb: int
    members: tuple[MemberFile, ...] = ()
    values: dict[str, Any] = {}


class StepDone(Struct, frozen=True, array_like=True):
    output: StepOutput
    value: bytes  # of the output, encoded


class StepFailed(Struct, frozen=True, array_like=True):
    failure: AttemptFailure
    is_store_error: bool = False  # the error that the worker gave for the last FETCH or RESOLVE
    is_full: bool = False  # out of memory: a fresh process has all of it again


def _to_plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def _from_plain(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise TypeError(f"a {kind.__name__} cannot be received")


_encoder = msgspec.msgpack.Encoder(enc_hook=_to_plain)
order_decoder = msgspec.msgpack.Decoder(DecoderOrder)
done_decoder = msgspec.msgpack.Decoder(StepDone, dec_hook=_from_plain)
failed_decoder = msgspec.msgpack.Decoder(StepFailed)
name_decoder = msgspec.msgpack.Decoder(str)  # of a FETCH or RESOLVE: a key, a digest


def encode(kind: bytes, content: Any = None) -> bytes:
    """A frame whose content may hold paths. Raises what msgspec raises for content that cannot be sent."""
    payload = b"" if content is None else _encoder.encode(content)
    return frames.encode_hello(kind, payload)


class FrameSource:
    """Frames of a pipe, one after the other, in the thread that asks."""

    def __init__(self, incoming: int) -> None:
        self._pipe = os.fdopen(incoming, "rb")

    def get(self) -> tuple[bytes, bytes]:
        """Kind and content. Raises EOFError when the other side has gone."""
        beginning = self._pipe.read(frames.HEAD_BYTES)
        if len(beginning) < frames.HEAD_BYTES:
            raise EOFError
        length, kind = frames.decode_head(beginning)
        content = self._pipe.read(length)
        if len(content) < length:
            raise EOFError
        return kind, content
