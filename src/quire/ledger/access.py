"""Who may: API keys. Only hashes are kept; the key itself is shown once, when it is made."""

from typing import Protocol

from msgspec import Struct


class ApiKey(Struct, frozen=True, kw_only=True):
    """`hint` is the beginning of the key, for people to tell them apart. 0 is no limit."""

    id: str
    label: str
    hint: str
    hash: str  # SHA-256 of the key, hexadecimal: it is random and long, so that nothing slower is needed
    scope: str  # submit, read, operate, admin
    tenant: str = ""
    created_at: float = 0.0
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None
    requests_per_minute: int = 0
    max_batches: int = 0
    max_bytes: int = 0


class ApiKeyStore(Protocol):
    async def add_key(self, key: ApiKey) -> None:
        """Raises Stale when a key with this id or hash is there already."""
        ...

    async def key_by_hash(self, digest: str) -> ApiKey | None:
        """Also one that is revoked or has expired: the caller decides."""
        ...

    async def key(self, key_id: str) -> ApiKey:
        """By id. Raises Missing."""
        ...

    async def keys(self) -> list[ApiKey]:
        """All, newest first."""
        ...

    async def expire_key(self, key_id: str, *, at: float) -> ApiKey:
        """Not valid after that moment; never later than it was before. Raises Missing."""
        ...

    async def revoke_key(self, key_id: str, *, now: float) -> ApiKey:
        """Not valid from now on; repeating changes nothing. Raises Missing."""
        ...

    async def used_keys(self, used: dict[str, float]) -> None:
        """When each of these ids was last used; never goes back."""
        ...
