"""Token buckets: a minute's worth at once, the rest evenly, in bounded memory."""

import pytest

from quire.access.rate_limit import RateLimiter
from quire.testing.time import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


def test_a_minutes_worth_may_come_at_once(clock):
    limiter = RateLimiter(clock)
    assert [limiter.take("a", 30) for _ in range(30)] == [0.0] * 30
    assert limiter.take("a", 30) == 2.0


def test_who_waits_as_long_as_told_is_let_in_and_no_sooner(clock):
    limiter = RateLimiter(clock)
    for _ in range(6):
        limiter.take("a", 6)
    assert limiter.take("a", 6) == 10.0
    clock.advance(9.5)
    assert limiter.take("a", 6) == pytest.approx(0.5)
    clock.advance(0.5)
    assert limiter.take("a", 6) == 0.0
    assert limiter.take("a", 6) == pytest.approx(10)


def test_asking_too_often_does_not_put_the_moment_off(clock):
    limiter = RateLimiter(clock)
    limiter.take("a", 1)
    for _ in range(59):
        clock.advance(1)
        assert limiter.take("a", 1) > 0
    clock.advance(1)
    assert limiter.take("a", 1) == 0.0


def test_nobody_saves_up_more_than_a_minute(clock):
    limiter = RateLimiter(clock)
    limiter.take("a", 2)
    clock.advance(3600)
    assert [limiter.take("a", 2) > 0 for _ in range(3)] == [False, False, True]


def test_each_has_a_bucket_of_its_own(clock):
    limiter = RateLimiter(clock)
    assert limiter.take("a", 1) == 0.0
    assert limiter.take("b", 1) == 0.0
    assert limiter.take("a", 1) > 0


def test_zero_is_no_limit(clock):
    limiter = RateLimiter(clock)
    assert {limiter.take("a", 0) for _ in range(1000)} == {0.0}


def test_memory_is_bounded_and_who_asks_is_remembered(clock):
    limiter = RateLimiter(clock, max_names=10)
    limiter.take("a", 1)
    for number in range(1000):
        limiter.take(f"x{number}", 1)
        assert limiter.take("a", 1) > 0
    assert len(limiter._left) == 10
