"""Divides the time of a process among the orders that run in it at the same time.

Promise: the shares of all orders together are the time in which at least one of them ran, however they
overlap. Pure: moments are handed in.
"""


class BusyTime:
    def __init__(self) -> None:
        self._running = 0
        self._share = 0.0  # of an order that has run from the beginning
        self._counted_at = 0.0

    def start(self, now: float) -> float:
        """An order starts; what `end` needs to know."""
        self._count(now)
        self._running += 1
        return self._share

    def end(self, began: float, now: float) -> float:
        """An order ends; its share in seconds."""
        self._count(now)
        self._running -= 1
        return self._share - began

    def _count(self, now: float) -> None:
        if self._running:
            self._share += max(0.0, now - self._counted_at) / self._running
        self._counted_at = now
