"""When a message is tried again: the delay, the limit, and what the receiver asks for."""

import pytest

from quire.model.redelivery import RedeliveryPolicy

EXACT = RedeliveryPolicy(max_tries=4, delays_seconds=(5.0, 60.0), jitter=0.2, longest_requested_seconds=100.0)
DOUBLING = RedeliveryPolicy(max_tries=9, first_delay_seconds=2.0, longest_delay_seconds=10.0)


@pytest.mark.parametrize(("fraction", "delays"), [(0.0, [4.5, 54.0, 54.0]), (0.5, [5.0, 60.0, 60.0])])
def test_exact_delays_are_shifted_by_chance_and_the_last_one_stays(fraction, delays):
    assert [EXACT.next_delay_seconds(tries, fraction) for tries in (1, 2, 3)] == pytest.approx(delays)


def test_without_exact_delays_the_delay_doubles_up_to_the_longest():
    assert [DOUBLING.next_delay_seconds(tries, 1.0) for tries in (1, 2, 3, 4)] == [2.0, 4.0, 8.0, 10.0]


def test_after_the_last_try_or_a_permanent_failure_it_is_given_up():
    assert EXACT.next_delay_seconds(4, 0.5) is None
    assert EXACT.next_delay_seconds(1, 0.5, is_permanent=True) is None


@pytest.mark.parametrize(("requested", "delay"), [(1.0, 5.0), (30.0, 30.0), (1000.0, 100.0)])
def test_a_longer_requested_delay_counts_within_its_limit(requested, delay):
    assert EXACT.next_delay_seconds(1, 0.5, requested_seconds=requested) == delay


def test_a_delay_exists_also_beyond_the_limit_of_tries():
    assert DOUBLING.delay_seconds(10_000, 1.0) == 10.0
