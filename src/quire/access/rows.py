"""Converts API keys to rows and back: the same columns in the same order in every adapter."""

from typing import Any

from quire.access.port import ApiKey
from quire.model.errors import Missing

Row = tuple[Any, ...]


def to_row(key: ApiKey) -> Row:
    return (
        *(key.id, key.label, key.hint, key.hash, key.scope, key.tenant, key.created_at, key.expires_at),
        *(key.revoked_at, key.last_used_at, key.requests_per_minute, key.max_batches, key.max_bytes),
    )


def to_key(row: Row | None, key_id: str = "") -> ApiKey:
    """Raises Missing, naming `key_id`, when there is no row."""
    if row is None:
        raise Missing(f"there is no key {key_id[:80]}", code="unknown_key")
    return ApiKey(
        id=row[0],
        label=row[1],
        hint=row[2],
        hash=row[3],
        scope=row[4],
        tenant=row[5],
        created_at=row[6],
        expires_at=row[7],
        revoked_at=row[8],
        last_used_at=row[9],
        requests_per_minute=row[10],
        max_batches=row[11],
        max_bytes=row[12],
    )
