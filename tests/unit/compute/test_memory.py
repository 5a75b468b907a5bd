"""What an order needs of its worker's memory, and when it is refused."""

import pytest

from quire.compute.pool import memory
from quire.model.errors import Reject
from quire.model.step import NO_OUTPUT, MemoryEstimate, Step, StepInput
from quire.model.work import StepCall
from quire.testing.factories import file

MB = 1 << 20
CALL = StepCall(step="it", version=1, memory_mb=400)


def needed(tmp_path, weight):
    step = Step(name="it", version=1, run=lambda _: NO_OUTPUT, estimate_memory=weight and (lambda _: weight))
    return memory.estimate_mb(step, StepInput(file=file(), source=tmp_path, folder=tmp_path), CALL)


@pytest.mark.parametrize(
    ("weight", "megabytes"),
    [
        (None, 0),
        (MemoryEstimate(), memory.IDLE_MB),
        (MemoryEstimate(100 * MB), memory.IDLE_MB + 100),
        (MemoryEstimate(100 * MB + 1), memory.IDLE_MB + 101),
        (MemoryEstimate(5000 * MB), 400),  # may be less than feared: it is tried, with all it can have
        (MemoryEstimate(0, 336 * MB), 400),
    ],
)
def test_what_it_will_likely_take_within_its_limit(tmp_path, weight, megabytes):
    assert needed(tmp_path, weight) == megabytes


def test_what_cannot_do_with_its_limit_is_refused_and_told_what_to_set(tmp_path):
    with pytest.raises(
        Reject, match=r"about 401 MB.* 400 MB.*preprocess\.memory_mb.*local\.memory_mb"
    ) as refused:
        needed(tmp_path, MemoryEstimate(0, 336 * MB + 1))
    assert refused.value.code == "too_much_memory"
