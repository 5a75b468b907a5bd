"""Use cases on API keys: create, list, rotate and revoke them, and check the key of a request.

Promises: a key is shown once and only its hash is stored; an unknown, a revoked and an expired key get the
same answer; a change of a key takes effect at once, in every process. Must not know: HTTP.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct, structs

from quire.access.failed_keys import FailedKeys
from quire.access.port import ApiKey, ApiKeyStore
from quire.access.rate_limit import RateLimiter
from quire.model.clock import Clock, timestamp
from quire.model.errors import Reject, Retry, Unavailable
from quire.model.ids import Ids

PREFIX = "qk_"
SECRET_BYTES = 32
HINT_CHARACTERS = 9  # with the prefix; the rest of the key is still beyond guessing
LONGEST_KEY = 200
LONGEST_NAME = 200
LONGEST_SECONDS = 100 * 365 * 24 * 3600.0
MAX_LIMIT = 2**53 - 1  # JavaScript has no exact larger integers
OVERLAP_SECONDS = 24 * 3600.0
RECORD_SECONDS = 60.0


class Scope(StrEnum):
    """What a key allows, and what a request needs.

    submit   open and fill batches, and see one's own
    read     see everything
    operate  both, and act on batches, dead letters and callbacks
    admin    all of that, and keys and webhooks
    """

    SUBMIT = "submit"
    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"


_ALLOWS: dict[str, frozenset[Scope]] = {
    Scope.SUBMIT: frozenset({Scope.SUBMIT}),
    Scope.READ: frozenset({Scope.READ}),
    Scope.OPERATE: frozenset({Scope.SUBMIT, Scope.READ, Scope.OPERATE}),
    Scope.ADMIN: frozenset(Scope),
}


class ApiKeyContext(Struct, frozen=True, kw_only=True):
    """The components that use cases on API keys need."""

    store: ApiKeyStore
    clock: Clock
    ids: Ids
    chance: Callable[[int], bytes] = secrets.token_bytes


class KeyDraft(Struct, frozen=True, kw_only=True):
    """A limit of 0 is no limit; `lasts_seconds` None: until it is revoked."""

    scope: Scope
    label: str = ""
    tenant: str = ""
    lasts_seconds: float | None = None
    requests_per_minute: int = 0
    max_batches: int = 0
    max_bytes: int = 0


class KeyLine(Struct, frozen=True, kw_only=True):
    """A key for people and programs: never its text, never its hash. `state`: active, expired, revoked."""

    id: str
    label: str
    hint: str
    scope: str
    tenant: str
    state: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    requests_per_minute: int
    max_batches: int
    max_bytes: int


class NewKey(Struct, frozen=True, kw_only=True):
    """`text` is the key itself; this is the only time it is shown."""

    text: str
    key: KeyLine


async def create(context: ApiKeyContext, draft: KeyDraft) -> NewKey:
    """Raises Reject for a value that a key cannot have."""
    _check(draft)
    now = context.clock.now()
    key = ApiKey(
        id=f"key_{context.ids.ulid()}",
        label=draft.label,
        hint="",
        hash="",
        scope=draft.scope.value,
        tenant=draft.tenant,
        created_at=now,
        expires_at=None if draft.lasts_seconds is None else now + draft.lasts_seconds,
        requests_per_minute=draft.requests_per_minute,
        max_batches=draft.max_batches,
        max_bytes=draft.max_bytes,
    )
    return await _add(context, key)


def _check(draft: KeyDraft) -> None:
    if draft.lasts_seconds is not None and not 0 < draft.lasts_seconds <= LONGEST_SECONDS:
        raise Reject(
            f"a key lasts for more than 0 and at most {LONGEST_SECONDS:.0f} seconds", code="bad_request"
        )
    limits = (draft.requests_per_minute, draft.max_batches, draft.max_bytes)
    if not all(0 <= limit <= MAX_LIMIT for limit in limits):
        raise Reject(f"limits of a key are from 0 (none) to {MAX_LIMIT}", code="bad_request")
    for name, text in (("label", draft.label), ("tenant", draft.tenant)):
        if len(text) > LONGEST_NAME or "\x00" in text:
            raise Reject(
                f"the {name} of a key is text of at most {LONGEST_NAME} characters", code="bad_request"
            )


async def list_keys(context: ApiKeyContext) -> list[KeyLine]:
    """All, newest first."""
    now = context.clock.now()
    return [to_line(key, now) for key in await context.store.list_keys()]


async def revoke(context: ApiKeyContext, key_id: str) -> KeyLine:
    """Invalid from now on; repeating changes nothing. Raises Missing."""
    now = context.clock.now()
    return to_line(await context.store.revoke_key(key_id, now=now), now)


async def rotate(context: ApiKeyContext, key_id: str, *, overlap_seconds: float = OVERLAP_SECONDS) -> NewKey:
    """Create a key with the scope, limits and expiry of the old one, which stays valid for the overlap. The
    new key owns the batches of the old one. Raises Missing, Stale when another process rotates it at the same
    moment, and Reject for a key that is no longer valid.
    """
    now = context.clock.now()
    old = await context.store.get_key(key_id)
    if not is_valid(old, now):
        raise Reject(f"{key_id} is {_state(old, now)}: create a new key instead", code="key_not_valid")
    family = owner_of(old)
    rotations = [_rotation(key) for key in await context.store.list_keys() if owner_of(key) == family]
    new = structs.replace(
        old, id=f"{family}-{max(rotations) + 1}", created_at=now, revoked_at=None, last_used_at=None
    )
    created = await _add(context, new)
    await context.store.expire_key(key_id, at=now + overlap_seconds)
    return created


def owner_of(key: ApiKey) -> str:
    """The owner of the batches that a key opens: the same for a key and all keys that replace it."""
    return key.id.partition("-")[0]


def is_valid(key: ApiKey, now: float) -> bool:
    return key.revoked_at is None and (key.expires_at is None or now < key.expires_at)


def allows(key: ApiKey, needed: Scope) -> bool:
    return needed in _ALLOWS.get(key.scope, frozenset())


def sees(key: ApiKey, *, owner: str, tenant: str) -> bool:
    """Whether the key may see a batch that this owner opened for this tenant. A key without a tenant sees
    every tenant.
    """
    if key.tenant and key.tenant != tenant:
        return False
    return allows(key, Scope.READ) or owner == owner_of(key)


def to_line(key: ApiKey, now: float) -> KeyLine:
    return KeyLine(
        id=key.id,
        label=key.label,
        hint=key.hint,
        scope=key.scope,
        tenant=key.tenant,
        state=_state(key, now),
        created_at=timestamp(key.created_at),
        expires_at=_format_moment(key.expires_at),
        revoked_at=_format_moment(key.revoked_at),
        last_used_at=_format_moment(key.last_used_at),
        requests_per_minute=key.requests_per_minute,
        max_batches=key.max_batches,
        max_bytes=key.max_bytes,
    )


class KeyChecker:
    """Checks the key of every request, and slows down addresses from which wrong ones come. Records uses of
    keys together, once a minute at most.
    """

    def __init__(self, store: ApiKeyStore, clock: Clock, rates: RateLimiter | None = None) -> None:
        self._store = store
        self._clock = clock
        self._rates = rates or RateLimiter(clock)
        self._failed = FailedKeys(clock)
        self._used: dict[str, float] = {}
        self._recorded_at = clock.monotonic()

    async def identify(self, presented: str, address: str = "") -> tuple[ApiKey, float] | None:
        """The key, and the seconds to wait before the next request (0: none). None: not a valid key. Raises
        Retry `rate_limited` when too many wrong keys came from this client address.
        """
        digest = _hash(presented[: LONGEST_KEY + 1])
        if wait_seconds := self._failed.wait_seconds(address, digest):
            raise Retry(
                "Too many wrong API keys came from this address; wait as long as Retry-After says",
                code="rate_limited",
                delay_seconds=wait_seconds,
            )
        key = await self._find_valid(presented, digest)
        if key is None:
            self._failed.note_failure(address, digest)
            return None
        self._failed.note_success(digest)
        self._used[key.id] = self._clock.now()
        if self._clock.monotonic() - self._recorded_at >= RECORD_SECONDS:
            await self.record_uses()
        return key, self._rates.take(owner_of(key), key.requests_per_minute)

    async def check(self, presented: str, needed: Scope) -> ApiKey:
        """Raises Reject `unauthorized` or `forbidden`, Retry `rate_limited` with the seconds to wait."""
        found = await self.identify(presented)
        if found is None:
            raise Reject("this API key is not valid", code="unauthorized")
        key, wait_seconds = found
        if not allows(key, needed):
            raise Reject(f"this key may not do that; it needs the scope {needed.value}", code="forbidden")
        if wait_seconds > 0:
            raise Retry(
                "this key has sent too many requests", code="rate_limited", delay_seconds=wait_seconds
            )
        return key

    async def record_uses(self) -> None:
        """Record when keys were used; call it at the end, too. Uses are kept while the database is away."""
        used, self._used = self._used, {}
        self._recorded_at = self._clock.monotonic()
        if not used:
            return
        try:
            await self._store.record_uses(used)
        except Unavailable:
            self._used = used | self._used

    async def _find_valid(self, presented: str, digest: str) -> ApiKey | None:
        if not presented.startswith(PREFIX) or len(presented) > LONGEST_KEY:
            return None
        key = await self._store.find_key(digest)
        # Found by its hash: the time of the search says nothing about a key. Compared all the same.
        if key is None or not hmac.compare_digest(key.hash, digest):
            return None
        return key if is_valid(key, self._clock.now()) else None


async def _add(context: ApiKeyContext, key: ApiKey) -> NewKey:
    text = PREFIX + urlsafe_b64encode(context.chance(SECRET_BYTES)).rstrip(b"=").decode()
    key = structs.replace(key, hint=text[:HINT_CHARACTERS], hash=_hash(text))
    await context.store.add_key(key)
    return NewKey(text=text, key=to_line(key, key.created_at))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _rotation(key: ApiKey) -> int:
    number = key.id.partition("-")[2]
    return int(number) if number.isdigit() else 1


def _state(key: ApiKey, now: float) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "active" if is_valid(key, now) else "expired"


def _format_moment(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)
