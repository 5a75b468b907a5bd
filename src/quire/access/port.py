"""API keys and where they are stored: only their hashes. The key itself is shown once, when it is created."""

from typing import Protocol

from msgspec import Struct


class ApiKey(Struct, frozen=True, kw_only=True):
    """`hint` is the beginning of the key, so that people can tell keys apart. A limit of 0 is no limit."""

    id: str
    label: str
    hint: str
    hash: str  # SHA-256 of the key, hexadecimal: keys are random and long, so nothing slower is needed
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
        """Raises Stale when a key with this id or hash exists already."""
        ...

    async def find_key(self, digest: str) -> ApiKey | None:
        """The key with this hash, also when it is revoked or has expired: the caller decides."""
        ...

    async def get_key(self, key_id: str) -> ApiKey:
        """The key with this id. Raises Missing."""
        ...

    async def list_keys(self) -> list[ApiKey]:
        """All keys, newest first."""
        ...

    async def expire_key(self, key_id: str, *, at: float) -> ApiKey:
        """Invalid after that moment; never later than it was before. Raises Missing."""
        ...

    async def revoke_key(self, key_id: str, *, now: float) -> ApiKey:
        """Invalid from now on; repeating changes nothing. Raises Missing."""
        ...

    async def record_uses(self, uses: dict[str, float]) -> None:
        """When each of these ids was last used; the stored moment never goes back."""
        ...
