"""The memory of a worker process: estimates, limits, and returning freed memory to the system.

Promise: an order that cannot run within its limit is refused before its step starts, and the error says what
to set. Must not know: other workers.
"""

import ctypes
import resource
from functools import cache
from typing import Any

from quire.model.errors import Reject
from quire.model.step import Step, StepInput
from quire.model.work import StepCall

# Of a worker that has loaded its libraries and is idle.
IDLE_MB = 64
# Mapped files of libraries, which a limit on data does not count.
LIBRARIES_MB = 32
# After an order of this size, trimming the allocator is worth its time.
LARGE_MB = 256
_MB = 1 << 20


def estimate_mb(step: Step, given: StepInput, call: StepCall) -> int:
    """Megabytes that the whole process will need, at most the limit; 0 when the step has no estimate.

    Raises Reject with code `too_much_memory`, or what the step raises.
    """
    if step.estimate_memory is None:
        return 0
    weight = step.estimate_memory(given)
    if (least := _whole_mb(weight.least)) > call.memory_mb:
        raise Reject(
            f"the step {call.step} needs about {least} MB for this file, and a worker may use "
            f"{call.memory_mb} MB. Raise preprocess.memory_mb, and local.memory_mb or the memory of the "
            "machine when that is too small for it; or send the picture neither progressive nor interlaced",
            code="too_much_memory",
        )
    return min(call.memory_mb, _whole_mb(max(weight.likely, weight.least)))


def limit(megabytes: int) -> None:
    """Limit the memory of this process from now on; only Linux enforces it."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, ((megabytes - LIBRARIES_MB) * _MB, hard))


def trim() -> None:
    """Return freed memory to the system now: the allocator would keep much of it for the next order."""
    if (trim := _trim()) is not None:
        trim(0)


@cache
def _trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)  # of the GNU library alone


def _whole_mb(size: int) -> int:
    return IDLE_MB + -(-size // _MB)
