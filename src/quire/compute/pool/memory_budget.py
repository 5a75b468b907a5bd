"""Which orders may begin when memory is short: rules over their estimated needs.

Every worker has a share of the pool's memory, and an order within the share begins at once. An order that
needs more asks after its file was looked at, and begins while all that such orders hold above their shares
fits the budget. Promises: shares and holdings together never exceed the budget; every order that fits at all
begins at some time, first come, first served. Pure: knows megabytes, no workers.
"""

from msgspec import Struct

SHARE_MB = 256
LEAST_SHARE_MB = 160  # enough for an ordinary picture, which must not wait behind large ones
UNLIMITED_MB = 1 << 30
# Large orders that wait do not keep small ones from being claimed, up to this number.
LARGE_WAITING = 64


class MemoryBudget(Struct, frozen=True):
    """`budget_mb` is for all workers together; 0 is no limit."""

    budget_mb: int = 0
    workers: int = 1

    @property
    def share_mb(self) -> int:
        if not self.budget_mb:
            return UNLIMITED_MB
        return max(LEAST_SHARE_MB, min(SHARE_MB, self.budget_mb // (2 * max(1, self.workers))))

    @property
    def largest_mb(self) -> int:
        """The most that one order can have: every other worker keeps its share."""
        if not self.budget_mb:
            return UNLIMITED_MB
        return max(self.share_mb, self.budget_mb - (self.workers - 1) * self.share_mb)

    def above(self, need_mb: int) -> int:
        """What an order holds beyond the share of its worker."""
        return max(0, need_mb - self.share_mb)

    def fits(self, need_mb: int, held_mb: int) -> bool:
        """Does the order fit beside others that hold this much above their shares? Up to `largest_mb` it fits
        alone.
        """
        return held_mb == 0 or held_mb + self.above(need_mb) <= self.above(self.largest_mb)


def limit_workers(workers: int, budget_mb: int) -> int:
    """As many of the wanted workers as the budget has memory for, and at least one."""
    return workers if not budget_mb else max(1, min(workers, budget_mb // LEAST_SHARE_MB))
