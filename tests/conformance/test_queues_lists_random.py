"""Any sequence of calls, ours and those of published programs: each message is in one place."""

import random
from collections import Counter

import pytest
import redis

from quire.model.errors import Lost
from quire.queues.port import Message
from quire.queues.redis_lists import RedisListQueues
from quire.system import SystemIds

pytestmark = pytest.mark.service
STEPS = 150
NOW = 1_800_000_000.0


class Play:
    """Two workers of ours and the published programs on one queue. `gone`: what left it for good."""

    def __init__(self, url, seed, *, rq):
        self.chance = random.Random(seed)
        self.client = redis.Redis.from_url(url)
        options = {"ids": SystemIds(), "max_bytes": 1000, "rq_queues": ("q",) if rq else ()}
        self.workers = [RedisListQueues(url, **options) for _ in range(2)]
        self.rq = rq
        self.now = NOW
        self.leases = []
        self.sent = 0
        self.gone = Counter()

    async def close(self):
        self.client.close()
        for worker in self.workers:
            await worker.close()

    def fresh(self):
        """Sometimes the same bytes as before."""
        self.sent += 1
        return b"message %d" % (self.sent if self.rq or self.chance.random() < 0.8 else 1)

    async def send(self, worker):
        body = self.fresh()
        name = body.decode() if self.rq else f"id-{self.sent}"
        delay = self.chance.choice([0, 0, 2.5, 9.5])
        await worker.send("q", [Message(id=name, body=body)], now=self.now, delay_seconds=delay)
        return [body]

    async def push(self, _):
        """As a published producer; in the RQ form the server that enqueued it was ours."""
        if self.rq:
            return await self.send(self.workers[0])
        body = self.fresh()
        self.client.lpush("q", body)
        return [body]

    async def pop(self, _):
        """As a published consumer, which is never heard of again."""
        entry = self.client.lpop("rq:queue:q") if self.rq else self.client.rpop("q")
        if entry is not None:
            self.gone[entry] += 1
        return []

    async def lease(self, worker):
        name = f"w{self.workers.index(worker)}"
        seconds = self.chance.choice([1.5, 8.5])
        limit = self.chance.randint(1, 3)
        self.leases += await worker.lease("q", limit=limit, seconds=seconds, now=self.now, worker=name)
        return []

    async def settle(self, worker):
        if not self.leases:
            return []
        leased = self.leases.pop(self.chance.randrange(len(self.leases)))
        kind = self.chance.choice(["acknowledge", "extend", "release", "give back", "dead letter"])
        try:
            if kind == "acknowledge":
                await worker.acknowledge([leased], now=self.now)
                self.gone[leased.body] += 1
            elif kind == "extend":
                await worker.extend([leased], seconds=5.5, now=self.now)
                self.leases.append(leased)
            elif kind == "release":
                delay = self.chance.choice([0, 2.5])
                await worker.release(leased, now=self.now, delay_seconds=delay, error="e")
            elif kind == "give back":
                await worker.release(leased, now=self.now, counted=False)
            else:
                await worker.dead_letter(leased, now=self.now, reason="r")
        except Lost:
            pass
        return []

    async def resolve(self, worker):
        act = self.chance.choice(["replay", "discard"])
        before = Counter(one.body for one in await worker.list_dead_letters("q", limit=999))
        await getattr(worker, act)("q", now=self.now, limit=2)
        if act == "discard":
            after = Counter(one.body for one in await worker.list_dead_letters("q", limit=999))
            self.gone += before - after
        return []

    async def look(self, worker):
        await worker.depth("q", now=self.now)
        await worker.peek("q", limit=99, now=self.now)
        await worker.next_due("q", now=self.now)
        return []

    def places(self):
        """Every message that is anywhere. Equal ones are one dead letter."""
        entries = self.client.lrange("rq:queue:q" if self.rq else "q", 0, -1)
        for worker in ("w0", "w1"):
            entries += self.client.lrange(f"q:processing:{worker}", 0, -1)
        entries += [member[17:] for member in self.client.zrange("q:delayed", 0, -1)]
        return Counter(entries), Counter(self.client.lrange("q:dead", 0, -1))


@pytest.mark.parametrize("rq", [False, True], ids=["plain", "rq"])
@pytest.mark.parametrize("seed", range(4))
async def test_each_message_is_in_one_place(redis_server, seed, rq):
    url = redis_server.removesuffix("/0") + "/10"
    play = Play(url, seed, rq=rq)
    play.client.flushdb()
    expected = Counter()
    acts = [play.send, play.push, play.pop, *[play.lease] * 3, *[play.settle] * 3, play.resolve, play.look]
    for step in range(STEPS):
        play.now += play.chance.choice([0.25, 0.5, 3.75])
        expected.update(await play.chance.choice(acts)(play.chance.choice(play.workers)))
        waiting, dead = play.places()
        assert max(dead.values(), default=1) == 1
        found = waiting + dead + play.gone
        assert found.keys() == expected.keys(), (seed, step)
        # Equal messages that die are one dead letter; all others are there as often as they were sent.
        assert all(found[one] == expected[one] for one in expected if one != b"message 1"), (seed, step)
        assert found[b"message 1"] <= expected[b"message 1"]
    depth = await play.workers[0].depth("q", now=play.now)
    waiting, dead = play.places()
    assert depth.waiting + depth.delayed + depth.leased == waiting.total()
    assert depth.dead == dead.total()
    await play.close()
