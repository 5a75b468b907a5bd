"""Waiting for messages: what wakes, what is remembered, what is left behind."""

import asyncio

import pytest
from tests.servers.postgres import fresh_schema

from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.queues.notifier import Notifier
from quire.queues.port import Message
from quire.queues.postgres import PostgresQueues
from quire.queues.sqlite import SqliteQueues
from quire.testing.time import CountingIds

LONG_SECONDS = 60.0


@pytest.fixture
async def notifier():
    """One that has begun to listen, to nobody."""

    async def listen(heard):
        pass

    notifier = Notifier(listen)
    await notifier.wait(["any"], seconds=0)
    return notifier


def start(notifier, *queues):
    return asyncio.create_task(notifier.wait(queues, seconds=LONG_SECONDS))


async def settle():
    """Everybody who can go on has done so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_only_those_are_woken_who_wait_for_that_queue(notifier):
    both, other = start(notifier, "p", "q"), start(notifier, "p")
    await settle()
    notifier.notify("q")
    await both
    assert not other.done()
    notifier.notify_all()
    await other


async def test_a_notification_while_nobody_waits_is_remembered_until_the_queue_is_read(notifier):
    notifier.notify("q")
    await notifier.wait(["q"], seconds=LONG_SECONDS)
    notifier.mark_seen("q")
    waiting = start(notifier, "q")
    await settle()
    assert not waiting.done()
    notifier.notify("q")
    await waiting


async def test_what_is_heard_from_others_is_remembered_for_queues_that_were_looked_at(notifier):
    notifier.mark_seen("q")
    notifier.notify_all()
    await notifier.wait(["q"], seconds=LONG_SECONDS)


async def test_a_cancelled_wait_is_forgotten(notifier):
    waiting = start(notifier, "q")
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await notifier.wait(["q"], seconds=0.001)
    assert not notifier._waiting


async def test_however_many_wait_one_listens_and_what_came_before_that_is_not_missed():
    listening = []

    async def listen(heard):
        await settle()
        listening.append(heard)

    notifier = Notifier(listen)
    await asyncio.gather(*(start(notifier, "q") for _ in range(5)))
    assert len(listening) == 1
    notifier.mark_seen("q")
    waiting = start(notifier, "q")
    await settle()
    assert not waiting.done()
    listening[0]()
    await waiting


async def test_a_failed_listen_is_tried_again():
    answers = [ConnectionError, None]

    async def listen(heard):
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    notifier = Notifier(listen)
    with pytest.raises(ConnectionError):
        await notifier.wait(["q"], seconds=LONG_SECONDS)
    await notifier.wait(["q"], seconds=LONG_SECONDS)
    assert answers == []


@pytest.fixture
async def sqlite_pair(tmp_path):
    """Two databases on one file are as good as two processes."""
    databases = [SqliteDatabase(tmp_path / "quire.db") for _ in range(2)]
    for database in databases:
        await database.open()
    ids = CountingIds()
    pair = [SqliteQueues(database, ids) for database in databases]
    for queues in pair:
        await queues.prepare()
    yield pair
    for database in databases:
        await database.close()


@pytest.fixture
async def postgres_pair(postgres_server):
    dsn = fresh_schema(postgres_server)
    databases = [PostgresDatabase(dsn) for _ in range(2)]
    for database in databases:
        await database.open()
    ids = CountingIds()
    pair = [PostgresQueues(database, ids) for database in databases]
    for queues in pair:
        await queues.prepare()
    yield pair
    for database in databases:
        await database.close()


async def others_wake(pair):
    mine, theirs = pair
    await mine.wait(["q"], seconds=LONG_SECONDS)  # the first time comes back at once: it has begun to listen
    assert await mine.lease("q", limit=1, seconds=9, now=0) == []
    async with asyncio.timeout(LONG_SECONDS / 2):
        await theirs.send("q", [Message(id="m", body=b"")], now=0)
        leased = []
        while not leased:  # more than one of their writes may be heard
            await mine.wait(["q"], seconds=LONG_SECONDS)
            leased = await mine.lease("q", limit=1, seconds=9, now=0)
    assert [one.id for one in leased] == ["m"]


async def own_wake(pair):
    mine, _ = pair
    await mine.wait(["q"], seconds=LONG_SECONDS)
    await mine.lease("q", limit=1, seconds=9, now=0)
    waiting = [asyncio.create_task(mine.wait(["q"], seconds=LONG_SECONDS)) for _ in range(3)]
    await settle()
    async with asyncio.timeout(LONG_SECONDS / 2):
        await mine.send("q", [Message(id="m", body=b"")], now=0)
        await asyncio.gather(*waiting)


async def rest_is_told(pair):
    """One who took less than there is tells the others."""
    mine, _ = pair
    await mine.wait(["q"], seconds=LONG_SECONDS)
    await mine.send("q", [Message(id=f"{number}", body=b"") for number in range(2)], now=0)
    await mine.lease("q", limit=1, seconds=9, now=0)
    async with asyncio.timeout(LONG_SECONDS / 2):
        await mine.wait(["q"], seconds=LONG_SECONDS)
    assert len(await mine.lease("q", limit=9, seconds=9, now=0)) == 1


CASES = [others_wake, own_wake, rest_is_told]


@pytest.mark.parametrize("case", CASES)
async def test_on_sqlite(sqlite_pair, case):
    await case(sqlite_pair)


@pytest.mark.service
@pytest.mark.parametrize("case", CASES)
async def test_on_postgres(postgres_pair, case):
    await case(postgres_pair)


async def test_the_house_and_the_queues_may_both_listen_to_one_file(sqlite_pair):
    mine, theirs = sqlite_pair
    heard = [asyncio.Event(), asyncio.Event()]
    for one in heard:
        await mine._database.listen(one.set)
    await theirs.send("q", [Message(id="m", body=b"")], now=0)
    async with asyncio.timeout(LONG_SECONDS / 2):
        await asyncio.gather(*(one.wait() for one in heard))


async def test_others_are_heard_also_while_there_is_always_something_to_write(sqlite_pair):
    mine, theirs = sqlite_pair
    heard = asyncio.Event()
    await mine._database.listen(heard.set)
    await theirs.send("q", [Message(id="m", body=b"")], now=0)
    async with asyncio.timeout(LONG_SECONDS / 2):
        while not heard.is_set():
            await mine._database.write(lambda _: None)
