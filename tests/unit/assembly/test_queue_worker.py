"""A queue worker from settings: the memory and the price of its pool, and the store of its queues."""

import pytest
from tests.servers.postgres import fresh_schema

from quire.assembly import queue_worker
from quire.assembly.queue_worker import open_queue_worker
from quire.queues.port import Message
from quire.settings import PostgresSettings, RedisSettings, Secret, Settings
from quire.settings.compute import LocalSettings
from quire.system import SystemClock, SystemIds


class Pool:
    arguments: dict[str, object]

    def __init__(self, **parts):
        Pool.arguments = parts

    def start(self):
        pass

    def take_reports(self):
        return []

    async def stop(self, grace_seconds):
        assert grace_seconds == 0
        return []


@pytest.mark.parametrize(
    ("local", "wanted"),
    [
        (
            LocalSettings(memory_mb=400, price_per_second=0.5),
            {"memory_mb": 400, "price_per_second": 0.5, "workers": 2},
        ),
        (LocalSettings(), {"memory_mb": 3000, "price_per_second": 0.0, "workers": 4}),
    ],
    ids=["configured", "default"],
)
async def test_its_pool_has_the_memory_and_the_price_of_the_settings(tmp_path, monkeypatch, local, wanted):
    monkeypatch.setattr(queue_worker, "LocalCompute", Pool)
    monkeypatch.setattr(queue_worker, "usable_memory_mb", lambda: 3000)
    settings = Settings(home=tmp_path, workers=4, local=local)
    async with open_queue_worker(settings) as opened:
        assert {name: Pool.arguments[name] for name in wanted} == wanted
        assert opened.worker._options.policy.concurrency == wanted["workers"]


@pytest.fixture(
    params=[
        "ledger on sqlite",
        pytest.param("ledger on postgres", marks=pytest.mark.service),
        pytest.param("redis", marks=pytest.mark.service),
    ]
)
def stored(request):
    """The settings of one place for queues, and the module of the store that must be opened for it."""
    if request.param == "ledger on postgres":
        dsn = fresh_schema(request.getfixturevalue("postgres_server"))
        return {"ledger": "postgres", "postgres": PostgresSettings(dsn=Secret(dsn))}, "quire.queues.postgres"
    if request.param == "redis":
        url = request.getfixturevalue("redis_server")
        return {"queue_store": "redis", "redis": RedisSettings(url=Secret(url))}, "quire.queues.redis_streams"
    return {}, "quire.queues.sqlite"


async def test_it_finds_its_queues_wherever_the_settings_keep_them(tmp_path, monkeypatch, stored):
    chosen, module = stored
    monkeypatch.setattr(queue_worker, "LocalCompute", Pool)
    async with open_queue_worker(Settings(home=tmp_path, workers=1, **chosen)) as opened:
        queues = opened.worker._queues
        assert type(queues).__module__.startswith(module)
        now = SystemClock().now()
        name = f"tasks-{SystemIds().ulid()}"
        await queues.send(name, [Message(id="1", body=b"{}")], now=now)
        assert [one.id for one in await queues.peek(name, limit=9, now=now)] == ["1"]
