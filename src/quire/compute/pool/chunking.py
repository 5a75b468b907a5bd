"""How many orders travel together: rules over how long the orders of each step have been taking.

Promises: a chunk is about `CHUNK_SECONDS` of work and never more than a worker's part of what is left; what
takes longer travels alone; a step that turns out slower than thought is believed at once. Pure: knows
numbers, no workers and no clock.
"""

from collections.abc import Sequence

CHUNK_SECONDS = 0.05
LARGEST_CHUNK = 512
# With tasks slower than this a second chunk in a worker's pipe only waits behind the first.
SLOW_TASK_SECONDS = 0.5
# A worker that has been on one order for so long is not about to turn to the next.
HELD_UP_SECONDS = 4 * CHUNK_SECONDS
_WEIGHT_OF_NEWS = 0.3
_SHOCK = 4.0  # so many times slower is no chance: the average would take too many chunks to follow

StepName = tuple[str, int]  # name and version


class Paces:
    """The pace of each step, an average in which older durations count less and less."""

    def __init__(self, unknown_seconds: float | None = None) -> None:
        """`unknown_seconds` is taken for steps that were never measured; None: they travel one by one."""
        self._known: dict[StepName, float] = {}
        self._unknown = unknown_seconds
        self._latest: StepName = ("", 0)

    def of(self, step: StepName) -> float | None:
        return self._known.get(step, self._unknown)

    @property
    def latest(self) -> float | None:
        """Of the step that was measured last: what comes next is most likely of it."""
        return self.of(self._latest)

    def note(self, step: StepName, seconds: Sequence[float]) -> None:
        """What orders of the step took that ended together."""
        if seconds:
            self._known[step] = averaged(self._known.get(step), sum(seconds) / len(seconds))
            self._latest = step


def averaged(known: float | None, measured: float) -> float:
    if known is None or measured > _SHOCK * known:
        return measured
    return known + _WEIGHT_OF_NEWS * (measured - known)


def full_chunk(task_seconds: float | None) -> int:
    """Orders in a chunk while there is plenty."""
    if not task_seconds:
        return 1 if task_seconds is None else LARGEST_CHUNK
    return max(1, int(min(LARGEST_CHUNK, CHUNK_SECONDS / task_seconds)))


def next_chunk(task_seconds: float | None, remaining: int, workers: int) -> int:
    """Orders in the next chunk: at the end of a phase everybody gets a part of the rest."""
    return max(1, min(full_chunk(task_seconds), -(-remaining // max(1, workers))))


def depth(task_seconds: float | None) -> int:
    """How many chunks a worker may have that it has not started, or not started to the end."""
    if (task_seconds or 0.0) > SLOW_TASK_SECONDS:
        return 0
    return 1 if full_chunk(task_seconds) == 1 else 2


def room(task_seconds: float | None, workers: int, out: int) -> int:
    """How many more orders a pool wants that has `out` of them."""
    wanted = workers * (3 if depth(task_seconds) else 2) * full_chunk(task_seconds)
    # Small top-ups would cost a transaction each: wait until a good part can be filled.
    free = wanted - out
    return free if free * 3 >= wanted else 0
