"""Retry arithmetic, as tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.engine.retry import (
    PhasePolicy,
    RetryPolicy,
    TaskDecision,
    decide_task,
    phase_delay_seconds,
    retry_delay_seconds,
)
from quire.engine.states import TASKS
from quire.model.batch import TaskState
from quire.model.work import Outcome

POLICY = RetryPolicy(max_failures=3, max_interruptions=5, first_delay_seconds=2.0, longest_delay_seconds=30.0)
OWN_FAULT = [Outcome.ERRED, Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY]


@pytest.mark.parametrize(
    ("outcome", "failures", "interruptions", "expected"),
    [
        (Outcome.DONE, 0, 0, TaskDecision(TaskState.DONE)),
        (Outcome.DONE, 2, 4, TaskDecision(TaskState.DONE)),
        (Outcome.REJECTED, 0, 0, TaskDecision(TaskState.FAILED, blame=True)),
        (Outcome.INTERRUPTED, 0, 0, TaskDecision(TaskState.WAITING, due_at=0.0)),
        (Outcome.INTERRUPTED, 2, 3, TaskDecision(TaskState.WAITING, due_at=0.0)),
        (Outcome.INTERRUPTED, 0, 4, TaskDecision(TaskState.WAITING, due_at=0.0)),
        (Outcome.INTERRUPTED, 0, 5, TaskDecision(TaskState.FAILED)),
        *[
            (outcome, 0, 9, TaskDecision(TaskState.WAITING, due_at=102.0, blame=True))
            for outcome in OWN_FAULT
        ],
        *[
            (outcome, 1, 0, TaskDecision(TaskState.WAITING, due_at=104.0, blame=True))
            for outcome in OWN_FAULT
        ],
        *[(outcome, 2, 0, TaskDecision(TaskState.FAILED, blame=True)) for outcome in OWN_FAULT],
    ],
)
def test_what_becomes_of_a_task(outcome, failures, interruptions, expected):
    assert decide_task(outcome, failures, interruptions, POLICY, now=100.0, fraction=1.0) == expected


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_leads_where_the_table_of_states_allows(outcome):
    for failures in range(4):
        ruling = decide_task(outcome, failures, failures, POLICY, now=0.0, fraction=0.0)
        assert ruling.state in TASKS[TaskState.RUNNING]


@pytest.mark.parametrize(("asked", "due"), [(0.5, 102.0), (60.0, 160.0)])
def test_who_asks_for_a_longer_wait_gets_it(asked, due):
    ruling = decide_task(Outcome.ERRED, 0, 0, POLICY, now=100.0, fraction=1.0, delay_seconds=asked)
    assert ruling.due_at == due
    waiting = decide_task(Outcome.INTERRUPTED, 0, 0, POLICY, now=100.0, fraction=1.0, delay_seconds=asked)
    assert waiting.due_at == 100.0 + asked


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 2), (2, 4), (3, 8), (4, 16), (5, 30), (6, 30), (99, 30)]
)
def test_the_delay_doubles_up_to_the_longest(failures, seconds):
    assert retry_delay_seconds(failures, POLICY, 1.0) == seconds
    assert retry_delay_seconds(failures, POLICY, 0.0) == seconds / 2


@given(failures=st.integers(1, 10**6), fraction=st.floats(0, 1, exclude_max=True))
def test_the_delay_is_always_bounded(failures, fraction):
    assert 0 < retry_delay_seconds(failures, POLICY, fraction) <= POLICY.longest_delay_seconds


@given(outcomes=st.lists(st.sampled_from(list(Outcome)), min_size=200, max_size=200))
def test_no_task_is_tried_more_often_than_the_limits_allow(outcomes):
    failures = interruptions = attempts = 0
    for outcome in outcomes:
        attempts += 1
        ruling = decide_task(outcome, failures, interruptions, POLICY, now=0.0, fraction=0.5)
        if ruling.state is not TaskState.WAITING:
            break
        failures += ruling.blame
        interruptions += not ruling.blame
    assert attempts <= POLICY.max_failures + POLICY.max_interruptions


def test_a_phase_is_retried_after_2_4_8_16_30_seconds_and_then_given_up():
    assert [phase_delay_seconds(retries, PhasePolicy()) for retries in range(6)] == [
        2.0,
        4.0,
        8.0,
        16.0,
        30.0,
        None,
    ]
    assert phase_delay_seconds(0, PhasePolicy(max_retries=0)) is None
    assert phase_delay_seconds(10_000, PhasePolicy(max_retries=10_001)) == 30.0
