"""Which addresses a URL from a client may lead to: those of the public internet.

Such a URL must not reach what only this machine can reach: its own services, its neighbours, or the address
at which a cloud hands out credentials.
"""

import ipaddress
from enum import Enum

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network(
    "64:ff9b::/96"
)  # how hosts without IPv6 are reached from networks without IPv4
# Where clouds hand out credentials, besides link-local addresses.
_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192")))
_THIS_HOST = ipaddress.IPv4Network("0.0.0.0/8")  # Linux takes these for itself


class Reach(Enum):
    PUBLIC = "public"
    PRIVATE = "private"  # only if permitted by a setting
    NEVER = "never"  # link-local, credentials of clouds, multicast, reserved


def reach(address: str) -> Reach:
    """The reach of an address as the resolver returns it. Raises ValueError for other texts."""
    return _reach(ipaddress.ip_address(address.partition("%")[0]))


def _reach(ip: Address) -> Reach:
    if isinstance(ip, ipaddress.IPv6Address):
        if ip in _NAT64:
            return _reach(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
        if ip.ipv4_mapped is not None:
            # No public host is named like this: it is a way around a guard.
            return Reach.NEVER if _reach(ip.ipv4_mapped) is Reach.NEVER else Reach.PRIVATE
        if ip.is_loopback or ip.is_site_local or ip.sixtofour is not None:
            return Reach.PRIVATE
    elif ip in _THIS_HOST:
        return Reach.NEVER
    if ip in _METADATA or ip.is_multicast or ip.is_unspecified or ip.is_link_local or ip.is_reserved:
        return Reach.NEVER
    return Reach.PUBLIC if ip.is_global else Reach.PRIVATE
