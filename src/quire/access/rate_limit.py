"""How often somebody may ask: one token bucket for each name, in memory.

Promises: nobody gets more than a minute's worth at once, and what is left comes back evenly; memory stays
bounded whatever names come. Each process counts for itself. Must not know: who is asking, and for what.
"""

from collections import OrderedDict

from quire.model.clock import Clock

MOST_NAMES = 10_000
MINUTE_SECONDS = 60.0


class Rates:
    def __init__(self, clock: Clock, *, most_names: int = MOST_NAMES) -> None:
        self._clock = clock
        self._most_names = most_names
        # What was left of each, and when that was; who asked last is at the end.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, per_minute: int) -> float:
        """0: go on, it is counted. Otherwise: not now, but after so many seconds. 0 a minute is no limit."""
        if per_minute <= 0:
            return 0.0
        now, each_seconds = self._clock.monotonic(), MINUTE_SECONDS / per_minute
        left, at = self._left.get(name, (float(per_minute), now))
        left = min(float(per_minute), left + (now - at) / each_seconds)
        # Who waits as long as told is let in, whatever is lost in rounding.
        wait = 0.0 if left > 1 - 1e-6 else (1 - left) * each_seconds
        self._left[name] = (left if wait else left - 1, now)
        self._left.move_to_end(name)
        if len(self._left) > self._most_names:
            self._left.popitem(last=False)  # silent for the longest time: most likely it has all back
        return wait
