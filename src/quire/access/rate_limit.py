"""A rate limit: one token bucket for each name, in memory.

Promises: a burst is at most a minute's worth of requests, tokens come back evenly, and memory stays bounded
whatever names come. Each process counts for itself. Must not know: keys and requests.
"""

from collections import OrderedDict

from quire.model.clock import Clock

MAX_NAMES = 10_000
MINUTE_SECONDS = 60.0


class RateLimiter:
    def __init__(self, clock: Clock, *, max_names: int = MAX_NAMES) -> None:
        self._clock = clock
        self._max_names = max_names
        # The tokens that were left for each name, and when; the most recent name is at the end.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, per_minute: int) -> float:
        """0: allowed, and counted. Otherwise the seconds to wait. 0 a minute is no limit."""
        if per_minute <= 0:
            return 0.0
        left, wait, now = self._look(name, per_minute)
        self._left[name] = (left if wait else left - 1, now)
        self._left.move_to_end(name)
        if len(self._left) > self._max_names:
            self._left.popitem(last=False)  # idle for the longest time: most likely its bucket is full again
        return wait

    def wait_seconds(self, name: str, per_minute: int) -> float:
        """What `take` would answer; nothing is counted."""
        return self._look(name, per_minute)[1] if name in self._left else 0.0

    def _look(self, name: str, per_minute: int) -> tuple[float, float, float]:
        """Tokens that are left, seconds to wait for one, and the present moment."""
        now, each_seconds = self._clock.monotonic(), MINUTE_SECONDS / per_minute
        left, at = self._left.get(name, (float(per_minute), now))
        left = min(float(per_minute), left + (now - at) / each_seconds)
        # A caller that waits as long as it was told is allowed, whatever is lost in rounding.
        return left, 0.0 if left > 1 - 1e-6 else (1 - left) * each_seconds, now
