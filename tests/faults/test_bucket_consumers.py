"""Real consumers on queues of objects in a folder: one is killed in the middle, and no message is lost."""

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack

import msgspec
import pytest

from quire.assembly.queues import open_queues_at
from quire.queues.port import Depth, Message
from quire.service.consumer_jobs import Told
from quire.system import SystemClock, SystemIds
from quire.testing.consuming import HANDLED, Plan, lines_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
IDS = [f"m{number:03}" for number in range(120)]
PATIENCE_SECONDS = 90.0


def started(plan, name):
    told = msgspec.structs.replace(plan, worker=name)
    command = [sys.executable, "-m", "quire.testing.consuming", msgspec.json.encode(told).decode()]
    one = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert one.stdout.readline() == b"at work\n", one.communicate(timeout=30)[1].decode()
    return one


def ended(one):
    if one.poll() is None:
        os.killpg(one.pid, signal.SIGKILL)
    one.communicate(timeout=30)


async def test_messages_of_a_killed_consumer_come_to_another(tmp_path):
    folder, log = tmp_path / "objects", tmp_path / "log"
    folder.mkdir()
    log.touch()
    clock = SystemClock()
    plan = Plan(
        url=f"file://{folder}", log=str(log), queue="q", lease_seconds=2.0, concurrency=4, max_batch_size=8
    )

    def some_are_done():
        return len({one.id for one in lines_in(log.read_bytes()) if one.event == Told.DONE}) >= 20

    async def nothing_is_left():
        return await opened.queues.depth("q", now=clock.now()) == Depth(waiting=0, leased=0, dead=0)

    def patiently(crew, limit):
        assert clock.monotonic() < limit, "nothing goes on"
        with pytest.raises(subprocess.TimeoutExpired):
            crew[0].wait(timeout=0.02)

    async with open_queues_at(plan.url, SystemIds()) as opened:
        await opened.queues.send("q", [Message(id=one, body=one.encode()) for one in IDS], now=clock.now())
        with ExitStack() as stack:
            crew = [started(plan, f"w{number}") for number in range(2)]
            for one in crew:
                stack.callback(ended, one)
            limit = clock.monotonic() + PATIENCE_SECONDS
            while not some_are_done():
                patiently(crew, limit)
            os.killpg(crew[1].pid, signal.SIGKILL)
            crew[1] = started(plan, "w2")
            stack.callback(ended, crew[1])
            while not await nothing_is_left():
                patiently(crew, limit)
            for one in crew:
                one.send_signal(signal.SIGTERM)
                assert one.communicate(timeout=30) == (b"", b"")
        lines = lines_in(log.read_bytes())
        done = Counter(one.id for one in lines if one.event == Told.DONE)
        assert set(done.values()) == {1}
        assert {one.id for one in lines if one.event == HANDLED} == set(IDS)
        # Killed between the acknowledgement and the line about it.
        untold = set(IDS) - set(done)
        assert untold <= {one.id for one in lines if one.event == HANDLED and one.worker == "w1"}
        assert await opened.queues.depth("q", now=clock.now() + 100) == Depth(waiting=0, leased=0, dead=0)
