"""Claims that compute works on. Equal work never runs twice: equal files wait for the first of them.

Work is equal when its cache key is: step, version, options and bytes. Bookkeeping in memory only; after a
crash the ledger's running attempts show what was running.
"""

from collections.abc import Collection

from msgspec import Struct

from quire.engine.retry import RetryPolicy
from quire.ledger.port import Claim
from quire.model.work import Order, Outcome, Report, StepCall


class Work(Struct, frozen=True):
    """What is done with a claim, and which retry rules apply to it: the same for all claims of one step."""

    call: StepCall
    policy: RetryPolicy


class RunningClaim(Struct, frozen=True, gc=False):
    """One claim with the work that is done on it and its key in the step cache."""

    claim: Claim
    work: Work
    key: str | None


class RunningClaims:
    def __init__(self) -> None:
        self._out: dict[tuple[int, int], RunningClaim] = {}
        # Cache key of what runs → claims that wait for it: mostly none, for which no list is made.
        self._waiting: dict[str, list[RunningClaim] | None] = {}
        self._waiting_count = 0

    def __bool__(self) -> bool:
        return bool(self._out)

    @property
    def waiting_count(self) -> int:
        """How many claims wait for equal work."""
        return self._waiting_count

    def batches(self) -> set[int]:
        return {batch_no for batch_no, _ in self._out}

    def orders(self) -> set[tuple[int, int, int]]:
        """(batch, task, attempt) of every claim that was not reported yet."""
        queued = (out for waiting in self._waiting.values() for out in waiting or ())
        return {_attempt(out.claim.order) for out in (*self._out.values(), *queued)}

    def add(self, claim: Claim, work: Work, key: str | None) -> bool:
        """True: run it. False: equal work is running already, and this claim waits for its result."""
        out = RunningClaim(claim, work, key)
        if key is not None:
            if key in self._waiting:
                waiting = self._waiting[key] or []
                waiting.append(out)
                self._waiting[key] = waiting
                self._waiting_count += 1
                return False
            self._waiting[key] = None
        self._out[claim.order.batch_no, claim.order.task_no] = out
        return True

    def remove(self, report: Report) -> tuple[RunningClaim | None, list[RunningClaim]]:
        """Remove the claim that a report belongs to; it, and the claims that waited for its result. None: the
        report belongs to another process, or to an attempt that is over.
        """
        place = (report.batch_no, report.task_no)
        out = self._out.get(place)
        if out is None or out.claim.order.attempt != report.attempt:
            return None, []
        del self._out[place]
        return out, self._release(out.key)

    def drop(self, batch_nos: Collection[int]) -> list[RunningClaim]:
        """Remove all claims of these batches; claims of other batches that waited for them are given back."""
        freed: list[RunningClaim] = []
        for place in [place for place in self._out if place[0] in batch_nos]:
            freed += self._release(self._out.pop(place).key)
        for key, waiting in self._waiting.items():
            kept = [out for out in waiting or () if out.claim.order.batch_no not in batch_nos]
            self._waiting_count -= len(waiting or ()) - len(kept)
            self._waiting[key] = kept
        return [out for out in freed if out.claim.order.batch_no not in batch_nos]

    def withdraw_waiting(self) -> list[Order]:
        """Remove the claims that never ran."""
        withdrawn = [out.claim.order for waiting in self._waiting.values() for out in waiting or ()]
        self._waiting = dict.fromkeys(self._waiting)
        self._waiting_count = 0
        return withdrawn

    def clear(self) -> None:
        self._out.clear()
        self._waiting.clear()
        self._waiting_count = 0

    def _release(self, key: str | None) -> list[RunningClaim]:
        waiting = (self._waiting.pop(key, None) if key is not None else None) or []
        self._waiting_count -= len(waiting)
        return waiting


def cache_key(out: RunningClaim | None, report: Report) -> str | None:
    """The key under which the result is cached: None unless the attempt succeeded."""
    return out.key if out is not None and report.outcome is Outcome.DONE else None


def _attempt(order: Order) -> tuple[int, int, int]:
    return order.batch_no, order.task_no, order.attempt
