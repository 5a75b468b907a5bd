"""Several who send webhooks from one PostgreSQL: each delivery is in one pair of hands at a time."""

import asyncio

import pytest
from tests.servers.postgres import fresh_schema

from quire.database.postgres import PostgresDatabase
from quire.ledger.postgres import PostgresLedger
from quire.testing.api_keys_suite import key
from quire.testing.factories import draft
from quire.testing.webhooks_suite import hook

pytestmark = pytest.mark.service
EVENTS = 60


@pytest.fixture
async def ledgers(postgres_server):
    dsn = fresh_schema(postgres_server)
    databases = [PostgresDatabase(dsn) for _ in range(2)]
    for database in databases:
        await database.open()
    both = [PostgresLedger(database) for database in databases]
    await both[0].prepare()
    yield both
    for database in databases:
        await database.close()


async def happened(ledger):
    await ledger.add_hook(hook(kinds=("batch_opened",)))
    for number in range(EVENTS):
        await ledger.open_batch(draft(f"B{number:03}", now=1.0))


async def test_a_delivery_is_given_to_one_alone(ledgers):
    await happened(ledgers[0])
    asked = [
        ledger.due_deliveries(limit=7, now=10.0, lease_seconds=60.0) for _ in range(6) for ledger in ledgers
    ]
    given = [one for page in await asyncio.gather(*asked) for one in page]
    assert len({one.no for one in given}) == len(given)
    left = await ledgers[0].due_deliveries(limit=EVENTS, now=10.0, lease_seconds=60.0)
    assert len(given) + len(left) == EVENTS
    assert {one.tries for one in given} == {1}


async def test_who_sends_is_woken_by_an_event_that_somebody_wants(ledgers):
    heard = asyncio.Event()
    await ledgers[1]._database.listen(heard.set)
    await ledgers[0].add_hook(hook(kinds=("batch_opened",)))
    await ledgers[0].open_batch(draft())
    async with asyncio.timeout(20):
        await heard.wait()


async def test_uses_of_the_same_keys_are_told_by_several_at_once(ledgers):
    ids = [f"key_{number}" for number in range(20)]
    for one in ids:
        await ledgers[0].add_key(key(one))
    orders = [ids, ids[::-1]]
    calls = [
        ledgers[number % 2].record_uses(dict.fromkeys(orders[number % 2], float(number)))
        for number in range(1, 41)
    ]
    await asyncio.gather(*calls)
    assert {one.last_used_at for one in await ledgers[0].keys()} == {40.0}
