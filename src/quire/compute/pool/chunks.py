"""How many orders are sent together: rules over the measured durations of each step.

Promises: a chunk is about `CHUNK_SECONDS` of work and never more than a worker's part of what is left; longer
orders are sent one by one; a step that turns out slower than estimated changes the estimate at once. Pure:
knows numbers, no workers and no clock.
"""

from collections.abc import Sequence

CHUNK_SECONDS = 0.05
LARGEST_CHUNK = 512
# With tasks slower than this a second chunk in a worker's pipe only waits behind the first.
SLOW_TASK_SECONDS = 0.5
# A worker whose current order has run for so long will not start the next one soon.
HELD_UP_SECONDS = 4 * CHUNK_SECONDS
# So many computed orders of a worker may be stored at the same time before the next one has to wait.
STORING_AT_ONCE = 4
_NEWEST_WEIGHT = 0.3
_SHOCK = 4.0  # times slower: no coincidence, and the average would follow too slowly

StepVersion = tuple[str, int]  # name and version


class StepDurations:
    """The duration of each step: an average in which older measurements count less and less."""

    def __init__(self, unknown_seconds: float | None = None) -> None:
        """`unknown_seconds` is assumed for steps that were never measured; None: they go one by one."""
        self._known: dict[StepVersion, float] = {}
        self._unknown = unknown_seconds
        self._latest: StepVersion = ("", 0)

    def of(self, step: StepVersion) -> float | None:
        return self._known.get(step, self._unknown)

    @property
    def latest(self) -> float | None:
        """The duration of the step that was measured last, which is most likely the next one."""
        return self.of(self._latest)

    def note(self, step: StepVersion, seconds: Sequence[float]) -> None:
        """Add the durations of orders of the step that ended together."""
        if seconds:
            self._known[step] = update_average(self._known.get(step), sum(seconds) / len(seconds))
            self._latest = step


def update_average(known: float | None, measured: float) -> float:
    if known is None or measured > _SHOCK * known:
        return measured
    return known + _NEWEST_WEIGHT * (measured - known)


def full_chunk_size(task_seconds: float | None) -> int:
    """Orders in a chunk while there are many."""
    if not task_seconds:
        return 1 if task_seconds is None else LARGEST_CHUNK
    return max(1, int(min(LARGEST_CHUNK, CHUNK_SECONDS / task_seconds)))


def next_chunk_size(task_seconds: float | None, remaining: int, workers: int) -> int:
    """Orders in the next chunk: at the end of a phase every worker gets a part of the rest."""
    return max(1, min(full_chunk_size(task_seconds), -(-remaining // max(1, workers))))


def chunks_ahead(task_seconds: float | None) -> int:
    """How many chunks a worker may have that it has not finished starting."""
    if (task_seconds or 0.0) > SLOW_TASK_SECONDS:
        return 0
    return 1 if full_chunk_size(task_seconds) == 1 else 2


def free_capacity(task_seconds: float | None, workers: int, out: int) -> int:
    """How many more orders a pool takes that has `out` of them."""
    wanted = workers * (3 if chunks_ahead(task_seconds) else 2) * full_chunk_size(task_seconds)
    # Small top-ups would cost a transaction each: wait until a good part can be filled.
    free = wanted - out
    return free if free * 3 >= wanted else 0
