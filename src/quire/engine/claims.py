"""Claims that are out. The same work is never out twice: equal files wait for the first of them.

Work is the same when its cache key is: step, version, options and bytes. Pure bookkeeping in memory; after a
crash the ledger's running attempts say what was out.
"""

from collections.abc import Collection

from msgspec import Struct

from quire.ledger.port import Claim
from quire.model.pipeline import Phase
from quire.model.work import Order, Outcome, Report


class Out(Struct, frozen=True):
    """One claim that is out, with the phase whose rules judge it and its key in the step cache."""

    claim: Claim
    phase: Phase
    key: str | None


class Outstanding:
    def __init__(self) -> None:
        self._out: dict[tuple[int, int], Out] = {}
        self._behind: dict[str, list[Out]] = {}  # cache key → claims that wait for the one that is out
        self._parked = 0

    def __bool__(self) -> bool:
        return bool(self._out)

    @property
    def parked(self) -> int:
        """How many claims wait for equal work."""
        return self._parked

    def batches(self) -> set[int]:
        return {batch_no for batch_no, _ in self._out}

    def orders(self) -> set[tuple[int, int, int]]:
        """(batch, task, attempt) of everything that was claimed and has not come back."""
        waiting = (out for behind in self._behind.values() for out in behind)
        return {_attempt(out.claim.order) for out in (*self._out.values(), *waiting)}

    def add(self, claim: Claim, phase: Phase, key: str | None) -> bool:
        """True: hand it over. False: the same work is out already, and this claim waits for it."""
        out = Out(claim, phase, key)
        if key is not None:
            if key in self._behind:
                self._behind[key].append(out)
                self._parked += 1
                return False
            self._behind[key] = []
        self._out[claim.order.batch_no, claim.order.task_no] = out
        return True

    def back(self, report: Report) -> tuple[Out | None, list[Out]]:
        """The claim a report belongs to, and those that waited behind it. None: it is not ours, or an attempt
        that is over.
        """
        place = (report.batch_no, report.task_no)
        out = self._out.get(place)
        if out is None or out.claim.order.attempt != report.attempt:
            return None, []
        del self._out[place]
        return out, self._release(out.key)

    def drop(self, batch_nos: Collection[int]) -> list[Out]:
        """Forget everything of these batches; others that waited behind their claims come back."""
        freed: list[Out] = []
        for place in [place for place in self._out if place[0] in batch_nos]:
            freed += self._release(self._out.pop(place).key)
        for key, behind in self._behind.items():
            kept = [out for out in behind if out.claim.order.batch_no not in batch_nos]
            self._parked -= len(behind) - len(kept)
            self._behind[key] = kept
        return [out for out in freed if out.claim.order.batch_no not in batch_nos]

    def withdraw(self) -> list[Order]:
        """Take out the claims that were never handed over."""
        withdrawn = [out.claim.order for behind in self._behind.values() for out in behind]
        for behind in self._behind.values():
            behind.clear()
        self._parked = 0
        return withdrawn

    def clear(self) -> None:
        self._out.clear()
        self._behind.clear()
        self._parked = 0

    def _release(self, key: str | None) -> list[Out]:
        behind = self._behind.pop(key, []) if key is not None else []
        self._parked -= len(behind)
        return behind


def cache_key(out: Out | None, report: Report) -> str | None:
    """Under which the result is remembered: only what succeeded is."""
    return out.key if out is not None and report.outcome is Outcome.DONE else None


def _attempt(order: Order) -> tuple[int, int, int]:
    return order.batch_no, order.task_no, order.attempt
