"""Who may begin when memory is short, as a table of rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.compute.pool.memory_budget import (
    LEAST_SHARE_MB,
    SHARE_MB,
    UNLIMITED_MB,
    MemoryBudget,
    limit_workers,
)


@pytest.mark.parametrize(
    ("budget", "workers", "share", "largest"),
    [
        (0, 8, UNLIMITED_MB, UNLIMITED_MB),
        (18_000, 2, SHARE_MB, 18_000 - SHARE_MB),
        (1000, 2, 250, 750),
        (512, 2, 160, 352),
        (512, 1, 256, 512),
        (350, 2, LEAST_SHARE_MB, 350 - LEAST_SHARE_MB),
        (50, 1, LEAST_SHARE_MB, LEAST_SHARE_MB),
    ],
)
def test_everybody_has_a_share_and_one_can_have_the_rest(budget, workers, share, largest):
    scales = MemoryBudget(budget, workers)
    assert (scales.share_mb, scales.largest_mb) == (share, largest)


@pytest.mark.parametrize(
    ("need", "held", "fits"),
    [
        (750, 0, True),
        (9999, 0, True),  # the limit of the worker says no to this one, not we: somebody must have a turn
        (500, 250, True),
        (501, 250, False),
        (250, 500, True),
        (251, 500, False),
    ],
)
def test_what_is_held_above_the_shares_stays_within_the_budget(need, held, fits):
    assert MemoryBudget(1000, 2).fits(need, held) is fits


@given(st.integers(200, 100_000), st.integers(1, 16), st.lists(st.integers(0, 10_000), max_size=40))
def test_shares_and_holdings_never_pass_the_budget(budget, workers, needs):
    workers = limit_workers(workers, budget)
    scales = MemoryBudget(budget, workers)
    held: list[int] = []
    for need in needs:
        asked = min(need, scales.largest_mb)
        if len(held) < workers and scales.fits(asked, sum(held)):
            held.append(scales.above(asked))
    assert workers * scales.share_mb + sum(held) <= budget


@pytest.mark.parametrize(
    ("workers", "budget", "hired"), [(8, 0, 8), (8, 10_000, 8), (8, 640, 4), (8, 10, 1), (1, 400, 1)]
)
def test_no_more_are_hired_than_have_room_to_live(workers, budget, hired):
    assert limit_workers(workers, budget) == hired
