"""GET requests to URLs from strangers: pictures and pages, fetched without reaching what they must not reach.

Promises: every address of every redirect is checked, and the connection goes to a checked one; credentials
are not sent on to another origin; no more than `max_bytes` is kept, received or unpacked; the whole ends
within the time. A refused address or a too large answer is a Reject; a failed connection is a Retry.
"""

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Literal

import httpx
from msgspec import Struct

from quire.model.errors import Reject, Retry
from quire.tools.address_guard import (
    AddressGuard,
    Resolve,
    build_pinned,
    default_port,
    describe_failure,
    open_client,
    parse_url,
    system_resolve,
)

LONGEST_FETCHED_URL = 8000
MOST_REDIRECTS = 5
CONNECT_SECONDS = 5.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization"})
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_PLAIN = frozenset({"", "identity"})
_USER_AGENT = "Quire"

Method = Literal["GET", "HEAD"]


class Fetched(Struct, frozen=True, kw_only=True):
    """`status` as received, also one that is no success. `content_type` is the header, `body` is unpacked."""

    status: int
    final_url: str
    content_type: str = ""
    body: bytes = b""
    retry_after: str = ""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class GuardedFetcher:
    """`allow_private` permits private and loopback addresses, for tests and closed networks; link-local ones
    stay refused. `setting` is the one that does, for messages.
    """

    def __init__(
        self,
        *,
        allow_private: bool = False,
        setting: str = "",
        resolve: Resolve = system_resolve,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._guard = AddressGuard(allow_private=allow_private, setting=setting, resolve=resolve)
        self._tls = tls

    def check_url(self, url: str) -> str:
        """Return the URL if it could be fetched. Raises Reject; does not resolve the name."""
        self._guard.check_host(parse_url(url, longest=LONGEST_FETCHED_URL).host)
        return url

    async def fetch(
        self,
        url: str,
        *,
        max_bytes: int,
        timeout_seconds: float,
        connect_seconds: float = CONNECT_SECONDS,
        redirects: int = MOST_REDIRECTS,
        headers: Mapping[str, str] | None = None,
        method: Method = "GET",
    ) -> Fetched:
        """Raises Reject `bad_url`, `address_refused`, `too_many_redirects`, `too_large` or `bad_encoding`,
        Retry `timeout` or `no_answer`. May be repeated.
        """
        fetch = _Fetch(self._guard, self._context(), method, max_bytes, connect_seconds)
        try:
            async with asyncio.timeout(timeout_seconds):
                return await fetch.follow(url, dict(headers or {}), redirects)
        except TimeoutError as error:
            raise Retry(f"no answer within {timeout_seconds:g} s", code="timeout") from error

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = httpx.create_ssl_context()
        return self._tls


class _Fetch:
    """One fetch, with its redirects."""

    def __init__(
        self, guard: AddressGuard, tls: ssl.SSLContext, method: Method, max_bytes: int, connect_seconds: float
    ) -> None:
        self._guard = guard
        self._tls = tls
        self._method = method
        self._max_bytes = max_bytes
        self._timeout = httpx.Timeout(None, connect=connect_seconds)  # the whole has a limit of its own

    async def follow(self, url: str, headers: dict[str, str], redirects: int) -> Fetched:
        target = parse_url(url, longest=LONGEST_FETCHED_URL)
        for _ in range(redirects + 1):
            found = await self._fetch_once(target, headers)
            if isinstance(found, Fetched):
                return found
            if _origin(found) != _origin(target):
                headers = {name: text for name, text in headers.items() if name.lower() not in _CREDENTIALS}
            target = found
        raise Reject(
            f"the address redirects more than {redirects} times; give the final address",
            code="too_many_redirects",
        )

    async def _fetch_once(self, target: httpx.URL, headers: Mapping[str, str]) -> Fetched | httpx.URL:
        """The answer, or where it redirects to."""
        last: httpx.HTTPError | None = None
        for address in await self._guard.find_addresses(target):
            try:
                return await self._ask(address, target, headers)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                last = error
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise Retry(f"the connection failed: {describe_failure(error)}", code="no_answer") from error
        code = "timeout" if isinstance(last, httpx.ConnectTimeout) else "no_answer"
        raise Retry(f"no connection: {describe_failure(last)}", code=code) from last

    async def _ask(self, address: str, target: httpx.URL, headers: Mapping[str, str]) -> Fetched | httpx.URL:
        headers = {"user-agent": _USER_AGENT, **headers, "accept-encoding": "gzip", "connection": "close"}
        request = build_pinned(self._method, target, address, headers=headers)
        async with open_client(self._tls, self._timeout) as client:
            response = await client.send(request, stream=True)
            try:
                place = response.headers.get("location", "")
                if response.status_code in _REDIRECTS and place:
                    return _join(target, place)
                body = b"" if self._method == "HEAD" else await self._read(response)
            finally:
                await response.aclose()
        return Fetched(
            status=response.status_code,
            final_url=str(target.copy_with(fragment=None)),
            content_type=response.headers.get("content-type", "")[:200],
            body=body,
            retry_after=response.headers.get("retry-after", "")[:100],
        )

    async def _read(self, response: httpx.Response) -> bytes:
        announced = response.headers.get("content-length", "")
        if announced.isascii() and announced.isdecimal() and int(announced[:18]) > self._max_bytes:
            raise self._too_large()
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding in _PLAIN:
            return await self._collect(response.aiter_raw())
        if encoding not in _WINDOW_BITS:
            raise Reject(
                f"the answer is packed as {encoding[:40]!r}, which was not asked for", code="bad_encoding"
            )
        return await self._unpack(response.aiter_raw(), _WINDOW_BITS[encoding])

    async def _collect(self, pieces: AsyncIterator[bytes]) -> bytes:
        body = bytearray()
        async for piece in pieces:
            body += piece
            if len(body) > self._max_bytes:
                raise self._too_large()
        return bytes(body)

    async def _unpack(self, pieces: AsyncIterator[bytes], window_bits: int) -> bytes:
        """Unpack piece by piece, never more than fits: a small answer may be packed from a huge one."""
        unpacking, body, received = zlib.decompressobj(window_bits), bytearray(), 0
        try:
            async for piece in pieces:
                received += len(piece)
                body += unpacking.decompress(piece, self._max_bytes + 1 - len(body))
                if len(body) > self._max_bytes or received > self._max_bytes:
                    raise self._too_large()
        except zlib.error as error:
            raise Reject("the packed answer cannot be unpacked", code="bad_encoding") from error
        if received and not unpacking.eof:
            raise Retry("the packed answer ends too early", code="no_answer")
        return bytes(body)

    def _too_large(self) -> Reject:
        return Reject(f"the answer is larger than {self._max_bytes} bytes", code="too_large")


def _origin(target: httpx.URL) -> tuple[str, str, int]:
    return target.scheme, target.host.lower(), target.port or default_port(target)


def _join(target: httpx.URL, place: str) -> httpx.URL:
    try:
        joined = str(target.join(place))
    except (httpx.InvalidURL, ValueError) as error:
        raise Reject("the address redirects to something that is no URL", code="bad_url") from error
    return parse_url(joined, longest=LONGEST_FETCHED_URL)
