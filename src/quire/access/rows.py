"""Converts API keys to rows and back: the columns of every adapter are the fields of `ApiKey`, in order."""

from typing import Any

from msgspec import structs

from quire.access.port import ApiKey
from quire.model.errors import Missing

Row = tuple[Any, ...]


def to_row(key: ApiKey) -> Row:
    return structs.astuple(key)


def to_key(row: Row | None, key_id: str = "") -> ApiKey:
    """Raises Missing, naming `key_id`, when there is no row."""
    if row is None:
        raise Missing(f"there is no key {key_id[:80]}", code="unknown_key")
    return ApiKey(**dict(zip(ApiKey.__struct_fields__, row, strict=True)))
