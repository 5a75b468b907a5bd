"""Wrong keys cost their address time; right ones, and other addresses, are not concerned."""

import pytest

from quire.access.failed_keys import FAILURES_PER_MINUTE, MAX_KNOWN, FailedKeys, network_of
from quire.testing.time import FakeClock


def failed(clock=None, address="192.0.2.7"):
    keys = FailedKeys(clock or FakeClock())
    for number in range(FAILURES_PER_MINUTE):
        assert keys.wait_seconds(address, f"wrong{number}") == 0
        keys.note_failure(address, f"wrong{number}")
    return keys


def test_an_address_waits_when_it_has_used_up_its_failures():
    clock = FakeClock()
    keys = failed(clock)
    wait = keys.wait_seconds("192.0.2.7", "next")
    assert 0 < wait <= 60 / FAILURES_PER_MINUTE
    assert keys.wait_seconds("192.0.2.8", "next") == 0
    clock.advance(wait)
    assert keys.wait_seconds("192.0.2.7", "next") == 0
    keys.note_failure("192.0.2.7", "next")
    assert keys.wait_seconds("192.0.2.7", "next") > 0


def test_a_key_that_was_right_a_moment_ago_passes_until_it_is_wrong():
    keys = failed()
    keys.note_success("right")
    assert keys.wait_seconds("192.0.2.7", "right") == 0
    keys.note_failure("192.0.2.7", "right")  # revoked
    assert keys.wait_seconds("192.0.2.7", "right") > 0


def test_memory_stays_bounded_whatever_keys_come():
    keys = failed()
    for number in range(MAX_KNOWN + 1):
        keys.note_success(f"right{number}")
    assert keys.wait_seconds("192.0.2.7", "right0") > 0
    assert keys.wait_seconds("192.0.2.7", f"right{MAX_KNOWN}") == 0


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("nonsense", ""),
    ],
)
def test_addresses_are_counted_by_what_one_caller_has(address, counted):
    assert network_of(address) == counted
