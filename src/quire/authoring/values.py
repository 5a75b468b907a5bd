"""Values on their way from step to step: as JSON, checked against the annotation on both sides.

Promise: a value that was given is what a later step decodes. Any type that msgspec knows will do: Structs,
dataclasses, dates, dicts, lists …; pydantic models by their own methods.
"""

import re
from typing import Any

import msgspec

from quire.model.errors import Reject
from quire.model.work import MAX_VALUE_BYTES

_MODULE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=\w)")  # of names such as `quire.authoring.outputs.Output`


def encode_value(value: object, kind: Any, where: str) -> Any:
    """The value as JSON decodes it. Raises Reject when it is not what the step says that it returns."""
    try:
        data = msgspec.json.encode(value, order="deterministic", enc_hook=_encode_other)
        msgspec.json.decode(data, type=kind, dec_hook=_decode_other)
        decoded = msgspec.json.decode(data)
    except Exception as error:
        raise Reject(
            f"{where} returned {name_kind(value)} that is no {describe(kind)}: {error}", code="bad_result"
        ) from error
    if len(data) > MAX_VALUE_BYTES:
        raise Reject(
            f"{where} returned a value of {len(data)} bytes, and {MAX_VALUE_BYTES} is the limit; let it "
            "return an Output instead",
            code="value_too_large",
        )
    return decoded


def decode_value(value: Any, kind: Any, name: str) -> Any:
    """Raises Reject when the value does not fit: it was given by a step whose type was another one."""
    try:
        return msgspec.convert(value, kind, str_keys=True, dec_hook=_decode_other)
    except Exception as error:
        raise Reject(
            f"the value of {name} is no {describe(kind)}: {error}; raise the version of {name} whenever the "
            "type of its value changes",
            code="bad_value",
        ) from error


def find_problem(kind: Any) -> str:
    """Why values of this type cannot travel; empty when they can."""
    try:
        msgspec.json.Decoder(kind, dec_hook=_decode_other)
        msgspec.json.schema_components([kind], schema_hook=_describe_other)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the person has to know
        return str(error).split("\n")[0]
    return ""


def name_kind(value: object) -> str:
    """What a value is, for people: `an int`, `a dict`."""
    name = type(value).__name__
    return f"an {name}" if name[0].lower() in "aeiou" else f"a {name}"


def describe(kind: Any) -> str:
    """A type as it is written."""
    if isinstance(kind, type) and not getattr(kind, "__args__", None):
        return kind.__qualname__
    return _MODULE.sub("", str(kind))


def _encode_other(value: object) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise NotImplementedError(f"a {type(value).__name__} cannot be written as JSON")
    return dump(mode="json")


def _decode_other(kind: type, value: Any) -> Any:
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise NotImplementedError(f"a {describe(kind)} cannot be read from JSON")
    return validate(value)


def _describe_other(kind: type) -> dict[str, Any]:
    if not hasattr(kind, "model_validate"):
        raise NotImplementedError(f"a {describe(kind)} cannot be read from JSON")
    return {}
