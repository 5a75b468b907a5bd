"""How many orders may run at once, for how long a resource is paused, and who pays for a shared process."""

from quire.assembly.resource_limits import SharedLimits
from quire.compute.hosts.busy_time import BusyTime
from quire.compute.hosts.limits import (
    DEFAULT_AT_ONCE,
    LONGEST_PAUSE_SECONDS,
    UNLIMITED,
    CallCounts,
    RunLimits,
)
from quire.model.work import StepCall

COROUTINE = StepCall(step="think", version=1, asynchronous=True)
LIMITED = StepCall(step="think", version=1, asynchronous=True, at_once=3, resource="openai")
OTHER = StepCall(step="other", version=1, resource="openai")


def counted(*calls):
    counts = CallCounts()
    for call in calls:
        counts.add(call)
    return counts


def test_a_coroutine_without_a_limit_has_the_default_and_a_plain_function_none():
    limits = RunLimits({})
    assert limits.room(COROUTINE, counted(COROUTINE), 0.0) == DEFAULT_AT_ONCE - 1
    assert limits.room(OTHER, counted(OTHER), 0.0) >= UNLIMITED - 1


def test_versions_of_a_step_have_limits_of_their_own():
    newer = StepCall(step="think", version=2, asynchronous=True, at_once=3)
    assert RunLimits({}).room(newer, counted(LIMITED, LIMITED, LIMITED), 0.0) == 3


def test_the_smaller_of_both_limits_counts_and_is_never_negative():
    limits = RunLimits({"openai": 2})
    assert limits.room(LIMITED, CallCounts(), 0.0) == 2
    assert limits.room(LIMITED, counted(OTHER), 0.0) == 1
    assert limits.room(LIMITED, counted(OTHER, OTHER, OTHER), 0.0) == 0
    assert limits.room(COROUTINE, counted(OTHER, OTHER), 0.0) == DEFAULT_AT_ONCE


def test_orders_elsewhere_count_for_the_resource():
    limits = RunLimits({"openai": 2})
    assert limits.room(LIMITED, CallCounts(), 0.0, counted(OTHER)) == 1
    assert limits.room(LIMITED, counted(LIMITED), 0.0, counted(OTHER)) == 0


def test_the_longest_of_several_pauses_counts_and_none_is_endless():
    limits = RunLimits({})
    limits.pause("openai", 30.0, 100.0)
    limits.pause("openai", 5.0, 101.0)
    limits.pause("", 5.0, 101.0)
    assert limits.room(LIMITED, CallCounts(), 129.9) == 0
    assert limits.room(COROUTINE, CallCounts(), 129.9) > 0
    assert not limits.end_pauses(129.9)
    assert limits.room(LIMITED, CallCounts(), 130.0) == 3
    assert limits.end_pauses(130.0)
    limits.pause("openai", 1e9, 200.0)
    assert limits.room(LIMITED, CallCounts(), 200.0 + LONGEST_PAUSE_SECONDS) == 3


def test_each_member_has_its_share_of_a_resource_and_never_none():
    members = 1
    limits = SharedLimits({"openai": 10, "ocr": 2}, lambda: members)
    assert dict(limits) == {"openai": 10, "ocr": 2}
    members = 3
    assert dict(limits) == {"openai": 3, "ocr": 1}
    members = 100
    assert dict(limits) == {"openai": 1, "ocr": 1}
    assert limits.get("unknown") is None


def test_orders_that_overlap_share_the_time_in_which_they_do():
    busy = BusyTime()
    first = busy.start(10.0)
    second = busy.start(14.0)  # after 4 s alone
    assert busy.end(first, 20.0) == 4.0 + 3.0
    assert busy.end(second, 25.0) == 3.0 + 5.0
    third = busy.start(100.0)  # nobody pays for the time between
    assert busy.end(third, 101.0) == 1.0
