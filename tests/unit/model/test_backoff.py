"""One formula for everything that is tried again."""

import pytest

from quire.model.backoff import backoff_seconds


@pytest.mark.parametrize(
    ("tries", "seconds"), [(1, 2.0), (2, 4.0), (3, 8.0), (5, 30.0), (10_000, 30.0), (0, 2.0)]
)
def test_a_delay_doubles_up_to_the_longest(tries: int, seconds: float):
    assert backoff_seconds(tries, first=2.0, longest=30.0) == seconds


@pytest.mark.parametrize(("fraction", "seconds"), [(0.0, 4.0), (0.5, 6.0), (1.0, 8.0)])
def test_chance_decides_about_the_upper_half(fraction: float, seconds: float):
    assert backoff_seconds(3, first=2.0, longest=30.0, fraction=fraction) == seconds


def test_the_factor_can_be_another():
    assert backoff_seconds(3, first=1.0, longest=100.0, factor=3.0) == 9.0
