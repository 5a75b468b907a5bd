"""Authenticates requests: by a key in the Authorization header, or anonymously where that is allowed.

Promises: unknown, expired and revoked keys look the same, and cost their address time; for a key that may not
see a batch, the batch does not exist. A page of another origin cannot act for a person at this machine:
without a key, whatever changes something is for programs and for this server's own pages only, and so is
whatever lies outside the upload protocol, there even with a key. A server whose operator has opened it to
callers without keys from anywhere takes their uploads from pages of any origin.
"""

import ipaddress
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from quire.access.api_keys import PREFIX, Scope, allows, owner_of, sees
from quire.access.port import ApiKey
from quire.access.user_tokens import UserTokens
from quire.api.context import Caller
from quire.api.routing import ApiRequest, Route
from quire.ledger.submissions import OwnerQuota
from quire.model.errors import Missing, Reject, Retry

# Text of a key and address of the client → the key, and the seconds to wait before the next request (0:
# none). None: unknown. Raises Retry when too many unknown ones came from the address.
Identify = Callable[[str, str], Awaitable[tuple[ApiKey, float] | None]]
# Batch id → its owner and tenant. Raises Missing.
Origin = Callable[[str], Awaitable[tuple[str, str]]]

ANONYMOUS = Caller(name="anonymous")
_PORTS = {"http": 80, "https": 443}
_READS = frozenset({"GET", "HEAD"})
APP_KEY = "x-jarvis-app-key"


class Authenticator:
    def __init__(
        self,
        identify: Identify,
        origin: Origin,
        *,
        anonymous: bool,
        hosts: frozenset[str],
        public_url: str = "",
        foreign_uploads: bool = False,
        caller: Caller = ANONYMOUS,
        user_tokens: UserTokens | None = None,
    ) -> None:
        """`hosts`: the names of this server, besides loopback addresses. `foreign_uploads`: callers without a
        key may upload from pages of any origin. `caller`: what a caller without a key may have.
        `user_tokens`: reads the tokens of users; None: there are none.
        """
        self._identify = identify
        self._origin = origin
        self._anonymous = anonymous
        self._hosts = hosts
        self._public_origin = _read_origin(public_url)
        self._foreign_uploads = foreign_uploads
        self._caller = caller
        self._user_tokens = user_tokens

    async def admit(self, route: Route, request: ApiRequest) -> Caller:
        """Raises Reject `unauthorized` or `forbidden`, Missing, or Retry `rate_limited`."""
        if route.scope is None:
            return ANONYMOUS
        if (user := self._identify_user(route, request)) is not None:
            return user
        key = await self._key(request, route)
        if key is None:
            if not self._is_for_any_page(route):
                self._check_host(request)
                self._check_origin(request)
            return self._caller
        if not route.pages:
            self._check_origin(request)
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
            quota=OwnerQuota(max_bytes=key.max_bytes),
        )

    def _identify_user(self, route: Route, request: ApiRequest) -> Caller | None:
        """The user of a token; None for a request without one. A wrong token is never taken for none."""
        said = request.headers.get("authorization", "")
        kind, _, text = said.partition(" ")
        if self._user_tokens is None or not route.users or kind.lower() != "bearer":
            return None
        token = text.strip()
        if token.startswith(PREFIX):
            return None
        user = self._user_tokens.identify(token)
        self._check_origin(request)
        return Caller(name=f"user {user}", user=user)

    def _is_for_any_page(self, route: Route) -> bool:
        """Whether pages of any origin may ask this without a key."""
        uploads = self._foreign_uploads and route.scope is Scope.SUBMIT
        return route.pages and (route.method in _READS or uploads)

    async def _key(self, request: ApiRequest, route: Route) -> ApiKey | None:
        said = request.headers.get("authorization")
        if said is None and route.app_key and APP_KEY in request.headers:
            said = f"Bearer {request.headers[APP_KEY]}"
        if said is None:
            if self._anonymous:
                return None
            raise Reject("An API key is needed: send it as Authorization: Bearer …", code="unauthorized")
        kind, _, text = said.partition(" ")
        # Published clients may send a token of their own to a server that asks for none.
        if self._anonymous and not text.strip().startswith(PREFIX):
            return None
        found = None
        if kind.lower() == "bearer":
            found = await self._identify(text.strip(), request.client.host if request.client else "")
        if found is None:
            raise Reject("This API key is not valid", code="unauthorized")
        key, wait_seconds = found
        if wait_seconds > 0:
            raise Retry(
                "This key has asked too often; wait as long as Retry-After says",
                code="rate_limited",
                delay_seconds=wait_seconds,
            )
        return key

    def _check_host(self, request: ApiRequest) -> None:
        host = _host_of(f"//{request.headers.get('host', '')}")
        if host not in self._hosts and not is_loopback(host):
            # A foreign name that resolves to this machine: DNS rebinding.
            raise Reject(
                f"This server is not known as {host[:100]!r}; set serve.public_url", code="forbidden"
            )

    def _check_origin(self, request: ApiRequest) -> None:
        """Only pages of this very server, at the address by which it was asked, or its public one: another
        port of this machine is another origin. Programs send neither header.
        """
        origin = request.headers.get("origin")
        # Browsers send this with requests of images and links, too, which have no Origin. `none`: typed in.
        site = request.headers.get("sec-fetch-site", "none")
        if origin is not None:
            said = _read_origin(origin)
            own = said is not None and (
                said == self._public_origin
                or said == _read_origin(f"{said[0]}://{request.headers.get('host', '')}")
            )
        else:
            own = site in {"none", "same-origin"}
        if not own:
            raise Reject(
                "Pages of other origins may not do this; they may upload with an API key", code="forbidden"
            )


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


def _read_origin(text: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None for what is not the origin of a page of a server."""
    try:
        parts = urlsplit(text)
        if parts.scheme not in _PORTS or not parts.hostname or parts.username is not None:
            return None
        return parts.scheme, parts.hostname.lower(), parts.port or _PORTS[parts.scheme]
    except ValueError:
        return None


def _host_of(address: str) -> str:
    try:
        return (urlsplit(address).hostname or "").lower()
    except ValueError:
        return ""
