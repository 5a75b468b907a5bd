"""POST requests to URLs that clients have chosen, guarded against requests to internal addresses.

Promises: only http and https; the name is resolved once, every address is checked, and the connection goes to
one of these; no redirect, no proxy; little is read of the answer, within a time limit. A refused address is a
Reject and final; a failed connection is a Retry.
"""

import asyncio
import ssl
from collections.abc import Mapping

import httpx
from msgspec import Struct

from quire.model.errors import Retry
from quire.tools.address_guard import (
    AddressGuard,
    Resolve,
    build_pinned,
    describe_failure,
    open_client,
    parse_url,
    system_resolve,
)

MOST_READ_BYTES = 64 * 1024


class PostResponse(Struct, frozen=True):
    """`retry_after` is the header as received."""

    status: int
    retry_after: str = ""


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
        self._guard = AddressGuard(
            allow_private=allow_private, setting="webhooks.allow_private", resolve=resolve
        )
        self._timeout_seconds = timeout_seconds
        self._tls = tls

    def check_url(self, url: str) -> str:
        """Return the URL if a request could be sent to it. Raises Reject; does not resolve the name."""
        self._guard.check_host(parse_url(url).host)
        return url

    async def post(self, url: str, *, body: bytes, headers: Mapping[str, str]) -> PostResponse:
        """Send the request once. Raises Reject for a refused address, Retry when there is no answer."""
        target = parse_url(url)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                addresses = await self._guard.find_addresses(target)
                return await self._send(target, addresses, body, headers)
        except TimeoutError as error:
            raise Retry(f"no answer within {self._timeout_seconds:g} s", code="no_answer") from error

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
                raise Retry(f"the connection failed: {describe_failure(error)}", code="no_answer") from error
        raise Retry(f"no connection: {describe_failure(last)}", code="no_answer") from last

    async def _send_to(
        self, address: str, target: httpx.URL, body: bytes, headers: Mapping[str, str]
    ) -> PostResponse:
        if self._tls is None:
            self._tls = httpx.create_ssl_context()
        headers = {"accept-encoding": "identity", **headers}
        request = build_pinned("POST", target, address, headers=headers, content=body)
        async with open_client(self._tls, httpx.Timeout(self._timeout_seconds)) as client:
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
