"""Who may ask: a key in the Authorization header, or nobody in particular where that is allowed.

Promises: unknown, expired and revoked keys look the same; a key that may not see a batch is told that there
is none. A page of another origin cannot act for a person at this machine: without a key, the routes that are
not of the upload protocol take requests of this server's own pages and of programs only.
"""

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Literal
from urllib.parse import urlsplit

from quire.api.desk import Caller
from quire.api.routing import Asked, Route, Scope
from quire.model.errors import Missing, Reject, Retry

Anonymous = Literal["loopback", "always", "never"]
# Key text → who that is, and after how many seconds to come again (0: now). None: not a key of ours.
Identify = Callable[[str], Awaitable[tuple[Caller, float] | None]]
# Batch id → id of the key that opened it. Raises Missing.
Owner = Callable[[str], Awaitable[str]]

_MAY = {
    Scope.SUBMIT: frozenset({Scope.SUBMIT, Scope.OPERATE, Scope.ADMIN}),
    Scope.READ: frozenset({Scope.READ, Scope.OPERATE, Scope.ADMIN}),
    Scope.OPERATE: frozenset({Scope.OPERATE, Scope.ADMIN}),
    Scope.ADMIN: frozenset({Scope.ADMIN}),
}
ANYBODY = Caller(name="anonymous", scope=Scope.ADMIN)
NOBODY = Caller(name="", scope=Scope.OPEN)


class Gate:
    def __init__(self, identify: Identify, owner: Owner, *, anonymous: bool, hosts: frozenset[str]) -> None:
        """`hosts`: names by which pages of our own are reached; loopback addresses always are."""
        self._identify = identify
        self._owner = owner
        self._anonymous = anonymous
        self._hosts = hosts

    async def admit(self, route: Route, request: Asked) -> Caller:
        """Raises Reject `unauthorized` or `forbidden`, Missing, or Retry `rate_limited`."""
        if route.scope is Scope.OPEN:
            return NOBODY
        caller = await self._caller(request)
        if caller is None:
            if not route.pages:
                self._check_origin(request)
            return ANYBODY
        looks_at_own = route.scope is Scope.READ and "batch_id" in request.path_params
        allowed = caller.scope in _MAY[route.scope] or (looks_at_own and caller.scope is Scope.SUBMIT)
        reads_status = route.scope is Scope.SUBMIT and route.method == "GET" and caller.scope is Scope.READ
        if not allowed and not reads_status:
            raise Reject(
                f"This key may not do that; it needs the scope {route.scope.value}", code="forbidden"
            )
        batch_id = request.path_params.get("batch_id")
        own = caller.scope is not Scope.SUBMIT or batch_id is None
        if not own and await self._owner(str(batch_id)) != caller.key_id:
            raise Missing("Batch not found", code="unknown_batch")
        return caller

    async def _caller(self, request: Asked) -> Caller | None:
        said = request.headers.get("authorization")
        if said is None:
            if self._anonymous:
                return None
            raise Reject("An API key is needed: send it as Authorization: Bearer …", code="unauthorized")
        kind, _, key = said.partition(" ")
        found = await self._identify(key.strip()) if kind.lower() == "bearer" else None
        if found is None:
            # Published clients may send a token of their own to a server that asks for none.
            if self._anonymous and not key.startswith("qk_"):
                return None
            raise Reject("This API key is not valid", code="unauthorized")
        caller, wait_seconds = found
        if wait_seconds > 0:
            raise Retry(
                "This key has asked too often; wait as long as Retry-After says",
                code="rate_limited",
                delay_seconds=wait_seconds,
            )
        return caller

    def _check_origin(self, request: Asked) -> None:
        host = _name(f"//{request.headers.get('host', '')}")
        origin = request.headers.get("origin")
        if not self._own(host):
            # A foreign name that leads to this machine: what a page does that was told so by its own DNS.
            raise Reject(
                f"This server is not known as {host[:100]!r}; set serve.public_url", code="forbidden"
            )
        if origin is not None and not self._own(_name(origin)):
            raise Reject("Pages of other origins need an API key for this", code="forbidden")

    def _own(self, host: str) -> bool:
        return host in self._hosts or is_loopback(host)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _name(address: str) -> str:
    try:
        return (urlsplit(address).hostname or "").lower()
    except ValueError:
        return ""
