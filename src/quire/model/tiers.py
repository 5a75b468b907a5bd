"""Tiers: the priority of a batch, from 1 (critical) to 5 (background), and their names.

Names carry their number, so that they sort by urgency wherever they are listed.
"""

from quire.model.errors import Reject

TIERS = ("1_critical", "2_high", "3_normal", "4_low", "5_background")

_NUMBERS = {
    spelling: number
    for number, name in enumerate(TIERS, start=1)
    for spelling in (name, name.partition("_")[2], str(number))
}


def tier_number(name: str) -> int:
    """The number of `1_critical`, `critical` or `1`. Raises Reject with code `unknown_tier`."""
    number = _NUMBERS.get(name.strip().casefold())
    if number is None:
        raise _unknown(repr(name[:80]))
    return number


def tier_name(number: int) -> str:
    """The full name of tier `number`. Raises Reject with code `unknown_tier`."""
    if not 1 <= number <= len(TIERS):
        raise _unknown(str(number))
    return TIERS[number - 1]


def _unknown(found: str) -> Reject:
    known = ", ".join(TIERS)
    return Reject(
        f"There is no tier {found}. Use one of {known}; the number or the word is enough.",
        code="unknown_tier",
    )
