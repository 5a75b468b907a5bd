"""What is said of the server on which envelopes travel, whatever its state: never an error."""

import pytest
import redis
from tests.servers import redis as redis_server

from quire.assembly.redis_lists import probe_lists
from quire.settings import RedisSettings, Secret, Settings


def settings_of(tmp_path, url):
    return Settings(home=tmp_path, redis=RedisSettings(url=Secret(url)))


async def test_a_server_that_is_away_is_a_warning(tmp_path):
    (found,) = await probe_lists(settings_of(tmp_path, "redis://:secret@127.0.0.1:1/0"))
    assert (found.ok, found.needed) == (False, False)
    assert "127.0.0.1:1" in found.detail
    assert "waits until it is back" in found.advice
    assert "secret" not in str(found)


async def test_a_malformed_address_is_a_warning_that_does_not_show_it(tmp_path):
    (found,) = await probe_lists(settings_of(tmp_path, "redis://:secret@host:port/0"))
    assert (found.ok, found.needed, "secret" in str(found)) == (False, False, False)


@pytest.mark.service
async def test_what_a_server_may_lose_or_throw_away_is_told(tmp_path, redis_program):
    with redis_server.restartable_server(redis_program) as server:
        settings = settings_of(tmp_path, server.url)
        with redis.Redis.from_url(server.url) as client:
            for name, value in (("appendonly", "yes"), ("appendfsync", "always")):
                client.config_set(name, value)
            assert [one.ok for one in await probe_lists(settings)] == [True]
            client.config_set("appendfsync", "no")
            fine, lost = await probe_lists(settings)
            assert (fine.ok, "answers" in fine.name) == (True, True)
            assert ("appendfsync is no" in lost.detail, lost.needed) == (True, False)
            client.config_set("maxmemory-policy", "allkeys-lru")
            (evicts,) = await probe_lists(settings)
            assert ("throws messages away" in evicts.detail, evicts.needed) == (True, False)
