"""Workers that were started before the engine are its workers, once; without an engine they are stopped."""

import pytest

from quire.assembly import local_workers
from quire.assembly.engine import open_engine
from quire.settings import Settings
from quire.testing.factories import phase, pipeline

HERE = pipeline(phase())
ELSEWHERE = pipeline(phase(compute="queue"))


class Compute:
    """Notes how many were started and stopped."""

    def __init__(self, begun, **given):
        self.workers = given["workers"]
        self.signal = given["signal"]
        self.stopped = 0
        begun.append(self)

    def start(self):
        assert not self.stopped

    async def stop(self, _grace_seconds):
        self.stopped += 1
        return []


@pytest.fixture
def begun(monkeypatch):
    """The computes, as they are begun."""
    computes = []
    monkeypatch.setattr(local_workers, "LocalCompute", lambda **given: Compute(computes, **given))
    return computes


async def test_the_first_engine_gets_those_that_were_started_ahead(tmp_path, begun):
    settings = Settings(home=tmp_path, workers=2)
    async with open_engine(settings, pipelines={"p": HERE}, starts_ahead=True) as house:
        assert [one.workers for one in begun] == [2]
        async with house.start_engine():
            assert len(begun) == 1
        assert begun[0].stopped == 1
        async with house.start_engine():
            assert [one.stopped for one in begun] == [1, 0]
    assert [one.stopped for one in begun] == [1, 1]


async def test_an_engine_with_another_number_has_workers_of_its_own(tmp_path, begun):
    settings = Settings(home=tmp_path, workers=2)
    async with open_engine(settings, pipelines={"p": HERE}, starts_ahead=True) as house:
        async with house.start_engine(workers=0):
            assert len(begun) == 1
        async with house.start_engine(workers=1):
            assert [one.workers for one in begun] == [2, 1]
    assert [one.stopped for one in begun] == [1, 1]


async def test_what_no_engine_asks_for_is_stopped(tmp_path, begun):
    with pytest.raises(KeyboardInterrupt):
        async with open_engine(Settings(home=tmp_path), pipelines={"p": HERE}, starts_ahead=True):
            raise KeyboardInterrupt
    assert [one.stopped for one in begun] == [1]


async def test_nothing_is_started_ahead_where_no_phase_runs_here(tmp_path, begun):
    async with open_engine(Settings(home=tmp_path), pipelines={"p": ELSEWHERE}, starts_ahead=True):
        assert begun == []
