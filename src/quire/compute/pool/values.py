"""Values that steps give to the steps after them, as JSON: small ones in the record, large ones as blobs.

Promises: equal values have equal bytes; a size is checked before anything is decoded; bytes that do not match
their digest are never decoded. Must not know: what a value means.
"""

import json
from typing import Any

import msgspec

from quire.blobs import content, keys
from quire.blobs.port import Blobs
from quire.model.errors import Reject
from quire.model.work import MAX_VALUE_BYTES, StepCall, Value

INLINE_BYTES = 4096

# Sorted: sets have no order of their own, and the digest is part of cache keys.
_encoder = msgspec.json.Encoder(order="deterministic")


def encode_value(value: Any, call: StepCall) -> bytes:
    """The value as JSON; nothing for None. Raises Reject: `bad_result`, or `value_too_large`."""
    if value is None:
        return b""
    try:
        encoded = _encode(value)
        msgspec.msgpack.encode(value)  # as which it travels; it has no whole numbers beyond 64 bits
        if b"null" in encoded:
            _refuse_odd_numbers(value)
    except Exception as error:
        raise Reject(
            f"the step {call.step} returned a value that JSON cannot say: {error}", code="bad_result"
        ) from error
    if len(encoded) > MAX_VALUE_BYTES:
        raise Reject(
            f"the step {call.step} returned a value of {len(encoded)} bytes, and {MAX_VALUE_BYTES} is the "
            "limit; let it write a file instead",
            code="value_too_large",
        )
    return encoded


async def store_value(blobs: Blobs, encoded: bytes) -> Value | None:
    """The value for the record; a large one is stored first. Raises what the store raises."""
    if len(encoded) <= INLINE_BYTES:
        return inline_value(encoded)
    stored = await content.put_bytes(blobs, encoded)
    return Value(key=stored.key, size=stored.size, digest=stored.digest)


def inline_value(encoded: bytes) -> Value | None:
    """The value for the record, of bytes that need no blob."""
    return Value(data=msgspec.json.decode(encoded), size=len(encoded)) if encoded else None


async def load_value(blobs: Blobs, value: Value) -> Any:
    """What the value is, as JSON decodes it. Raises Reject: `value_too_large`, `bad_value`, `corrupt` or
    `missing`; and what the store raises.
    """
    if not value.digest:
        return value.data
    size = (await blobs.head(keys.content(value.digest))).size
    if size > MAX_VALUE_BYTES:
        raise Reject(
            f"the value {value.digest[:12]} has {size} bytes, and {MAX_VALUE_BYTES} is the limit",
            code="value_too_large",
        )
    try:
        return msgspec.json.decode(await content.get(blobs, value.digest))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Reject(f"the value {value.digest[:12]} is not JSON: {error}", code="bad_value") from error


def _encode(value: Any) -> bytes:
    try:
        return _encoder.encode(value)
    except TypeError:  # the encoder that sorts takes only text as keys
        return _encoder.encode(msgspec.to_builtins(value, str_keys=True))


def _refuse_odd_numbers(value: Any) -> None:
    """Numbers that are none (NaN, Infinity) would arrive as null. Raises ValueError."""
    json.dumps(msgspec.to_builtins(value, str_keys=True), allow_nan=False)
