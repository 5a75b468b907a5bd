"""The state of a batch in one line."""

import pytest

from quire.batches.lines import describe_state
from quire.model.batch import PhaseCounts, Stage
from quire.testing.factories import batch


def counts(failed):
    return [PhaseCounts(phase=1, name="ONE", total=5, done=5 - failed, failed=failed, cached=0)]


@pytest.mark.parametrize(
    ("failed", "refused", "words"),
    [
        (0, 0, "done"),
        (2, 0, "done, 2 failed"),
        (0, 1, "done, 1 refused"),
        (2, 1, "done, 2 failed, 1 refused"),
    ],
)
def test_a_batch_never_says_done_over_files_that_are_not(failed, refused, words):
    assert describe_state(batch(Stage.DONE, refused=refused), counts(failed), 0.0) == words
