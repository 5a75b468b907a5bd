"""Workers, janitors and operators of a bucket library on a store where everything goes wrong, decided by a
seed.

The real protocol runs on `StormyObjects` through `perform`, one request at a time, in one thread; the next
actor is drawn. Actors crash at any request, sleep until they count as stale and continue, judge by wrong
clocks, begin on old listings. Every write is checked when it takes effect (`witness`); at the end the
faults stop, and each job must end as a result alone or as a dead job.

    run(123)                                     raises BrokenError, with the seed and the last steps
    python -m tests.simulation.library.simulation --seeds 100000
"""

import argparse
import sys
import time
from collections import deque
from collections.abc import Collection, Coroutine, Generator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct

from quire.library.protocol import janitor, layout, lifecycle, operator
from quire.library.protocol.lifecycle import HeldJob, JobActor, JobCandidate
from quire.library.protocol.requests import Operation, StoreAccess, perform
from quire.model.errors import Retry
from quire.model.tiers import TIERS
from tests.simulation.library.stormy_objects import StormyObjects, StormyStore, Weather
from tests.simulation.library.witness import BrokenError, Witness

EPOCH = 1_700_000_000.0
STALE_SECONDS = 100.0
_TRACE_LINES = 60
_MOST_STEPS = 60_000
TELL_EVERY = 1000


class RunCounts(Struct, frozen=True, kw_only=True):
    """The counts of a run."""

    seed: int
    steps: int
    done: int
    dead: int
    attempts: int
    crashes: int


class _Pass:
    """Awaiting it hands control to the scheduler, for some seconds at least."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds

    def __await__(self) -> Generator[float, None, None]:
        yield self._seconds


async def _turn() -> None:
    await _Pass()


class _Actor(Struct):
    name: str
    life: Coroutine[Any, Any, None]
    wake_at: float = 0.0


class Simulation:
    def __init__(self, seed: int, *, drop: Collection[str] = ()) -> None:
        self.chance = Random(f"{seed}/bucket")
        chance = self.chance
        self.now = EPOCH
        self.limit = chance.choice((2, 3, 4))
        self.jobs = [f"{number:064x}" for number in range(1, 1 + chance.choice((1, 1, 2, 4)))]
        self.store = StormyStore(lambda: self.now, drop=drop)
        self.witness = Witness(self.limit, STALE_SECONDS, lambda: self.now)
        self.trace: deque[str] = deque(maxlen=_TRACE_LINES)
        self.steps = self.crashes = 0
        self.crash_rate = chance.choice((0.0, 0.001, 0.005, 0.02))
        self._weather = Weather.draw(chance)
        self._numbers = count()
        for job in self.jobs:
            self.store.write("ingest", layout.raw(job), b"pdf")
            self.store.write("ingest", layout.todo(chance.choice(TIERS), job), b"")
        self.store.observers += [self._trace_write, self.witness.check_write]
        self._actors = [
            *(self._start(f"w{no}", self._work(f"w{no}")) for no in range(chance.choice((1, 2, 3, 4)))),
            *(self._start(f"j{no}", self._sweep(f"j{no}")) for no in range(chance.choice((0, 1, 2)))),
            *(self._start(f"p{no}", self._operate(f"p{no}")) for no in range(chance.choice((0, 0, 1, 2)))),
        ]

    def run(self) -> None:
        """Run until every actor has ended or crashed; then late requests arrive, and a calm end follows."""
        try:
            while self._actors and self.steps < _MOST_STEPS:
                self._step()
        finally:
            for actor in self._actors:
                actor.life.close()
        self.store.catch_up()
        self._check_rest()

    def _start(self, name: str, life: Coroutine[Any, Any, None]) -> _Actor:
        """Run an actor to its first wait: a coroutine that has not started cannot be closed."""
        return _Actor(name, life, self.now + life.send(None) + self.chance.random() * 50)

    def _step(self) -> None:
        chance = self.chance
        self.steps += 1
        self.now += chance.choice((0.0, 0.01, 0.1, 1.0, 5.0))
        if self.store.late and chance.random() < 0.05:
            self.store.late.pop(chance.randrange(len(self.store.late)))()
        ready = [actor for actor in self._actors if actor.wake_at <= self.now]
        if not ready:
            self.now = min(actor.wake_at for actor in self._actors)
            return
        actor = chance.choice(ready)
        if chance.random() < self.crash_rate:
            self.crashes += 1
            self.trace.append(f"{actor.name} crashes")
            actor.life.close()
            self._actors.remove(actor)
            if actor.name[0] == "w" and chance.random() < 0.7:  # it is restarted
                self._actors.append(self._start(actor.name, self._work(actor.name)))
            return
        try:
            actor.wake_at = self.now + actor.life.send(None)
        except StopIteration:
            self._actors.remove(actor)

    def _actor(self, name: str) -> JobActor:
        skew = Random(name).choice((-5000.0, -3.0, 0.0, 700.0))
        return JobActor(
            worker=name,
            limit=self.limit,
            nonce=lambda: f"{name}.{next(self._numbers)}",
            now=lambda: self.now + skew,
        )

    def _access(self, name: str, weather: Weather | None = None) -> StoreAccess:
        objects = StormyObjects(self.store, name, self.chance, weather or self._weather, _turn)
        return StoreAccess(
            objects=objects, stale_seconds=STALE_SECONDS, result=Path(f"of-{name}-{next(self._numbers)}")
        )

    def _trace_write(self, who: str, key: str, _: object, body: bytes | None) -> None:
        word = "deletes" if body is None else "writes"
        self.trace.append(f"{self.now - EPOCH:9.2f} {who} {word} {key} {(body or b'')[:120].decode()}")

    async def _work(self, name: str) -> None:
        chance, actor, access = self.chance, self._actor(name), self._access(name)
        for _ in range(chance.choice((3, 8, 20))):
            await _Pass(chance.choice((0.0, 1.0, 20.0)))
            try:
                candidate = await self._candidate(access)
                if candidate is None:
                    continue
                held = await self._perform(lifecycle.claim(candidate, actor), access)
                if held is not None:
                    self.trace.append(f"{name} has attempt {held.job.attempt} of {held.id[-2:]}")
                    self.witness.start_attempt(held.id, held.job.attempt)
                    await self._attempt(held, actor, access)
            except Retry:
                continue  # the job, if there is one, counts as lost

    async def _candidate(self, access: StoreAccess) -> JobCandidate | None:
        found = [
            JobCandidate(id=job, tier=seen.key.split("/")[2], blank=seen.size == 0)
            async for page in access.objects.pages(layout.TODO)
            for seen in page
            if (job := layout.parse_job(seen.key)) is not None
        ]
        return self.chance.choice(found) if found else None

    async def _attempt(self, held: HeldJob, actor: JobActor, access: StoreAccess) -> None:
        chance = self.chance
        for _ in range(chance.choice((0, 0, 1, 3))):
            await _Pass(chance.choice((1.0, 30.0, 30.0, 3 * STALE_SECONDS)))
            beaten = await self._perform(lifecycle.beat(held, actor, {}), access)
            if beaten is None and chance.random() < 0.9:
                return  # the other workers are careless, and continue with a lost job
            held = beaten or held
        await _Pass(chance.choice((0.0, 1.0, 10.0, 2 * STALE_SECONDS)))  # a zombie in the end, perhaps
        ending = chance.choice(("finish", "finish", "fail", "fail", "release", "release", "vanish"))
        for _ in range(2):
            try:
                if ending == "finish":
                    if await self._perform(lifecycle.finish(held), access) is not None:
                        return
                elif ending == "fail":
                    await self._perform(lifecycle.fail(held, actor, "it broke"), access)
                    return
                elif ending == "release":
                    await self._perform(lifecycle.release(held, actor, "graceful_shutdown"), access)
                    return
            except Retry:
                continue

    async def _sweep(self, name: str) -> None:
        actor, access = self._actor(name), self._access(name)
        for _ in range(self.chance.choice((3, 10, 30))):
            await _Pass(self.chance.choice((1.0, 20.0, 60.0, 2 * STALE_SECONDS)))
            for job in self.chance.sample(self.jobs, len(self.jobs)):
                try:
                    await self._perform(janitor.settle(job, actor), access)
                except Retry:
                    continue

    async def _operate(self, name: str) -> None:
        chance, actor, access = self.chance, self._actor(name), self._access(name)
        for _ in range(chance.choice((1, 3))):
            await _Pass(chance.choice((10.0, 100.0, 500.0)))
            job, tier = chance.choice(self.jobs), chance.choice((None, *TIERS))
            acts = (
                operator.retry(job, actor, tier=tier, reset=chance.random() < 0.5),
                operator.cancel(job, actor, tier=tier),
                operator.reprioritize(job, actor, tier=tier or TIERS[0]),
            )
            try:
                await self._perform(chance.choice(acts), access)
            except Retry:
                continue

    @staticmethod
    async def _perform(operation: Operation[Any], access: StoreAccess) -> Any:
        return await perform(operation, access)

    def _check_rest(self) -> None:
        """No more faults: a janitor and a worker must end every job, and leave nothing behind."""
        calm = Weather()
        for turn in range(6 + 3 * self.limit):
            self.now += 2 * STALE_SECONDS
            for job in self.jobs:
                self._alone(janitor.settle(job, self._actor(f"j last {turn}")), self._access("j last", calm))
            self.now += 1.0
            for job in self.jobs:
                self._last_worker(job, f"w last {turn}", self._access(f"w last {turn}", calm))
        for job in self.jobs:
            self.witness.check_rest(job, [key for key in self.store.objects if layout.parse_job(key) == job])

    def _last_worker(self, job: str, name: str, access: StoreAccess) -> None:
        actor = self._actor(name)
        for tier in TIERS:
            marker = self.store.objects.get(layout.todo(tier, job))
            if marker is None:
                continue
            candidate = JobCandidate(id=job, tier=tier, blank=not marker.body)
            held = self._alone(lifecycle.claim(candidate, actor), access)
            if held is not None:
                self.witness.start_attempt(job, held.job.attempt)
                if self.chance.random() < 0.5:
                    self._alone(lifecycle.fail(held, actor, "it broke again"), access)
                else:
                    self._alone(lifecycle.finish(held), access)

    def _alone(self, operation: Operation[Any], access: StoreAccess) -> Any:
        life = perform(operation, access)
        while True:
            try:
                life.send(None)
            except StopIteration as done:
                return done.value


def run(seed: int, *, drop: Collection[str] = ()) -> RunCounts:
    """Raises BrokenError when a promise is broken."""
    simulation = Simulation(seed, drop=drop)
    try:
        simulation.run()
    except BrokenError as broken:
        lines = "\n".join(simulation.trace)
        raise BrokenError(f"seed {seed}: {broken}\nthe last steps:\n{lines}") from broken
    witness = simulation.witness
    return RunCounts(
        seed=seed,
        steps=simulation.steps,
        done=len(witness.results),
        dead=len(simulation.jobs) - len(witness.results),
        attempts=sum(len(one) for one in witness.attempts.values()),
        crashes=simulation.crashes,
    )


def main() -> int:
    """Run many seeds, until one breaks a promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.library.simulation")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    wanted = parser.parse_args()
    began = time.monotonic()
    for seed in range(wanted.first, wanted.first + wanted.seeds):
        try:
            run(seed)
        except BrokenError as broken:
            again = f"QUIRE_SIM_SEED={seed} pytest tests/simulation/test_bucket_seeds.py"
            print(f"{broken}\nagain: {again}", flush=True)  # noqa: T201
            return 1
        done = seed + 1 - wanted.first
        if done % TELL_EVERY == 0 or done == wanted.seeds:
            print(f"{done} seeds, {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
