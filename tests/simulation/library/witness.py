"""Checks every write to a bucket library at the moment it takes effect.

Must not know how the protocol works; only what must never be seen from outside.
"""

from collections import defaultdict
from collections.abc import Callable, Collection

from quire.library.protocol import layout
from quire.library.protocol.bodies import JobRecord, decode
from tests.simulation.library.situations import BrokenError
from tests.simulation.library.stormy_objects import Kept

__all__ = ["BrokenError", "Witness"]


class Witness:
    def __init__(self, limit: int, stale_seconds: float, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._stale_seconds = stale_seconds
        self._clock = clock
        self._moment = 0
        self.results: dict[str, int] = {}  # when, by job
        self.attempts: defaultdict[str, list[int]] = defaultdict(list)
        self._started: dict[tuple[str, int], int] = {}
        self._given_back: defaultdict[str, int] = defaultdict(int)
        self._last: dict[str, JobRecord] = {}

    def check_write(self, who: str, key: str, there: Kept | None, body: bytes | None) -> None:
        """Before it takes effect. `body` None is a deletion."""
        self._moment += 1
        job = layout.parse_job(key)
        if job is None:
            return
        if key == layout.out(job):
            _demand(body is not None, "a result was deleted")
            _demand(job not in self.results, "two results were committed")
            self.results[job] = self._moment
        elif key == layout.state(job):
            self._check_state(who, job, there, body)
        elif key == layout.raw(job):
            _demand(body is not None, "a source was deleted")

    def _check_state(self, who: str, job: str, there: Kept | None, body: bytes | None) -> None:
        before = None if there is None else decode(there.body, JobRecord)
        if body is None:
            _demand(job in self.results, "the state of a job without a result was deleted")
            return
        after = decode(body, JobRecord)
        if after is None:
            raise BrokenError("an unreadable state was written")
        if before is not None and there is not None:
            _demand(after.attempt >= before.attempt, "an attempt number was taken back")
            self._given_back[job] += max(0, before.charged - after.charged)
            if who[0] != "p":
                self._check_alone(who, before, after, there)
        if after.state == "running" and (before is None or before.attempt < after.attempt):
            _demand(
                (job, after.attempt) not in self._started or job in self.results, "an attempt began twice"
            )
            self._started[job, after.attempt] = self._moment

    def _check_alone(self, who: str, before: JobRecord, after: JobRecord, there: Kept) -> None:
        """Check what only an operator may do."""
        _demand(before.state != "dead", "a job that was given up came back by itself")
        if before.state != "running":
            return
        if after.worker == before.worker and after.attempt == before.attempt and who[0] == "w":
            _demand(before.worker == who, "a worker wrote the state of a job that is not its own")
            return
        silent = self._clock() - there.modified_at
        _demand(silent > self._stale_seconds, "a live worker was robbed that was not stale")

    def start_attempt(self, job: str, attempt: int) -> None:
        """A worker got the answer that the job is its own."""
        numbers = self.attempts[job]
        _demand(attempt not in numbers, "two attempts have one number")
        numbers.append(attempt)
        allowed = self._limit + self._given_back[job]
        _demand(len(numbers) <= allowed, f"{len(numbers)} attempts, {allowed} are allowed")
        done = self.results.get(job)
        started = self._started.get((job, attempt), 0)
        _demand(done is None or started < done, "a finished job was begun again")

    def check_rest(self, job: str, keys: Collection[str]) -> None:
        left = set(keys) - {layout.raw(job)}
        if job in self.results:
            _demand(left == {layout.out(job)}, f"left behind beside a result: {sorted(left)}")
        else:
            dead = {layout.state(job), layout.dead(job)}
            _demand(left == dead, f"a job was lost, or left something behind: {sorted(left)}")


def _demand(kept: object, what: str) -> None:
    if not kept:
        raise BrokenError(what)
