"""What the Redis adapter does before it talks to a server."""

import builtins

import pytest

from quire.model.errors import Misconfigured
from quire.queues.redis_streams import RedisStreamQueues
from quire.queues.redis_streams.keys import RedisKeys
from quire.testing.time import CountingIds


def test_all_keys_of_a_queue_share_a_hash_tag_and_no_two_queues_share_a_key():
    keys = RedisKeys("quire")
    names = ["q", "q:dead", "q}:dead", "{q}", "", "ä"]
    known = [key for name in names for key in keys.of(name)]
    assert len(set(known)) == len(known)
    for name in names:
        tags = {key[key.index(b"{") + 1 : key.index(b"}")] for key in keys.of(name)}
        assert len(tags) == 1
        assert tags != {b""}


@pytest.mark.parametrize("prefix", ["", "a b", "{x}", "x}", "ä", "x" * 65])
def test_a_prefix_that_would_move_keys_apart_is_refused(prefix):
    with pytest.raises(Misconfigured):
        RedisStreamQueues("redis://127.0.0.1:1/0", ids=CountingIds(), prefix=prefix)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:6379", "http://:hidden@127.0.0.1/0", "redis://:hidden@127.0.0.1:port/0"]
)
def test_a_malformed_url_is_refused_without_quoting_it(url):
    with pytest.raises(Misconfigured, match="redis://") as refused:
        RedisStreamQueues(url, ids=CountingIds())
    assert "hidden" not in str(refused.value)


def test_the_password_is_not_shown():
    queues = RedisStreamQueues("redis://me:hidden@example.org:7000/2", ids=CountingIds())
    assert repr(queues) == "RedisStreamQueues(Redis example.org:7000/2)"
    assert "hidden" not in repr(queues._server)


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("redis."):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Misconfigured, match=r"quire\[redis\]"):
        RedisStreamQueues("redis://127.0.0.1/0", ids=CountingIds())
