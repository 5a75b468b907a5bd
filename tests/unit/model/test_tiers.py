"""Tiers are found by number, word or both, and nothing else is one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.model.errors import Reject
from quire.model.tiers import TIERS, tier_name, tier_number


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("1_critical", 1),
        ("critical", 1),
        ("1", 1),
        ("high", 2),
        ("3_normal", 3),
        ("Normal", 3),
        (" low ", 4),
        ("5", 5),
        ("5_background", 5),
    ],
)
def test_a_tier_has_three_spellings(name, number):
    assert tier_number(name) == number


def test_names_and_numbers_belong_together():
    assert [tier_number(tier_name(number)) for number in range(1, 6)] == [1, 2, 3, 4, 5]
    assert [tier_name(tier_number(name)) for name in TIERS] == list(TIERS)
    assert sorted(TIERS) == list(TIERS)


@pytest.mark.parametrize("name", ["", "0", "6", "1_high", "urgent", "_critical", "1_", "\u0661"])
def test_an_unknown_name_is_refused_with_advice(name):
    with pytest.raises(Reject, match="1_critical, 2_high, 3_normal, 4_low, 5_background") as refused:
        tier_number(name)
    assert refused.value.code == "unknown_tier"


@given(st.integers().filter(lambda number: not 1 <= number <= 5))
def test_an_unknown_number_is_refused(number):
    with pytest.raises(Reject, match=f"no tier {number}") as refused:
        tier_name(number)
    assert refused.value.code == "unknown_tier"
