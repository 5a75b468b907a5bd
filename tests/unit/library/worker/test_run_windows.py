"""Run windows, as tables and against a plain reading of each minute."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.library.worker.run_windows import (
    DAY,
    RunWindow,
    is_open,
    parse_window,
    seconds_until_closed,
    seconds_until_open,
)
from quire.model.errors import Reject

HOUR = 3600


@pytest.mark.parametrize(
    ("text", "opens", "closes"),
    [
        ("22:00-06:30", 22 * HOUR, 6 * HOUR + 1800),
        ("9:00-17:00", 9 * HOUR, 17 * HOUR),
        (" 00:00-24:00 ", 0, DAY),
        ("23:59-00:00", DAY - 60, 0),
    ],
)
def test_a_window_is_read(text, opens, closes):
    assert parse_window(text) == RunWindow(opens, closes)


@pytest.mark.parametrize(
    "text", ["", "22-06", "22:00", "24:00-01:00", "22:60-23:00", "08:00-08:00", "08:00-24:30", "٢٢:00-23:00"]
)
def test_what_is_no_window_is_refused(text):
    with pytest.raises(Reject, match="not a run window"):
        parse_window(text)


@pytest.mark.parametrize(
    ("texts", "hour", "opens", "closes"),
    [
        ([], 3, 0, None),
        (["00:00-24:00"], 3, 0, None),
        (["22:00-06:00"], 21, 1, 0),
        (["22:00-06:00"], 22, 0, 8),
        (["22:00-06:00"], 3, 0, 3),
        (["22:00-06:00"], 6, 16, 0),
        (["01:00-02:00", "02:00-04:00"], 1, 0, 3),  # touching windows are one
        (["01:00-03:00", "02:00-05:00"], 2, 0, 3),
        (["12:00-00:00", "00:00-12:00"], 5, 0, None),
        (["08:00-09:00", "20:00-21:00"], 10, 10, 0),
    ],
)
def test_when_it_opens_and_closes(texts, hour, opens, closes):
    windows = [parse_window(text) for text in texts]
    assert seconds_until_open(windows, hour * HOUR) == opens * HOUR
    assert seconds_until_closed(windows, hour * HOUR) == (None if closes is None else closes * HOUR)
    assert is_open(windows, hour * HOUR) == (opens == 0)


minutes = st.integers(0, 24 * 60 - 1)
windows_of = st.lists(
    st.tuples(minutes, minutes)
    .filter(lambda pair: pair[0] != pair[1])
    .map(lambda pair: RunWindow(pair[0] * 60, pair[1] * 60)),
    min_size=1,
    max_size=4,
)


def _plainly_open(window, moment):
    if window.opens < window.closes:
        return window.opens <= moment < window.closes
    return moment >= window.opens or moment < window.closes


@given(windows_of, minutes)
def test_what_is_promised_is_so_minute_by_minute(windows, minute):
    moment = minute * 60
    states = [
        any(_plainly_open(window, (moment + 60 * later) % DAY) for window in windows)
        for later in range(24 * 60)
    ]
    assert is_open(windows, moment) == states[0]
    assert seconds_until_open(windows, moment) == 60 * states.index(True)
    closes = 60 * states.index(False) if False in states else None
    assert seconds_until_closed(windows, moment) == closes
