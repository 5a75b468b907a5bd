"""Authenticates requests: by a key in the Authorization header, or anonymously where that is allowed.

Promises: unknown, expired and revoked keys look the same; for a key that may not see a batch, the batch does
not exist. A page of another origin cannot act for a person at this machine: without a key, routes outside the
upload protocol accept requests of this server's own pages and of programs only.
"""

import ipaddress
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from quire.access.api_keys import PREFIX, Scope, allows, owner_of, sees
from quire.access.port import ApiKey
from quire.api.context import Caller
from quire.api.routing import ApiRequest, Route
from quire.model.errors import Missing, Reject, Retry

# Text of a key → the key, and the seconds to wait before the next request (0: none). None: unknown.
Identify = Callable[[str], Awaitable[tuple[ApiKey, float] | None]]
# Batch id → its owner and tenant. Raises Missing.
Origin = Callable[[str], Awaitable[tuple[str, str]]]

ANONYMOUS = Caller(name="anonymous")


class Authenticator:
    def __init__(self, identify: Identify, origin: Origin, *, anonymous: bool, hosts: frozenset[str]) -> None:
        """`hosts`: the names of this server, besides loopback addresses."""
        self._identify = identify
        self._origin = origin
        self._anonymous = anonymous
        self._hosts = hosts

    async def admit(self, route: Route, request: ApiRequest) -> Caller:
        """Raises Reject `unauthorized` or `forbidden`, Missing, or Retry `rate_limited`."""
        if route.scope is None:
            return ANONYMOUS
        key = await self._key(request)
        if key is None:
            if not route.pages:
                self._check_origin(request)
            return ANONYMOUS
        batch_id = request.path_params.get("batch_id")
        if not _is_permitted(key, route, of_batch=batch_id is not None):
            raise Reject(
                f"This key may not do that; it needs the scope {route.scope.value}", code="forbidden"
            )
        if batch_id is not None:
            owner, tenant = await self._origin(str(batch_id))
            if not sees(key, owner=owner, tenant=tenant):
                raise Missing("Batch not found", code="unknown_batch")
        return Caller(
            name=key.label or key.id,
            owner=owner_of(key),
            tenant=key.tenant,
            max_batches=key.max_batches,
            max_bytes=key.max_bytes,
        )

    async def _key(self, request: ApiRequest) -> ApiKey | None:
        said = request.headers.get("authorization")
        if said is None:
            if self._anonymous:
                return None
            raise Reject("An API key is needed: send it as Authorization: Bearer …", code="unauthorized")
        kind, _, text = said.partition(" ")
        found = await self._identify(text.strip()) if kind.lower() == "bearer" else None
        if found is None:
            # Published clients may send a token of their own to a server that asks for none.
            if self._anonymous and not text.strip().startswith(PREFIX):
                return None
            raise Reject("This API key is not valid", code="unauthorized")
        key, wait_seconds = found
        if wait_seconds > 0:
            raise Retry(
                "This key has asked too often; wait as long as Retry-After says",
                code="rate_limited",
                delay_seconds=wait_seconds,
            )
        return key

    def _check_origin(self, request: ApiRequest) -> None:
        host = _host_of(f"//{request.headers.get('host', '')}")
        origin = request.headers.get("origin")
        if not self._own(host):
            # A foreign name that resolves to this machine: DNS rebinding.
            raise Reject(
                f"This server is not known as {host[:100]!r}; set serve.public_url", code="forbidden"
            )
        if origin is not None and not self._own(_host_of(origin)):
            raise Reject("Pages of other origins need an API key for this", code="forbidden")

    def _own(self, host: str) -> bool:
        return host in self._hosts or is_loopback(host)


def _is_permitted(key: ApiKey, route: Route, *, of_batch: bool) -> bool:
    if route.whole and key.tenant:
        return False
    if route.scope is None or allows(key, route.scope):
        return True
    # A key that may submit may read its own batches, and one that may read may read submissions.
    looks = route.method == "GET" and of_batch
    return (
        looks
        and route.scope in {Scope.SUBMIT, Scope.READ}
        and (allows(key, Scope.SUBMIT) or allows(key, Scope.READ))
    )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_of(address: str) -> str:
    try:
        return (urlsplit(address).hostname or "").lower()
    except ValueError:
        return ""
