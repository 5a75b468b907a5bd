import pytest
import redis

from quire.queues.redis_lists import RedisListQueues
from quire.testing.time import CountingIds

MAX_BYTES = 10_000


@pytest.fixture
def url(redis_server):
    """An empty database: lists have the names that everybody knows."""
    address = redis_server.removesuffix("/0") + "/7"
    with redis.Redis.from_url(address) as client:
        client.flushdb()
    return address


@pytest.fixture
def published(url):
    """A client as published programs have it."""
    with redis.Redis.from_url(url) as client:
        yield client


@pytest.fixture
async def queues(url):
    queues = RedisListQueues(url, ids=CountingIds(), max_bytes=MAX_BYTES, rq_queues=("jobs",))
    yield queues
    await queues.close()
