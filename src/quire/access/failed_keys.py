"""Slows down callers that present wrong keys: so many failures a minute for each client address.

Promises: an address that has used them up is refused before its key is looked up, until the time that it is
told; keys that were valid a moment ago still pass, so that a caller behind the same proxy is not locked out;
memory stays bounded. Each process counts for itself. Must not know: requests, where keys are stored.
"""

import ipaddress
from collections import OrderedDict

from quire.access.rate_limit import RateLimiter
from quire.model.clock import Clock

FAILURES_PER_MINUTE = 20
MAX_KNOWN = 1000
_IPV6_NETWORK_BITS = 64  # a single customer has all addresses of such a network


class FailedKeys:
    def __init__(self, clock: Clock) -> None:
        self._failures = RateLimiter(clock)
        self._known: OrderedDict[str, None] = OrderedDict()  # hashes of keys; the last used are at the end

    def wait_seconds(self, address: str, digest: str) -> float:
        """0: look the key up. Otherwise the seconds to wait before the next try."""
        if digest in self._known:
            return 0.0
        return self._failures.wait_seconds(network_of(address), FAILURES_PER_MINUTE)

    def note_failure(self, address: str, digest: str) -> None:
        self._known.pop(digest, None)
        self._failures.take(network_of(address), FAILURES_PER_MINUTE)

    def note_success(self, digest: str) -> None:
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)


def network_of(address: str) -> str:
    """The address as it is counted: an IPv6 address by its network, whose other addresses cost nothing."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""  # unknown: all such callers together
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found), _IPV6_NETWORK_BITS), strict=False))
