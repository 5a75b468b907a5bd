"""Times are read from ISO 8601, right and wrong, and from words; negative and absurd ones are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.steps.recipe.duration import MOST_MINUTES, parse_minutes

TIMES = {
    "PT1H20M": 80, "PT1H20": 80, "P0DT30M": 30, "PT30M": 30, "pt45m": 45, "PT90S": 2, "PT1.5H": 90, "P1D": 1440, "P1DT1H": 1500,
    "PT1H30MIN": 90, "P0Y0M0DT0H35M0.000S": 35, "PT 20 M": 20, "1H30M": 90, "1h30": 90, "1h30m": 90, "1 hr 10": 70, "1 hr 10 min": 70,
    "1 hour and 15 minutes": 75, "1 1/2 hours": 90, "1½ hours": 90, "2½ – 3 hours": 180, "half an hour": 30, "an hour and a half": 90,
    "about an hour.": 60, "bake for 20-25 minutes": 25, "20 to 25 minutes": 25, "overnight": 480, "leave it overnight in the fridge": 480,
    "45": 45, "10 min": 10, "3 mins": 3, "1:30": 90, "0:45": 45, "1 Std. 20 Min": 80, "20 Minuten": 20, "2 heures": 120, "1 ora": 60,
    "30 minutos": 30, "2 days": 2880, "45s - 1 minute": 1,
}  # fmt: skip
REFUSED = [
    "", "PT", "P", "PT0M", "-PT5M", "PT-5M", "−28284331", "-28284331", "PT99999999M", "28284331", "350°F", "soon", "P1Y", "mix 3 eggs",
    "20 minuteslong",
]  # fmt: skip


@pytest.mark.parametrize("text", sorted(TIMES))
def test_a_time_is_read_as_minutes(text: str):
    assert parse_minutes(text) == TIMES[text]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_time_is_none(text: str):
    assert parse_minutes(text) is None


@given(st.text(alphabet="PTHMDSYW0123456789 .,:-/½ahourmintes", max_size=60) | st.text(max_size=60))
def test_any_text_gives_a_sane_time_or_none(text: str):
    minutes = parse_minutes(text)

    assert minutes is None or 0 < minutes <= MOST_MINUTES


@given(st.integers(0, 100), st.integers(0, 59))
def test_written_durations_are_read_again(hours: int, minutes: int):
    assert (parse_minutes(f"PT{hours}H{minutes}M") or 0) == hours * 60 + minutes
