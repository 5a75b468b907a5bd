"""A Redis that is killed, full, silent, locked or wrongly set up: what is kept, and which error says so."""

import asyncio
import itertools
import socket
import traceback

import pytest
from tests.servers.redis import PASSWORD, restartable_server

from quire.model.errors import Misconfigured, Unavailable
from quire.queues.port import Message
from quire.queues.redis_streams import RedisStreamQueues
from quire.testing.time import CountingIds

pytestmark = pytest.mark.service


@pytest.fixture
def server(redis_program):
    with restartable_server(redis_program) as server:
        yield server


@pytest.fixture
async def queues(server):
    queues = RedisStreamQueues(server.url, ids=CountingIds())
    yield queues
    await queues.close()


def some(*names, body=b""):
    return [Message(id=name, body=body) for name in names]


async def restarted(server, queues):
    """Killed and started again; the first call finds a dead line."""
    server.stop()
    server.start()
    with pytest.raises(Unavailable):
        await queues.depth("q", now=0)


async def test_a_killed_server_has_kept_all_it_answered(server, queues):
    """Work goes on at full speed from several sides when the server is killed, three times."""
    sent, asked, acknowledged, names = set(), set(), set(), itertools.count()

    async def send():
        while True:
            batch = [f"m{next(names)}" for _ in range(20)]
            await queues.send("q", some(*batch), now=1)
            sent.update(batch)

    async def consume():
        while True:
            leased = await queues.lease("q", limit=10, seconds=60, now=1)
            assert not acknowledged & {one.id for one in leased}
            asked.update(one.id for one in leased)
            await queues.acknowledge(leased, now=1)
            acknowledged.update(one.id for one in leased)

    for round_number in range(1, 4):
        work = [asyncio.create_task(task()) for task in (send, send, consume, consume)]
        while len(acknowledged) < 300 * round_number:
            await asyncio.wait(work, timeout=0.001, return_when=asyncio.FIRST_COMPLETED)
            assert not any(task.done() for task in work)
        server.stop()
        errors = await asyncio.gather(*work, return_exceptions=True)
        assert {type(error) for error in errors} == {Unavailable}
        server.start()
    rest = await queues.lease("q", limit=10**6, seconds=60, now=1000)
    delivered = {one.id for one in rest}
    assert not delivered & acknowledged
    # What is gone without an answer was being acknowledged when the server was killed.
    assert sent - delivered <= asked


async def test_everything_of_a_message_is_there_after_a_kill(server, queues):
    await queues.send("q", some("delayed"), now=0, delay_seconds=50)
    await queues.send("q", some("dead", "out", "done"), now=0)
    dead, out, done = await queues.lease("q", limit=3, seconds=40, now=1, worker="w")
    await queues.dead_letter(dead, now=2, reason="poison")
    await queues.acknowledge([done], now=2)
    await queues.send("q", some("waits"), now=3)
    before = [
        await queues.peek("q", limit=9, now=4),
        await queues.list_dead_letters("q", limit=9),
        await queues.counters("q"),
    ]
    await restarted(server, queues)
    after = [
        await queues.peek("q", limit=9, now=4),
        await queues.list_dead_letters("q", limit=9),
        await queues.counters("q"),
    ]
    assert after == before
    assert await queues.send("q", some("done"), now=5) == 0
    await queues.extend([out], seconds=40, now=5)
    assert [one.id for one in await queues.lease("q", limit=9, seconds=9, now=5)] == ["waits"]


async def test_a_server_that_writes_every_second_loses_nothing_when_only_its_process_dies(redis_program):
    with restartable_server(redis_program, appendfsync="everysec") as server:
        queues = RedisStreamQueues(server.url, ids=CountingIds())
        await queues.send("q", some("a", "b"), now=0)
        await queues.acknowledge(await queues.lease("q", limit=1, seconds=9, now=0), now=0)
        await restarted(server, queues)
        assert [one.id for one in await queues.lease("q", limit=9, seconds=9, now=99)] == ["b"]
        await queues.close()


async def test_a_lost_server_is_unavailable_and_the_next_call_after_its_return_works(server, queues):
    await queues.send("q", some("a"), now=0)
    await asyncio.gather(*(queues.depth("q", now=0) for _ in range(5)))  # several lines are open now
    server.stop()
    for _ in range(3):
        with pytest.raises(Unavailable):
            await queues.depth("q", now=0)
    server.start()
    assert (await queues.depth("q", now=0)).waiting == 1
    await asyncio.gather(*(queues.depth("q", now=0) for _ in range(5)))
    await restarted(server, queues)
    assert (await queues.depth("q", now=0)).waiting == 1


async def test_waiting_raises_when_the_server_is_lost(server, queues):
    waiting = asyncio.create_task(queues.wait(["q"], seconds=60))
    while (await queues._server.ask("INFO", "clients"))["blocked_clients"] < 1:
        pass
    server.stop()
    async with asyncio.timeout(10):
        with pytest.raises(Unavailable):
            await waiting


async def test_a_silent_server_is_unavailable():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        queues = RedisStreamQueues(url, ids=CountingIds(), timeout_seconds=0.05)
        with pytest.raises(Unavailable):
            await queues.depth("q", now=0)
        await queues.close()


async def test_scripts_that_were_forgotten_are_loaded_again(queues):
    await queues.send("q", some("a"), now=0)
    await queues._server.ask("SCRIPT FLUSH")
    assert await queues.send("q", some("a", "b"), now=0) == 1
    await queues._server.ask("SCRIPT FLUSH")
    assert len(await queues.lease("q", limit=9, seconds=9, now=0)) == 2


async def test_a_full_server_refuses_and_what_is_there_can_be_worked_off(queues):
    await queues.send("q", some("a", "b", "c"), now=0)
    await queues._server.ask("CONFIG SET", "maxmemory", "1")
    with pytest.raises(Unavailable) as full:
        await queues.send("q", some("d", "e"), now=0)
    assert full.value.code == "storage_full"
    a, b, c = await queues.lease("q", limit=9, seconds=9, now=1)
    await queues.extend([a, b, c], seconds=20, now=2)
    await queues.acknowledge([a], now=3)
    await queues.dead_letter(b, now=3, reason="x")
    await queues.release(c, now=3, error="x")
    await queues._server.ask("CONFIG SET", "maxmemory", "0")
    depth = await queues.depth("q", now=4)
    assert (depth.waiting, depth.leased, depth.dead) == (1, 0, 1)
    assert await queues.send("q", some("d", "e"), now=4) == 2


async def test_a_replica_is_unavailable_for_writing_and_warned_of(server, queues):
    await queues._server.ask("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(Unavailable):
        await queues.send("q", some("a"), now=0)
    (warning,) = await queues.probe()
    assert "replica" in warning.detail


@pytest.mark.parametrize("who", ["", ":wrong-secret@", "nobody:wrong-secret@"])
async def test_a_wrong_password_is_for_a_person_and_in_no_message(server, who):
    queues = RedisStreamQueues(server.url.replace(f":{PASSWORD}@", who), ids=CountingIds())
    with pytest.raises(Misconfigured) as refused:
        await queues.send("q", some("a"), now=0)
    with pytest.raises(Misconfigured):
        await queues.wait(["q"], seconds=9)
    assert "wrong-secret" not in "".join(traceback.format_exception(refused.value)) + repr(queues)
    await queues.close()


async def test_a_user_without_rights_is_misconfigured(server, queues):
    await queues._server.ask("ACL SETUSER", "weak", "on", ">weak-secret", "~*", "+@all", "-evalsha")
    weak = RedisStreamQueues(server.url.replace(f":{PASSWORD}", "weak:weak-secret"), ids=CountingIds())
    with pytest.raises(Misconfigured):
        await weak.depth("q", now=0)
    await weak.close()


async def test_keys_of_another_program_are_misconfigured(queues):
    await queues._server.ask("SET", queues._keys.of("q")[5], "mine")
    with pytest.raises(Misconfigured, match="prefix"):
        await queues.send("q", some("a"), now=0)


class TestProbe:
    async def test_a_server_that_keeps_everything_gives_no_warning(self, queues):
        assert await queues.probe() == []

    @pytest.mark.parametrize(
        ("setting", "value", "words"),
        [
            ("appendonly", "no", "appendonly is off"),
            ("appendfsync", "everysec", "appendfsync is everysec"),
            ("appendfsync", "no", "appendfsync is no"),
            ("maxmemory-policy", "volatile-lru", "noeviction"),
        ],
    )
    async def test_a_server_that_may_lose_something_is_warned_of(self, queues, setting, value, words):
        await queues._server.ask("CONFIG SET", setting, value)
        (warning,) = await queues.probe()
        assert words in warning.detail + warning.advice
        assert PASSWORD not in str(warning)
        assert (warning.ok, warning.needed) == (False, False)

    async def test_a_server_that_throws_keys_away_is_refused(self, queues):
        await queues._server.ask("CONFIG SET", "maxmemory-policy", "allkeys-lru")
        with pytest.raises(Misconfigured, match="noeviction"):
            await queues.probe()

    async def test_a_server_that_hides_its_settings_is_warned_of(self, server, queues):
        await queues._server.ask("ACL SETUSER", "guest", "on", ">guest-secret", "~*", "+@all", "-config")
        guest = RedisStreamQueues(server.url.replace(f":{PASSWORD}", "guest:guest-secret"), ids=CountingIds())
        (warning,) = await guest.probe()
        assert "does not tell" in warning.detail
        await guest.close()

    async def test_an_old_server_is_refused(self, queues, monkeypatch):
        async def answer(*_command):
            return {"redis_version": "6.0.16"}

        monkeypatch.setattr(queues._server, "ask", answer)
        with pytest.raises(Misconfigured, match=r"6\.2"):
            await queues.probe()


async def test_a_call_given_up_at_any_point_leaves_its_answer_to_nobody_else(queues):
    await queues.send("q", some("a"), now=0)
    for turns in range(40):
        given_up = asyncio.create_task(queues.counters("q"))
        for _ in range(turns):
            await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
        assert (await queues.depth("q", now=0)).waiting == 1
