"""Where requests to URLs of strangers may go: a name is resolved once, and every address it has is checked.

Promises: only http and https, no user name and no password; the request then goes to an address that was
checked, whatever the name leads to a moment later, and shows the certificate and the Host of the name; no
proxy of the environment. A refused address is a Reject and final; a name without an answer is a Retry.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping

import httpx

from quire.model.errors import Reject, Retry
from quire.tools.addresses import Reach, reach

LONGEST_URL = 2000
MOST_ADDRESSES = 3  # tried until a connection succeeds

Resolve = Callable[[str, int], Awaitable[list[str]]]


async def system_resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class AddressGuard:
    """`allow_private` permits private and loopback addresses; link-local ones stay refused. `setting` is the
    one that permits them, for messages.
    """

    def __init__(
        self, *, allow_private: bool = False, setting: str = "", resolve: Resolve = system_resolve
    ) -> None:
        self._allow_private = allow_private
        self._setting = setting
        self._resolve = resolve

    def check_host(self, host: str) -> None:
        """Raises Reject for a host that is refused already as it is written; does not resolve it."""
        try:
            self._check_address(host, host)
        except ValueError:
            if host.rstrip(".").lower() == "localhost" and not self._allow_private:
                raise self._refuse(host) from None

    async def find_addresses(self, target: httpx.URL) -> list[str]:
        """The addresses a request to this URL may go to, the first one first. Raises Reject or Retry."""
        host = target.raw_host.decode("ascii").strip("[]")
        try:
            found = await self._resolve(host, target.port or default_port(target))
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
            raise self._refuse(host)

    def _refuse(self, host: str) -> Reject:
        permits = f"; the setting {self._setting} permits private networks" if self._setting else ""
        return Reject(
            f"{host[:100]} is not on the public internet, and Quire does not call such addresses{permits}",
            code="address_refused",
        )


def parse_url(url: str, *, longest: int = LONGEST_URL) -> httpx.URL:
    """Raises Reject for what is no URL of a web server."""
    try:
        found = httpx.URL(url)
        port_fits = found.port is None or 0 < found.port < 1 << 16
        fits = found.scheme in {"http", "https"} and found.host and not found.userinfo and port_fits
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise _bad_url(longest) from error
    if not fits or len(url) > longest or not url.isprintable():
        raise _bad_url(longest)
    return found


def default_port(target: httpx.URL) -> int:
    return 443 if target.scheme == "https" else 80


def build_pinned(
    method: str, target: httpx.URL, address: str, *, headers: Mapping[str, str], content: bytes | None = None
) -> httpx.Request:
    """The request for `target`, sent to `address`; a Host among the headers does not count."""
    given = {name: text for name, text in headers.items() if name.lower() != "host"}
    return httpx.Request(
        method,
        target.copy_with(host=address, fragment=None),
        content=content,
        headers={**given, "host": target.netloc.decode("ascii")},
        # The certificate is requested and verified for the name; the connection goes to the address.
        extensions={"sni_hostname": target.raw_host.decode("ascii")},
    )


def open_client(tls: ssl.SSLContext, timeout: httpx.Timeout) -> httpx.AsyncClient:
    """A client for one request: a pooled connection would be shared by all names of one address."""
    return httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(verify=tls, http2=False, trust_env=False),
        timeout=timeout,
        follow_redirects=False,
        trust_env=False,
    )


def describe_failure(error: BaseException | None) -> str:
    return (str(error) or type(error).__name__)[:200]


def _bad_url(longest: int) -> Reject:
    return Reject(
        f"this URL cannot be called: write https://host/path, without user name and password, at "
        f"most {longest} characters",
        code="bad_url",
    )
