"""Which addresses are of the public internet."""

import pytest

from quire.tools.addresses import Reach, reach

PUBLIC = ["8.8.8.8", "192.88.99.1", "2606:4700::1111", "64:ff9b::808:808"]
PRIVATE = [
    *("127.0.0.1", "127.8.9.10", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("100.64.0.1", "192.0.2.1", "198.18.0.1", "::1", "fc00::1", "fd12::1", "fec0::1", "2001:db8::1"),
    *("::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::a00:1", "64:ff9b::7f00:1"),
    *("2002:a00:1::", "2002:808:808::", "2001:0:1::1"),
]
NEVER = [
    *("169.254.169.254", "169.254.0.1", "0.0.0.0", "0.1.2.3", "224.0.0.1", "240.0.0.1"),  # noqa: S104
    *(
        "255.255.255.255",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "ff02::1",
        "::ffff:169.254.169.254",
        "::ffff:0.0.0.0",
    ),
    *("fd00:ec2::254", "100.100.100.200", "192.0.0.192", "::ffff:100.100.100.200"),
    *("64:ff9b::a9fe:a9fe", "::10.0.0.1", "::ffff:224.0.0.1"),
]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        *((address, Reach.PUBLIC) for address in PUBLIC),
        *((address, Reach.PRIVATE) for address in PRIVATE),
        *((address, Reach.NEVER) for address in NEVER),
    ],
)
def test_an_address_is_judged(address, expected):
    assert reach(address) is expected


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f000001", "2130706433", "10.0.0"])
def test_what_is_no_address_is_not_judged(text):
    with pytest.raises(ValueError):
        reach(text)
