"""What a step or a store raised, as it stands in the report."""

import pytest

from quire.compute import failures
from quire.model.errors import Bug, Misconfigured, Missing, Reject, Retry
from quire.model.files import folder_of
from quire.model.work import Outcome, StepCall

CALL = StepCall(step="s", version=1, memory_mb=100)


@pytest.mark.parametrize(
    ("error", "outcome", "error_class", "delay"),
    [
        (Reject("no", code="corrupt"), Outcome.REJECTED, "corrupt", 0.0),
        (Missing("gone"), Outcome.REJECTED, "missing", 0.0),
        (Retry("busy", delay_seconds=7), Outcome.ERRED, "transient", 7.0),
        (Misconfigured("no tool"), Outcome.ERRED, "misconfigured", 0.0),
        (Bug("oh"), Outcome.ERRED, "bug", 0.0),
        (MemoryError(), Outcome.OUT_OF_MEMORY, "out_of_memory", 0.0),
        (ValueError("odd"), Outcome.ERRED, "step_error", 0.0),
        (SystemExit(1), Outcome.ERRED, "step_error", 0.0),
    ],
)
def test_what_a_step_raises(error, outcome, error_class, delay):
    failure = failures.of_error(error, CALL)
    assert (failure.outcome, failure.error_class, failure.delay_seconds) == (outcome, error_class, delay)
    assert failure.error


def test_a_full_store_is_not_the_files_fault():
    full = failures.of_store(Retry("no space left", code="storage_full", delay_seconds=30), CALL)
    assert (full.outcome, full.error_class, full.delay_seconds) == (Outcome.INTERRUPTED, "storage_full", 30)


def test_a_blob_that_is_gone_is():
    assert failures.of_store(Missing("gone"), CALL).outcome is Outcome.REJECTED


def test_a_long_message_is_cut():
    assert len(failures.of_error(Reject("x" * 10**6), CALL).error) <= failures.MAX_ERROR_LENGTH


def test_the_line_is_that_of_the_step_where_a_call_of_quires_has_failed():
    with pytest.raises(AttributeError) as raised:
        folder_of(None)
    assert "(test_failures.py:" in failures.of_error(raised.value, CALL).error
