"""POST requests to URLs that clients have chosen, guarded against requests to internal addresses.

Promises: only http and https; the name is resolved once, every address is checked, and the connection goes to
one of these; no redirect, no proxy; little is read of the answer, within a time limit. A refused address is a
Reject and final; a failed connection is a Retry.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping

import httpx
from msgspec import Struct

from quire.model.errors import Reject, Retry
from quire.tools.addresses import Reach, reach

LONGEST_URL = 2000
MOST_READ_BYTES = 64 * 1024
MOST_ADDRESSES = 3  # tried until a connection succeeds

Resolve = Callable[[str, int], Awaitable[list[str]]]


class PostResponse(Struct, frozen=True):
    """`retry_after` is the header as received."""

    status: int
    retry_after: str = ""


async def system_resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class OutgoingClient:
    """`allow_private` permits private and loopback addresses; link-local ones stay refused."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        timeout_seconds: float = 15.0,
        resolve: Resolve = system_resolve,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._allow_private = allow_private
        self._timeout_seconds = timeout_seconds
        self._resolve = resolve
        self._tls = tls

    def check_url(self, url: str) -> str:
        """Return the URL if a request could be sent to it. Raises Reject; does not resolve the name."""
        host = _parse_url(url).host
        try:
            self._check_address(host, host)
        except ValueError:
            if host.rstrip(".").lower() == "localhost" and not self._allow_private:
                raise _refuse_address(host) from None
        return url

    async def post(self, url: str, *, body: bytes, headers: Mapping[str, str]) -> PostResponse:
        """Send the request once. Raises Reject for a refused address, Retry when there is no answer."""
        target = _parse_url(url)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                addresses = await self._resolve_addresses(target)
                return await self._send(target, addresses, body, headers)
        except TimeoutError as error:
            raise Retry(f"no answer within {self._timeout_seconds:g} s", code="no_answer") from error

    async def _resolve_addresses(self, target: httpx.URL) -> list[str]:
        host = target.raw_host.decode("ascii").strip("[]")
        try:
            found = await self._resolve(host, target.port or _port(target))
        except (OSError, UnicodeError) as error:
            raise Retry(f"{host} cannot be resolved", code="no_answer") from error
        for address in found:
            self._check_address(address, host)
        if not found:
            raise Retry(f"{host} has no address", code="no_answer")
        return found[:MOST_ADDRESSES]

    def _check_address(self, address: str, host: str) -> None:
        """One refused address is enough to refuse the name: a mixture looks like an attack."""
        found = reach(address.strip("[]"))
        if found is Reach.NEVER or (found is Reach.PRIVATE and not self._allow_private):
            raise _refuse_address(host)

    async def _send(
        self, target: httpx.URL, addresses: list[str], body: bytes, headers: Mapping[str, str]
    ) -> PostResponse:
        last: httpx.HTTPError | None = None
        for address in addresses:
            try:
                return await self._send_to(address, target, body, headers)
            except httpx.ConnectError as error:
                last = error
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise Retry(f"the connection failed: {_words(error)}", code="no_answer") from error
        raise Retry(f"no connection: {_words(last)}", code="no_answer") from last

    async def _send_to(
        self, address: str, target: httpx.URL, body: bytes, headers: Mapping[str, str]
    ) -> PostResponse:
        if self._tls is None:
            self._tls = httpx.create_ssl_context()
        request = httpx.Request(
            "POST",
            target.copy_with(host=address, fragment=None),
            content=body,
            headers={"accept-encoding": "identity", **headers, "host": target.netloc.decode("ascii")},
            # The certificate is requested and verified for the name; the connection goes to the address.
            extensions={"sni_hostname": target.raw_host.decode("ascii")},
        )
        # A client per request: a pooled connection would be shared by all names of one address.
        async with httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(verify=self._tls, http2=False, trust_env=False),
            timeout=self._timeout_seconds,
            follow_redirects=False,
            trust_env=False,
        ) as client:
            response = await client.send(request, stream=True)
            try:
                read = 0
                # Not decompressed: a small answer cannot grow.
                async for chunk in response.aiter_raw():
                    read += len(chunk)
                    if read >= MOST_READ_BYTES:
                        break
            finally:
                await response.aclose()
        return PostResponse(response.status_code, response.headers.get("retry-after", ""))


def _parse_url(url: str) -> httpx.URL:
    try:
        found = httpx.URL(url)
        port_fits = found.port is None or 0 < found.port < 1 << 16
        fits = found.scheme in {"http", "https"} and found.host and not found.userinfo and port_fits
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise _bad_url() from error
    if not fits or len(url) > LONGEST_URL or not url.isprintable():
        raise _bad_url()
    return found


def _port(target: httpx.URL) -> int:
    return 443 if target.scheme == "https" else 80


def _bad_url() -> Reject:
    return Reject(
        f"this URL cannot be called: write https://host/path, without user name and password, at "
        f"most {LONGEST_URL} characters",
        code="bad_url",
    )


def _refuse_address(host: str) -> Reject:
    return Reject(
        f"{host[:100]} is not on the public internet, and Quire does not call such addresses; the "
        "setting webhooks.allow_private permits private networks",
        code="address_refused",
    )


def _words(error: BaseException | None) -> str:
    return (str(error) or type(error).__name__)[:200]
