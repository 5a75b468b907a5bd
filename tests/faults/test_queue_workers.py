"""Workers on a queue are killed in the middle: every task is finished once, as on this machine."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.processes import engine
from tests.processes.queue_worker import Plan
from tests.situations.runs import TEST_STEPS, submitted

from quire.assembly.components import open_components
from quire.assembly.engine import open_engine
from quire.assembly.queues import open_queues_alone
from quire.batches.submission import close_batch
from quire.blobs import content
from quire.ledger.port import Upload
from quire.model.plan import digest_of, encode_plan
from quire.queues.port import QueueCounter
from quire.settings import ComputeSettings, RedisSettings, RetrySettings, Secret, Settings
from quire.system import SystemClock, SystemIds
from quire.testing.factories import draft, phase, pipeline

pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.timeout(400)]
FILES = 60
PATIENCE_SECONDS = 120.0
QUEUE = ComputeSettings().queue


def settings_of(plan):
    return Settings(
        home=Path(plan.home),
        workers=1,
        queue_store="redis",
        redis=RedisSettings(url=Secret(plan.redis_url), prefix=plan.prefix),
        compute=ComputeSettings(look_seconds=0.2, max_out=40),
        retry=RetrySettings(first_delay_seconds=0.01, longest_delay_seconds=0.05),
    )


def one_phase(step, compute, **options):
    return pipeline(phase(step=step, cached=False, compute=compute, options=options, max_attempts=1))


@contextmanager
def working(plan, program="tests.processes.queue_worker"):
    command = [sys.executable, "-m", program, msgspec.json.encode(plan).decode()]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert started.stdout.readline() == b"at work\n", started.communicate(timeout=30)[1].decode()
        yield started
    finally:
        kill(started)


def kill(started):
    """kill -9 of the worker; its processes end with it."""
    if started.poll() is None:
        os.kill(started.pid, signal.SIGKILL)
    started.communicate(timeout=30)


class Ran:
    """How a batch of files ended: how often each was tried, and what was made of it."""

    def __init__(self, batch, histories):
        last = [attempts[-1] for _, attempts in histories.values()]
        self.status = batch.status
        self.attempts = [one.attempt for one in last]
        self.states = {one.state.value for one in last}
        self.errors = {one.error_class for one in last}
        # Without their numbers: those are given as files are made.
        self.made = {
            path: [msgspec.structs.replace(one, no=0) for one in files]
            for path, (files, _) in histories.items()
        }


async def ran(settings, known, observe, files=FILES):
    async with open_engine(settings, pipelines={known.name: known}, step_modules=TEST_STEPS) as house:
        stored = {"plan": encode_plan(known), "plan_digest": digest_of(known)}
        batch = await house.uploads.open_batch(draft("0" * 26, **stored))
        uploads = []
        for number in range(files):
            kept = await content.put_bytes(house.blobs, b"page %d" % number)
            path, kind = f"f{number:03}", "text/plain"
            uploads.append(Upload(path=path, state="taken", size=kept.size, key=kept.key, content_type=kind))
        await house.uploads.record_uploads(batch.no, uploads)
        batch = await close_batch(batch, known, uploads=house.uploads, blobs=house.blobs, clock=house.clock)

        async def look(batch):
            await observe(sum(one.settled for one in await house.records.count_tasks(batch.no)))

        async with asyncio.timeout(PATIENCE_SECONDS), house.start_engine() as wheel:
            batch = await wheel.run_batch(batch.id, look)
        paths = [one.path for one in uploads]
        return Ran(batch, {path: await house.records.get_file_history(batch.no, path) for path in paths})


async def nothing(_settled):
    return None


@pytest.fixture
def plan(tmp_path, redis_server):
    return Plan(
        home=str(tmp_path / "home"),
        redis_url=redis_server,
        prefix=SystemIds().ulid(),
        lease_seconds=1.5,
        max_retries=2,
    )


async def test_killing_a_worker_in_the_middle_loses_nothing_and_counts_nothing_twice(plan, tmp_path):
    with ExitStack() as stack:
        first, second = (stack.enter_context(working(plan)) for _ in range(2))
        killed = []

        async def observe(settled):
            if settled >= FILES // 4 and not killed:
                killed.append(settled)
                await asyncio.to_thread(kill, first)

        far = await ran(settings_of(plan), one_phase("copy", "queue", seconds=0.1), observe)
        second.terminate()  # so that its last acknowledgement is stored
        _, words = second.communicate(timeout=30)
        assert second.returncode == 0, words.decode()
    assert killed
    assert killed[0] < FILES, "it was over before anybody died"
    near = await ran(Settings(home=tmp_path / "near", workers=2), one_phase("copy", "local"), nothing)
    assert (far.status, far.states) == (near.status, near.states) == ("DONE", {"done"})
    assert far.made == near.made
    assert set(far.attempts) == {1}, "a worker that dies costs a lease and no attempt"
    async with open_queues_alone(settings_of(plan), SystemIds()) as opened:
        depth = await opened.queues.depth(QUEUE, now=SystemClock().now())
        assert (depth.waiting, depth.delayed, depth.leased, depth.dead) == (0, 0, 0, 0)
        counted = await opened.queues.counters(QUEUE)
        assert counted[QueueCounter.SENT] == counted[QueueCounter.ACKNOWLEDGED] == FILES
        assert 1 <= counted[QueueCounter.EXPIRED] <= 4, "what the dead one had, and nothing else"


async def test_a_task_whose_workers_die_each_time_fails_in_the_end(plan):
    """Each one that takes it is killed, as if by the file itself."""
    with ExitStack() as stack:
        workers = [stack.enter_context(working(plan))]

        async def replace():
            while True:
                async with open_queues_alone(settings_of(plan), SystemIds()) as opened:
                    deliveries = (await opened.queues.counters(QUEUE))[QueueCounter.DELIVERED]
                if deliveries == len(workers) <= 3:
                    await asyncio.to_thread(kill, workers[-1])
                    workers.append(await asyncio.to_thread(stack.enter_context, working(plan)))
                with pytest.raises(subprocess.TimeoutExpired):  # it must not end by itself
                    await asyncio.to_thread(workers[-1].wait, timeout=0.05)

        replacing = asyncio.create_task(replace())
        known = one_phase("copy", "queue", seconds=20)
        ended = await ran(settings_of(plan), known, nothing, files=1)
        replacing.cancel()
    assert (ended.states, ended.errors) == ({"failed"}, {"too_many_deliveries"})
    assert ended.attempts == [1]


async def test_killing_the_house_in_the_middle_is_made_good_by_the_next(plan):
    told = engine.ProcessOptions(
        home=plan.home,
        workers=0,
        until_idle=True,
        compute="queue",
        redis_url=plan.redis_url,
        prefix=plan.prefix,
    )
    known = engine.two_phases("queue")
    settings = engine.settings_of(told)
    with ExitStack() as stack:
        async with open_components(settings, pipelines={known.name: known}) as office:
            batch = await submitted(office, known, [f"slow{number:02}" for number in range(FILES)])
            stack.enter_context(working(msgspec.structs.replace(plan, workers=4)))

            async def settled():
                return sum(one.settled for one in await office.records.count_tasks(batch.no))

            for goal in (FILES // 2, FILES + FILES // 2):
                house = stack.enter_context(working(told, "tests.processes.engine"))
                while await settled() < goal:
                    with pytest.raises(subprocess.TimeoutExpired):  # it must not end by itself
                        await asyncio.to_thread(house.wait, timeout=0.02)
                await asyncio.to_thread(kill, house)
            last = stack.enter_context(working(told, "tests.processes.engine"))
            _, words = await asyncio.to_thread(last.communicate, timeout=PATIENCE_SECONDS)
            assert last.returncode == 0, words.decode()
            counts = [(one.total, one.done, one.failed) for one in await office.records.count_tasks(batch.no)]
            assert counts == [(FILES, FILES, 0)] * 2
            assert (await office.batches.get_batch(batch.id)).status == "DONE"
            kinds = [kind for _, _, kind, _ in await office.records.list_events(batch.no, limit=999)]
            assert kinds.count("batch_done") == 1
