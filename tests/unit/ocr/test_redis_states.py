"""States of jobs on a real Redis, under the published keys."""

import pytest
import redis

from quire.model.errors import Unavailable
from quire.ocr.redis_states import RedisJobStates

pytestmark = pytest.mark.service


@pytest.fixture
async def states(redis_server):
    opened = RedisJobStates(redis_server)
    yield opened
    await opened.close()


async def test_a_state_is_kept_for_its_time(states, redis_server):
    await states.save("j1", b'{"status":"pending"}', seconds=86_400)
    await states.save("j1", b'{"status":"completed"}', seconds=86_400)
    assert await states.load("j1") == b'{"status":"completed"}'
    assert await states.load("j2") is None
    with redis.Redis.from_url(redis_server) as client:
        assert 86_000 < client.ttl("ocr_job:j1") <= 86_400


async def test_a_workflow_may_be_called_off(states, redis_server):
    with redis.Redis.from_url(redis_server) as client:
        client.set("cancelled:w1", "1")
    assert await states.is_cancelled("w1")
    assert not await states.is_cancelled("w2")


async def test_a_server_that_is_away_is_unavailable():
    states = RedisJobStates("redis://127.0.0.1:1/0")
    with pytest.raises(Unavailable):
        await states.load("j1")
    await states.close()
