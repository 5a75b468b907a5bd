"""The time limit of an attempt grows with its pages, within bounds."""

import pytest

from quire.model.work import StepCall

DAY = 86_400.0


def limit(pages, **parts):
    return StepCall(
        step="s", version=1, **({"timeout_seconds": 60.0, "page_seconds": 10.0} | parts)
    ).limit_seconds(pages)


@pytest.mark.parametrize(("pages", "seconds"), [(0, 60), (1, 60), (2, 70), (2000, 20_050), (10**9, DAY)])
def test_each_page_after_the_first_adds_to_it_up_to_a_day(pages, seconds):
    assert limit(pages) == seconds


def test_a_limit_that_was_set_longer_than_a_day_stays_as_it_is():
    assert limit(10**9, timeout_seconds=2 * DAY) == 2 * DAY


def test_without_a_time_for_pages_they_add_nothing():
    assert limit(2000, page_seconds=0.0) == 60


def test_where_pages_are_not_told_it_is_that_of_as_many_as_the_file_has_room_for():
    call = StepCall(step="s", version=1, timeout_seconds=60.0, page_seconds=10.0)
    assert call.longest_seconds(1) == 60
    assert call.longest_seconds(370_000) >= call.limit_seconds(1000)
    assert call.longest_seconds(1 << 40) == DAY
