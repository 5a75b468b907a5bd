"""Two stores behind one: the suite, and what an outage of the one elsewhere costs."""

import asyncio

import pytest

from quire.model.errors import Lost, Misconfigured, Unavailable
from quire.queues.port import Message
from quire.queues.routed import LONGEST_PAUSE_SECONDS, SEND_SECONDS, RoutedQueues
from quire.testing.memory_queues import MemoryQueues
from quire.testing.queues_suite import QueuesSuite
from quire.testing.time import FakeClock

HELLO = [Message(id="m", body=b"hello")]


class Routed:
    """Queues whose name begins with `far.` are elsewhere."""

    def __init__(self):
        self.main, self.other, self.clock = MemoryQueues(), MemoryQueues(), FakeClock()
        self.troubles = []
        self.queues = RoutedQueues(
            self.main,
            self.other,
            lambda name: name.startswith("far."),
            self.clock,
            trouble=self.troubles.append,
        )


@pytest.fixture
def routed():
    return Routed()


class TestSuite(QueuesSuite):
    @pytest.fixture
    async def queues(self):
        return RoutedQueues(MemoryQueues(), MemoryQueues(), lambda name: name == "p", FakeClock())


class TestSuiteElsewhere(QueuesSuite):
    @pytest.fixture
    async def queues(self):
        return RoutedQueues(MemoryQueues(), MemoryQueues(), lambda name: name == "q", FakeClock())


async def test_each_queue_is_in_one_store(routed):
    await routed.queues.send("far.q", HELLO, now=0)
    await routed.queues.send("q", HELLO, now=0)
    assert (await routed.main.names(), await routed.other.names()) == (["q"], ["far.q"])
    assert await routed.queues.names() == ["far.q", "q"]


async def test_leases_of_both_are_settled_together_and_the_lost_ones_named(routed):
    leased = []
    for name in ("q", "far.q"):
        await routed.queues.send(name, HELLO, now=0)
        leased += await routed.queues.lease(name, limit=1, seconds=5, now=0)
    await routed.queues.extend(leased, seconds=9, now=1)
    await routed.queues.acknowledge(leased, now=2)
    with pytest.raises(Lost) as caught:
        await routed.queues.acknowledge(leased, now=3)
    assert caught.value.ids == ("m", "m")


@pytest.mark.parametrize("name", ["q", "far.q"])
async def test_a_wait_for_queues_of_both_ends_with_the_first(routed, name):
    async with asyncio.timeout(30):
        waiting = asyncio.create_task(routed.queues.wait(["q", "far.q"], seconds=60))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await routed.queues.send(name, HELLO, now=0)
        await waiting


async def test_an_outage_elsewhere_is_one_of_those_queues_alone(routed):
    await routed.queues.send("q", HELLO, now=0)
    routed.other.away = True
    assert await routed.queues.names() == ["q"]
    assert await routed.queues.sweep(now=0) == 0
    assert (await routed.queues.depth("q", now=0)).waiting == 1
    for call in (
        routed.queues.send("far.q", HELLO, now=0),
        routed.queues.depth("far.q", now=0),
        routed.queues.wait(["far.q", "q"], seconds=1),
    ):
        with pytest.raises(Unavailable):
            await call


async def test_after_a_failed_send_there_is_a_pause_that_grows(routed):
    routed.other.away = True
    pauses = []
    for _ in range(8):
        with pytest.raises(Unavailable):
            await routed.queues.send("far.q", HELLO, now=0)
        paused = 0.0
        while True:
            with pytest.raises(Unavailable) as caught:
                await routed.queues.send("far.q", HELLO, now=0)
            if "not asked again" not in str(caught.value):
                break
            routed.clock.advance(0.25)
            paused += 0.25
        pauses.append(paused)
    assert pauses == sorted(pauses)
    assert pauses[0] <= 1
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    routed.other.away = False
    routed.clock.advance(LONGEST_PAUSE_SECONDS)
    assert await routed.queues.send("far.q", HELLO, now=0) == 1
    assert len(routed.troubles) == 2
    assert routed.troubles[1] is None


async def test_a_server_that_does_not_answer_holds_up_a_sender_for_a_moment_only(routed, monkeypatch):
    async def hang(*_, **__):
        await asyncio.Event().wait()

    monkeypatch.setattr("quire.queues.routed.SEND_SECONDS", SEND_SECONDS / 100)
    routed.other.send = hang
    async with asyncio.timeout(30):
        with pytest.raises(Unavailable, match="does not answer"):
            await routed.queues.send("far.q", HELLO, now=0)


async def test_a_queue_that_cannot_be_used_does_not_make_the_others_wait(routed):
    works = routed.other.send

    async def send(queue, *arguments, **options):
        if queue == "far.bad":
            raise Misconfigured("its key holds something else")
        return await works(queue, *arguments, **options)

    routed.other.send = send
    for _ in range(2):
        with pytest.raises(Misconfigured):
            await routed.queues.send("far.bad", HELLO, now=0)
        await routed.queues.send("far.q", HELLO, now=0)
    assert routed.troubles == ["its key holds something else"]
