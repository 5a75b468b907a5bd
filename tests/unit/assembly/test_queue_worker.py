"""A worker on a queue has the memory and the price that its own settings say, as every pool on a machine."""

import pytest

from quire.assembly import queue_worker
from quire.assembly.queue_worker import open_queue_worker
from quire.settings import Settings
from quire.settings.compute import LocalSettings


class Pool:
    made: dict[str, object]

    def __init__(self, **parts):
        Pool.made = parts

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
    ids=["told", "not told"],
)
async def test_its_pool_has_the_memory_and_the_price_of_the_settings(tmp_path, monkeypatch, local, wanted):
    monkeypatch.setattr(queue_worker, "LocalCompute", Pool)
    monkeypatch.setattr(queue_worker, "usable_memory_mb", lambda: 3000)
    settings = Settings(home=tmp_path, workers=4, local=local)
    async with open_queue_worker(settings) as opened:
        assert {name: Pool.made[name] for name in wanted} == wanted
        assert opened.worker._terms.policy.concurrency == wanted["workers"]
