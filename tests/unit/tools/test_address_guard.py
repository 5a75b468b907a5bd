"""The guard of addresses: what is refused before and after a name is resolved."""

import socket

import pytest

from quire.model.errors import Reject, Retry
from quire.tools.address_guard import AddressGuard, build_pinned, parse_url


def leading_to(*addresses):
    async def resolve(_host, _port):
        return list(addresses)

    return resolve


async def test_a_few_checked_addresses_are_found():
    guard = AddressGuard(resolve=leading_to("8.8.8.8", "8.8.4.4", "1.1.1.1", "1.0.0.1"))
    assert await guard.find_addresses(parse_url("https://h.example/")) == ["8.8.8.8", "8.8.4.4", "1.1.1.1"]


async def test_an_address_inside_refuses_the_name_even_behind_the_tried_ones():
    guard = AddressGuard(resolve=leading_to("8.8.8.8", "8.8.4.4", "1.1.1.1", "10.0.0.1"))
    with pytest.raises(Reject):
        await guard.find_addresses(parse_url("https://h.example/"))


async def test_a_name_without_an_address_may_be_tried_again():
    async def unknown(_host, _port):
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    for resolve in (unknown, leading_to()):
        with pytest.raises(Retry):
            await AddressGuard(resolve=resolve).find_addresses(parse_url("https://h.example/"))


def test_a_host_is_checked_as_it_is_written():
    AddressGuard().check_host("h.example")
    for host in ("10.0.0.1", "LOCALHOST.", "::1"):
        with pytest.raises(Reject):
            AddressGuard().check_host(host)
    AddressGuard(allow_private=True).check_host("localhost")


def test_a_pinned_request_goes_to_the_address_under_the_name():
    asked = build_pinned(
        "GET", parse_url("https://h.example:8443/a#b"), "192.0.2.1", headers={"Host": "evil"}
    )
    assert str(asked.url) == "https://192.0.2.1:8443/a"
    assert asked.headers["host"] == "h.example:8443"
    assert asked.extensions["sni_hostname"] == "h.example"
