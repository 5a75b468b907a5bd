"""Workers, janitors and people of a bucket library on a store where everything goes wrong, decided by a seed.

The real protocol runs on `StormyObjects` through `perform`, one request at a time, in one thread; who goes on
next is drawn. Actors crash at any request, fall asleep beyond what counts as stale and go on, judge by wrong
clocks, begin on old listings. Every write is looked at when it takes effect (`bucket_witness`); at the end
everything calms down, and what is left must be a result alone, or a dead job, for each job.

    run(123)                                     raises Broken, which names the seed and shows the last steps
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

from quire.library.protocol import (
    janitor,
    layout,
    lifecycle,
    operator,
)
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


class Ran(Struct, frozen=True, kw_only=True):
    """What a run came to."""

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
        self._weather = Weather.drawn(chance)
        self._numbers = count()
        for job in self.jobs:
            self.store.write("ingest", layout.raw(job), b"pdf")
            self.store.write("ingest", layout.todo(chance.choice(TIERS), job), b"")
        self.store.observers += [self._told, self.witness.write]
        self._actors = [
            *(self._hired(f"w{no}", self._work(f"w{no}")) for no in range(chance.choice((1, 2, 3, 4)))),
            *(self._hired(f"j{no}", self._clean(f"j{no}")) for no in range(chance.choice((0, 1, 2)))),
            *(self._hired(f"p{no}", self._meddle(f"p{no}")) for no in range(chance.choice((0, 0, 1, 2)))),
        ]

    def run(self) -> None:
        """Until everybody has gone home or died; then what was under way arrives, and all is put right."""
        try:
            while self._actors and self.steps < _MOST_STEPS:
                self._step()
        finally:
            for actor in self._actors:
                actor.life.close()
        self.store.catch_up()
        self._rest()

    def _hired(self, name: str, life: Coroutine[Any, Any, None]) -> _Actor:
        """As far as its first waiting: one that has not begun cannot be ended."""
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
            if actor.name[0] == "w" and chance.random() < 0.7:  # somebody starts it again
                self._actors.append(self._hired(actor.name, self._work(actor.name)))
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

    def _means(self, name: str, weather: Weather | None = None) -> StoreAccess:
        objects = StormyObjects(self.store, name, self.chance, weather or self._weather, _turn)
        return StoreAccess(
            objects=objects,
            stale_seconds=STALE_SECONDS,
            result=Path(f"of-{name}-{next(self._numbers)}"),
        )

    def _told(self, who: str, key: str, _: object, body: bytes | None) -> None:
        word = "deletes" if body is None else "writes"
        self.trace.append(f"{self.now - EPOCH:9.2f} {who} {word} {key} {(body or b'')[:120].decode()}")

    async def _work(self, name: str) -> None:
        chance, actor, means = self.chance, self._actor(name), self._means(name)
        for _ in range(chance.choice((3, 8, 20))):
            await _Pass(chance.choice((0.0, 1.0, 20.0)))
            try:
                candidate = await self._candidate(means)
                if candidate is None:
                    continue
                held = await self._performed(lifecycle.claim(candidate, actor), means)
                if held is not None:
                    self.trace.append(f"{name} has attempt {held.job.attempt} of {held.id[-2:]}")
                    self.witness.begun(held.id, held.job.attempt)
                    await self._attempt(held, actor, means)
            except Retry:
                continue  # the job, if there is one, is taken for lost

    async def _candidate(self, means: StoreAccess) -> JobCandidate | None:
        found = [
            JobCandidate(id=job, tier=seen.key.split("/")[2], blank=seen.size == 0)
            async for page in means.objects.pages(layout.TODO)
            for seen in page
            if (job := layout.parse_job(seen.key)) is not None
        ]
        return self.chance.choice(found) if found else None

    async def _attempt(self, held: HeldJob, actor: JobActor, means: StoreAccess) -> None:
        chance = self.chance
        for _ in range(chance.choice((0, 0, 1, 3))):
            await _Pass(chance.choice((1.0, 30.0, 30.0, 3 * STALE_SECONDS)))
            beaten = await self._performed(lifecycle.beat(held, actor, {}), means)
            if beaten is None and chance.random() < 0.9:
                return  # the others are careless, and go on with what is not theirs
            held = beaten or held
        await _Pass(chance.choice((0.0, 1.0, 10.0, 2 * STALE_SECONDS)))  # a zombie in the end, perhaps
        ending = chance.choice(("finish", "finish", "fail", "fail", "release", "release", "vanish"))
        for _ in range(2):
            try:
                if ending == "finish":
                    if await self._performed(lifecycle.finish(held), means) is not None:
                        return
                elif ending == "fail":
                    await self._performed(lifecycle.fail(held, actor, "it broke"), means)
                    return
                elif ending == "release":
                    await self._performed(lifecycle.release(held, actor, "graceful_shutdown"), means)
                    return
            except Retry:
                continue

    async def _clean(self, name: str) -> None:
        actor, means = self._actor(name), self._means(name)
        for _ in range(self.chance.choice((3, 10, 30))):
            await _Pass(self.chance.choice((1.0, 20.0, 60.0, 2 * STALE_SECONDS)))
            for job in self.chance.sample(self.jobs, len(self.jobs)):
                try:
                    await self._performed(janitor.settle(job, actor), means)
                except Retry:
                    continue

    async def _meddle(self, name: str) -> None:
        chance, actor, means = self.chance, self._actor(name), self._means(name)
        for _ in range(chance.choice((1, 3))):
            await _Pass(chance.choice((10.0, 100.0, 500.0)))
            job, tier = chance.choice(self.jobs), chance.choice((None, *TIERS))
            acts = (
                operator.retry(job, actor, tier=tier, reset=chance.random() < 0.5),
                operator.cancel(job, actor, tier=tier),
                operator.reprioritize(job, actor, tier=tier or TIERS[0]),
            )
            try:
                await self._performed(chance.choice(acts), means)
            except Retry:
                continue

    @staticmethod
    async def _performed(asking: Operation[Any], means: StoreAccess) -> Any:
        return await perform(asking, means)

    def _rest(self) -> None:
        """No more faults: a janitor and a worker that come later must end every job, and leave nothing."""
        calm = Weather()
        for turn in range(6 + 3 * self.limit):
            self.now += 2 * STALE_SECONDS
            for job in self.jobs:
                self._alone(janitor.settle(job, self._actor(f"j last {turn}")), self._means("j last", calm))
            self.now += 1.0
            for job in self.jobs:
                self._last_worker(job, f"w last {turn}", self._means(f"w last {turn}", calm))
        for job in self.jobs:
            self.witness.at_rest(job, [key for key in self.store.objects if layout.parse_job(key) == job])

    def _last_worker(self, job: str, name: str, means: StoreAccess) -> None:
        actor = self._actor(name)
        for tier in TIERS:
            marker = self.store.objects.get(layout.todo(tier, job))
            if marker is None:
                continue
            candidate = JobCandidate(id=job, tier=tier, blank=not marker.body)
            held = self._alone(lifecycle.claim(candidate, actor), means)
            if held is not None:
                self.witness.begun(job, held.job.attempt)
                if self.chance.random() < 0.5:
                    self._alone(lifecycle.fail(held, actor, "it broke again"), means)
                else:
                    self._alone(lifecycle.finish(held), means)

    def _alone(self, asking: Operation[Any], means: StoreAccess) -> Any:
        life = perform(asking, means)
        while True:
            try:
                life.send(None)
            except StopIteration as done:
                return done.value


def run(seed: int, *, drop: Collection[str] = ()) -> Ran:
    """Raises BrokenError when a promise is broken."""
    simulation = Simulation(seed, drop=drop)
    try:
        simulation.run()
    except BrokenError as broken:
        lines = "\n".join(simulation.trace)
        raise BrokenError(f"seed {seed}: {broken}\nthe last steps:\n{lines}") from broken
    witness = simulation.witness
    return Ran(
        seed=seed,
        steps=simulation.steps,
        done=len(witness.results),
        dead=len(simulation.jobs) - len(witness.results),
        attempts=sum(len(one) for one in witness.attempts.values()),
        crashes=simulation.crashes,
    )


def main() -> int:
    """Many seeds, one after the other, until one breaks a promise."""
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
