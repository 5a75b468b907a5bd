"""An engine loop that fails unforeseen is restarted, later each time, and never ends the API."""

import asyncio
import logging

import httpx
import pytest

from quire.assembly import engine_task, server
from quire.assembly.engine_task import CALM_SECONDS, LONGEST_PAUSE_SECONDS, run_engine_loop
from quire.engine.loop import EngineLoop
from quire.model.errors import Misconfigured
from quire.settings import load
from quire.testing.time import FakeClock


class FailingLoop:
    """Raises the given errors one after the other, then runs until it is stopped."""

    def __init__(self, faults, clock=None, lasts=0.0):
        self.faults = list(faults)
        self.said = []
        self.clock = clock
        self.lasts = lasts
        self._stopped = asyncio.Event()

    async def run(self, enough):
        assert enough is None
        self.said.append("run")
        if self.faults:
            if self.clock is not None:
                self.clock.advance(self.lasts)
            raise self.faults.pop(0)
        await self._stopped.wait()

    async def abandon(self):
        self.said.append("abandon")

    def stop(self):
        self._stopped.set()

    async def shut_down(self, grace_seconds):
        assert grace_seconds > 0
        self.said.append("shut_down")


class Pauses:
    """Instead of waiting; stops the server when it has seen enough."""

    def __init__(self, stop, enough):
        self.seconds = []
        self.faltering = []
        self._stop = stop
        self._enough = enough

    def watching(self, faltering):
        async def pause(stop, seconds):
            assert stop is self._stop
            self.seconds.append(seconds)
            self.faltering.append(faltering.is_set())
            if len(self.seconds) == self._enough:
                self._stop.set()

        return pause


async def run(loop, enough, clock=None):
    stop, faltering = asyncio.Event(), asyncio.Event()
    pauses = Pauses(stop, enough)
    await run_engine_loop(loop, stop, faltering, clock=clock or FakeClock(), pause=pauses.watching(faltering))
    return pauses, faltering


async def test_it_gives_everything_up_waits_and_begins_again(caplog):
    loop = FailingLoop([ValueError("unforeseen")])
    pauses, faltering = await run(loop, 1)
    assert loop.said == ["run", "abandon", "run", "shut_down"]
    assert pauses.faltering == [True]
    assert not faltering.is_set()
    (told,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert told.message == "conductor_failed"
    assert "unforeseen" in str(told.exc_info[1])


async def test_a_fault_that_comes_back_waits_longer_each_time_and_not_for_ever():
    pauses, _ = await run(FailingLoop([ValueError(str(number)) for number in range(9)]), 9)
    assert pauses.seconds == [1, 2, 4, 8, 16, 32, 60, 60, LONGEST_PAUSE_SECONDS]


async def test_after_a_calm_time_the_next_fault_is_a_first_one():
    clock = FakeClock()
    faults = [ValueError(str(number)) for number in range(3)]
    pauses, _ = await run(FailingLoop(faults, clock, CALM_SECONDS), 3, clock)
    assert pauses.seconds == [1, 1, 1]


async def test_a_fall_that_fails_is_told_and_tried_again_by_the_wheel(caplog):
    loop = FailingLoop([ValueError("first")])

    async def abandon():
        raise OSError("the ledger is away, too")

    loop.abandon = abandon
    await run(loop, 1)
    assert loop.said == ["run", "run", "shut_down"]
    told = [record.message for record in caplog.records if record.levelno >= logging.ERROR]
    assert told == ["conductor_failed", "conductor_fall_failed"]


async def test_what_a_person_must_put_right_ends_it():
    loop = FailingLoop([Misconfigured("no such pipeline")])
    with pytest.raises(Misconfigured):
        await run(loop, 1)
    assert loop.said == ["run", "shut_down"]


async def test_what_goes_wrong_while_stopping_is_not_hidden():
    loop, stop = FailingLoop([ValueError("at the end")]), asyncio.Event()
    stop.set()
    with pytest.raises(ValueError, match="at the end"):
        await run_engine_loop(loop, stop, asyncio.Event(), clock=FakeClock(), pause=None)


async def test_the_api_goes_on_and_says_that_the_engine_loop_is_down(tmp_path, monkeypatch):
    """The real server with a real engine loop, which fails once."""
    stop, down, go_on, back = (asyncio.Event() for _ in range(4))
    started = asyncio.get_running_loop().create_future()
    turns = []
    turn = EngineLoop._turn_or_rest

    async def failing(self, only):
        turns.append(self._membership.number)
        if len(turns) == 1:
            raise ValueError("unforeseen")
        back.set()
        return await turn(self, only)

    async def pause(_stop, _seconds):
        down.set()
        await go_on.wait()

    monkeypatch.setattr(EngineLoop, "_turn_or_rest", failing)
    kept = engine_task.run_engine_loop
    monkeypatch.setattr(
        server, "run_engine_loop", lambda *parts, clock, **_: kept(*parts, clock=clock, pause=pause)
    )
    running = asyncio.ensure_future(
        server.run_server(
            load({"QUIRE_HOME": str(tmp_path), "QUIRE_SERVE_PORT": "0"}, tmp_path).settings,
            server.ServeOptions(workers=0),
            stop,
            started=started.set_result,
            trouble=lambda _: None,
        )
    )
    try:
        async with asyncio.timeout(60), httpx.AsyncClient(base_url=(await started).url) as client:
            await down.wait()
            told = (await client.get("/health")).raise_for_status().json()
            assert (told["status"], told["conductor"]) == ("degraded", "restarting")
            assert (await client.get("/api/batches")).status_code == 200
            go_on.set()
            await back.wait()
            told = (await client.get("/health")).raise_for_status().json()
            assert (told["status"], "conductor" in told) == ("ok", False)
        assert turns[0] != turns[1]  # it has joined anew
        assert not running.done()
    finally:
        stop.set()
        go_on.set()
        await running
