"""Queues in a bucket on a store where everything goes wrong, decided by a seed: is anything lost or doubled?

Senders and consumers, each with a store object of its own as if they were processes, on one event loop
without real waiting. They crash at any request; requests arrive late. Then all is calm, what is left is
consumed, and every message whose sending was answered must have been acknowledged or buried; what was sent
together must be there together.

    storm(123)                                   raises BrokenError, which names the seed
    python -m quire.testing.queue_storm --seeds 10000
"""

import argparse
import asyncio
import sys
from collections import Counter, defaultdict
from collections.abc import Collection
from random import Random

from msgspec import Struct

from quire.model.errors import Lost, Retry
from quire.queues.bucket_store import BucketQueues
from quire.queues.port import Leased, Message
from quire.testing.bucket_situations import BrokenError
from quire.testing.stormy_objects import StormyObjects, StormyStore, Weather
from quire.testing.time import CountingIds

QUEUE = "q"
EPOCH = 1_700_000_000.0
_LEASE_SECONDS = 20.0
_GRACE_SECONDS = 1300.0


class Crashed(BaseException):
    """The process is gone: nothing may catch it on the way."""


class Stormed(Struct, frozen=True, kw_only=True):
    sent: int
    unanswered: int
    delivered: int
    acknowledged: int
    dead: int
    crashes: int


class _Process:
    """Queues that die at any request."""

    def __init__(self, storm: "Storm", name: str, weather: Weather, crash_rate: float) -> None:
        self._storm = storm
        self._crash_rate = crash_rate
        self.crashed = False
        objects = StormyObjects(storm.store, name, storm.chance, weather, self._turn)
        self.queues = BucketQueues(objects, storm.ids, pause=self._pause)

    async def _turn(self) -> None:
        if self.crashed or self._storm.chance.random() < self._crash_rate:
            self._storm.crashes += not self.crashed
            self.crashed = True
            raise Crashed
        self._storm.passes()
        for _ in range(self._storm.chance.choice((0, 1, 3, 9))):
            await asyncio.sleep(0)

    async def _pause(self, _: float) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        if self.crashed:
            raise asyncio.CancelledError


class Storm:
    def __init__(self, seed: int, *, drop: Collection[str] = ()) -> None:
        self.chance = Random(f"{seed}/queues")
        self.ids = CountingIds()
        self.now = EPOCH
        self.store = StormyStore(lambda: self.now, drop=drop)
        self.crashes = 0
        self._weather = Weather.drawn(self.chance)
        self._crash_rate = self.chance.choice((0.0, 0.002, 0.01))
        self._batches: list[frozenset[str]] = []
        self._answered: set[str] = set()
        self._asked: set[str] = set()
        self._held: dict[str, tuple[str, float]] = {}  # id: token, until when
        self._tokens: set[str] = set()
        self._over: set[str] = set()  # acknowledged or buried, and answered
        self._maybe_over: set[str] = set()
        self._buried: set[str] = set()
        self._replayed: set[str] = set()
        self._delivered: Counter[str] = Counter()
        self._numbers: defaultdict[str, list[int]] = defaultdict(list)

    async def run(self) -> Stormed:
        chance = self.chance
        # Of those that nobody waits for, such as the counters'.
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        lives = [self._send(number) for number in range(chance.choice((1, 2, 3)))]
        lives += [self._consume(number) for number in range(chance.choice((1, 2, 4)))]
        answers = await asyncio.gather(*lives, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, Crashed):
                raise answer
        self.store.catch_up()
        await self._rest()
        return Stormed(
            sent=len(self._answered),
            unanswered=len(self._asked - self._answered),
            delivered=sum(self._delivered.values()),
            acknowledged=len(self._over),
            dead=sum("/dead/" in key for key in self.store.objects),
            crashes=self.crashes,
        )

    def passes(self) -> None:
        """Not so long in all that a deletion could arrive later than the queues reckon with."""
        if self.now < EPOCH + 500:
            self.now += self.chance.choice((0.0, 0.0, 0.01, 0.3))
        if self.store.late and self.chance.random() < 0.05:
            self.store.late.pop(self.chance.randrange(len(self.store.late)))()

    async def _send(self, sender: int) -> None:
        process = _Process(self, f"s{sender}", self._weather, self._crash_rate)
        for number in range(self.chance.choice((3, 8))):
            size = self.chance.choice((1, 1, 2, 5))
            ids = [f"{sender}.{number}.{place}" for place in range(size)]
            if self.chance.random() < 0.5:
                ids.append(self.chance.choice("abc"))  # others send it too
            own = [one for one in ids if one not in "abc"]
            messages = [Message(id=one, body=one.encode(), priority=self.chance.randint(1, 5)) for one in ids]
            self.chance.shuffle(messages)
            self._batches.append(frozenset(own))
            for _ in range(self.chance.choice((1, 3, 10))):
                self._asked.update(ids)
                try:
                    await process.queues.send(
                        QUEUE, messages, now=self.now, delay_seconds=self.chance.choice((0.0, 0.0, 5.0))
                    )
                except Retry:
                    continue
                self._answered.update(ids)
                break

    async def _consume(self, number: int) -> None:
        process = _Process(self, f"c{number}", self._weather, self._crash_rate)
        for _ in range(self.chance.choice((10, 30))):
            if process.crashed:
                process = _Process(self, f"c{number}", self._weather, self._crash_rate)
            try:
                for leased in await self._lease(process.queues, self.chance.choice((1, 3, 10))):
                    await self._end(process.queues, leased)
                await self._tend(process.queues)
            except Retry:
                continue
            except Crashed:
                continue

    async def _tend(self, queues: BucketQueues) -> None:
        """What people and houses do now and then."""
        act = self.chance.choice(("sweep", "replay", "discard", *["nothing"] * 9))
        if act == "sweep":
            await queues.sweep(now=self.now)
        elif act == "replay":
            self._over -= self._buried
            self._replayed |= self._buried
            await queues.replay(QUEUE, now=self.now, limit=3)
        elif act == "discard":
            self._maybe_over |= self._buried
            await queues.discard(QUEUE, now=self.now, limit=1)

    async def _lease(self, queues: BucketQueues, limit: int) -> list[Leased]:
        now = self.now
        got = await queues.lease(QUEUE, limit=limit, seconds=_LEASE_SECONDS, now=now)
        for one in got:
            _demand(one.token not in self._tokens, "one loan was given twice")
            self._tokens.add(one.token)
            _demand(one.id in self._asked, "something was delivered that nobody sent")
            _demand(one.body == one.id.encode(), "a message was changed")
            self._delivered[one.id] += 1
            if one.id not in self._replayed:  # then they are counted from the beginning
                _demand(one.deliveries not in self._numbers[one.id], "two deliveries have one number")
                self._numbers[one.id].append(one.deliveries)
            if self.now >= now + _LEASE_SECONDS:
                continue  # the answer took so long that the loan is over: others have had it since
            _demand(one.id not in self._over, f"{one.id} was delivered after its end was answered")
            token, until = self._held.get(one.id, ("", 0.0))
            _demand(until <= now, f"{one.id} is out twice: {token} and {one.token}")
            self._held[one.id] = (one.token, now + _LEASE_SECONDS)
        return got

    async def _end(self, queues: BucketQueues, leased: Leased) -> None:
        self.passes()
        ending = self.chance.choice(("acknowledge", "acknowledge", "release", "bury", "extend", "nothing"))
        over = ending in {"acknowledge", "bury"}
        now = self.now
        try:
            if ending == "extend":
                await queues.extend([leased], seconds=_LEASE_SECONDS, now=now)
                if self._held.get(leased.id, ("", 0.0))[0] == leased.token:
                    self._held[leased.id] = (leased.token, now + _LEASE_SECONDS)
                return
            if ending == "nothing":
                return
            self._let_go(leased)
            if over:
                self._maybe_over.add(leased.id)
            if ending == "acknowledge":
                await queues.acknowledge([leased], now=now)
            elif ending == "release":
                await queues.release(leased, now=now, error="x")
            else:
                self._buried.add(leased.id)
                await queues.bury(leased, now=now, reason="x")
        except Lost:
            return
        if over and leased.id not in self._replayed:
            self._over.add(leased.id)

    def _let_go(self, leased: Leased) -> None:
        """From now on somebody else may have it, whether or not the answer reaches us."""
        if self._held.get(leased.id, ("", 0.0))[0] == leased.token:
            del self._held[leased.id]

    async def _rest(self) -> None:
        """All is calm: what is left comes to its end, and nothing is left behind."""
        process = _Process(self, "last", Weather(), 0.0)
        self.now = EPOCH + _GRACE_SECONDS
        await process.queues.sweep(now=self.now)
        for _ in range(40):
            self.now += _LEASE_SECONDS + 1
            for leased in await self._lease(process.queues, 100):
                await process.queues.acknowledge([leased], now=self.now)
                self._over.add(leased.id)
        self.now += _GRACE_SECONDS
        await process.queues.sweep(now=self.now)
        depth = await process.queues.depth(QUEUE, now=self.now)
        letters = {one.id for one in await process.queues.dead(QUEUE, limit=1000)}
        _demand((depth.waiting, depth.leased, depth.delayed) == (0, 0, 0), f"left behind: {depth}")
        _demand(depth.dead == len(letters), f"{depth.dead} numbers for {len(letters)} dead letters")
        ended = self._over | self._maybe_over | letters
        lost = {one for one in self._answered - letters if not self._delivered[one]} | (
            self._answered - ended
        )
        _demand(not lost, f"lost: {sorted(lost)}")
        for batch in self._batches:
            there = {one for one in batch if self._delivered[one]}
            _demand(there in (set(), set(batch)), f"of {sorted(batch)} only {sorted(there)} were sent")
        for name in ("/sends/", "/due/"):
            keys = [key for key in self.store.objects if name in key]
            _demand(not keys, f"left behind: {keys[:3]}")
        await process.queues.close()


def storm(seed: int, *, drop: Collection[str] = ()) -> Stormed:
    """Raises BrokenError, naming the seed."""
    try:
        return asyncio.run(Storm(seed, drop=drop).run())
    except BrokenError as broken:
        raise BrokenError(f"seed {seed}: {broken}") from broken


def _demand(kept: object, what: str) -> None:
    if not kept:
        raise BrokenError(what)


def main() -> int:
    """Many seeds, one after the other, until one breaks a promise."""
    parser = argparse.ArgumentParser(prog="python -m quire.testing.queue_storm")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    wanted = parser.parse_args()
    for seed in range(wanted.first, wanted.first + wanted.seeds):
        try:
            storm(seed)
        except BrokenError as broken:
            again = f"QUIRE_SIM_SEED={seed} pytest tests/simulation/test_queue_storm.py"
            print(f"{broken}\nagain: {again}", flush=True)  # noqa: T201
            return 1
    print(f"{wanted.seeds} seeds", flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
