"""Claims that are out. The same work is never out twice: equal files wait for the first of them.

Work is the same when its cache key is: step, version, options and bytes. Pure bookkeeping in memory; after a
crash the ledger's running attempts say what was out.
"""

from quire.ledger.port import Claim
from quire.model.work import Outcome, Report


class Outstanding:
    def __init__(self) -> None:
        self._claims: dict[tuple[int, int], tuple[Claim, str | None]] = {}
        self._behind: dict[str, list[Claim]] = {}  # cache key → claims that wait for the one that is out

    def __bool__(self) -> bool:
        return bool(self._claims)

    @property
    def parked(self) -> int:
        """How many claims wait for equal work."""
        return sum(len(behind) for behind in self._behind.values())

    def add(self, claim: Claim, key: str | None) -> bool:
        """True: hand it over. False: the same work is out already, and this claim waits for it."""
        order = claim.order
        if key is not None:
            if key in self._behind:
                self._behind[key].append(claim)
                return False
            self._behind[key] = []
        self._claims[order.batch_no, order.task_no] = (claim, key)
        return True

    def back(self, report: Report) -> tuple[Claim | None, str | None, list[Claim]]:
        """The claim a report belongs to, its cache key, and the claims that waited behind it. None: it is not
        ours, or an attempt that is over.
        """
        place = (report.batch_no, report.task_no)
        claim, key = self._claims.get(place, (None, None))
        if claim is None or claim.order.attempt != report.attempt:
            return None, None, []
        del self._claims[place]
        behind = self._behind.pop(key, []) if key is not None else []
        return claim, key if report.outcome is Outcome.DONE else None, behind

    def withdraw(self) -> list[Claim]:
        """Take out the claims that were never handed over."""
        withdrawn = [claim for behind in self._behind.values() for claim in behind]
        for behind in self._behind.values():
            behind.clear()
        return withdrawn

    def clear(self) -> None:
        self._claims.clear()
        self._behind.clear()
