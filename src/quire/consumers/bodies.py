"""Decodes message bodies for handlers. A body that cannot be decoded is refused for good."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from quire.model.errors import Reject
from quire.queues.port import MAX_MESSAGE_BYTES

T = TypeVar("T")


class _Versioned(Struct):
    schema_version: int | UnsetType = UNSET


def json_decoder(
    kind: type[T], *, schema_version: int | None = None, max_bytes: int = MAX_MESSAGE_BYTES
) -> Callable[[bytes], T]:
    """A decoder for JSON messages of one type; unknown fields are refused where the type forbids them
    (`forbid_unknown_fields=True`). It raises Reject: `message_too_large`, `not_json`, `wrong_schema_version`
    or `bad_message`.
    """
    decoder = msgspec.json.Decoder(kind)
    versions = msgspec.json.Decoder(_Versioned)

    def decode(body: bytes) -> T:
        if len(body) > max_bytes:
            raise Reject(
                f"the message has {len(body)} bytes, the limit is {max_bytes}: store its content and send a "
                "reference",
                code="message_too_large",
            )
        try:
            if schema_version is not None:
                _check(versions.decode(body).schema_version, schema_version)
            return decoder.decode(body)
        except msgspec.ValidationError as error:
            raise Reject(f"the message is not what this queue takes: {error}", code="bad_message") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Reject(f"the message is not JSON: {error}", code="not_json") from error

    return decode


def _check(found: int | UnsetType, wanted: int) -> None:
    if found is UNSET:
        raise Reject(
            f"the message has no schema_version; this consumer takes {wanted}", code="wrong_schema_version"
        )
    if found != wanted:
        raise Reject(
            f"the message has schema_version {found}, this consumer takes {wanted}: send it in that version, "
            "or replay it when consumers of its version run",
            code="wrong_schema_version",
        )
