"""The suite of computes on a real Ray cluster; and what only a cluster can do: lose a machine."""

import asyncio
import os
import sqlite3
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest
from tests.servers.ray import ENVIRONMENT, ray_cluster
from tests.situations.runs import TEST_STEPS, submitted

from quire.assembly.engine import open_engine
from quire.assembly.ray import NodeWorkerSetup
from quire.assembly.worker_blobs import WorkerConfiguration
from quire.blobs.local import LocalBlobs
from quire.compute.ray.compute import RayCompute, RayOptions
from quire.model.errors import Misconfigured
from quire.model.work import Outcome
from quire.settings import RaySettings, Settings
from quire.system import LoopSignal, SystemClock
from quire.testing.compute_suite import MISBEHAVE, PATIENCE_SECONDS, ComputeBench, ComputeSuite, names, order
from quire.testing.factories import phase, pipeline

pytestmark = [pytest.mark.slow, pytest.mark.service]


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():  # read when RaySettings is imported
            patch.setenv(name, value)
        try:
            import ray
        except ImportError:
            reason = "Ray is missing: install the wheel ray (make install)"
            pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
        with ray_cluster() as cluster:
            ray.init(cluster.address, log_to_driver=False)
            yield cluster
            ray.shutdown()


@asynccontextmanager
async def opened_on(cluster, folder, **options):
    (folder / "scratch").mkdir()
    configuration = WorkerConfiguration(
        blobs_root=str(folder / "blobs"),
        s3=None,
        step_modules=("quire.testing.steps",),
        scratch=str(folder / "scratch"),
    )
    signal = LoopSignal()
    compute = RayCompute(
        options=RayOptions(address=cluster.address, **options),
        set_up=partial(NodeWorkerSetup, str(folder / "scratch")),
        configuration=msgspec.json.encode(configuration),
        local_cpus=2,
        clock=SystemClock(),
        signal=signal,
    )
    compute.start()
    try:
        async with asyncio.timeout(2 * PATIENCE_SECONDS):
            yield ComputeBench(compute, signal, LocalBlobs(folder / "blobs"))
    finally:
        await compute.stop(0)


class TestRayCompute(ComputeSuite):
    @pytest.fixture
    def opened(self, cluster, tmp_path):
        return lambda workers: opened_on(cluster, tmp_path, workers=workers)


async def test_the_work_of_a_machine_that_dies_is_finished_elsewhere(cluster, tmp_path):
    second = await asyncio.to_thread(cluster.add, 2)
    given, reports = [], []

    async def work_until(condition):
        while not condition():
            while room := bench.compute.capacity():
                more = [order("slow", len(given) + number) for number in range(room)]
                given.extend(more)
                await bench.compute.submit(MISBEHAVE, more)
            await bench.until(
                lambda: bench.compute.capacity() > 0 or reports.extend(bench.compute.take_reports())
            )

    async with opened_on(cluster, tmp_path) as bench:
        # As many workers as fit: then both machines are at work.
        await work_until(lambda: len({report.worker for report in reports}) == 4)
        killing = asyncio.create_task(asyncio.to_thread(cluster.kill, second))
        # A worker between two orders is lost without a report.
        await work_until(lambda: len(bench.compute._handles) == 2)
        await killing
        reports += await bench.take_reports(len(given) - len(reports))
        assert names(reports) == names(given)
        lost = [report for report in reports if report.outcome is not Outcome.DONE]
        assert len(lost) <= 2, "those that were running there, and no other"
        assert {report.outcome for report in lost} <= {Outcome.INTERRUPTED}, "the step is not to blame"
        again = [order("slow", report.task_no, attempt=2) for report in lost]
        later = await bench.run(MISBEHAVE, [*again, order("slow", len(given))])
        assert {report.outcome for report in later.values()} == {Outcome.DONE}
        # The two workers that there is no place for any more are not waited for.
        async with asyncio.timeout(PATIENCE_SECONDS / 2):
            assert await bench.ended() == ([], [])


async def test_phases_of_one_batch_run_here_and_there(cluster, tmp_path):
    far, here = (phase(name=name, step="noop", cached=False, compute=name) for name in ("ray", "local"))
    both = pipeline(far, here)
    settings = Settings(home=tmp_path, workers=1, ray=RaySettings(address=cluster.address, workers=1))
    async with open_engine(settings, pipelines={both.name: both}, step_modules=TEST_STEPS) as house:
        batch = await submitted(house, both, [f"{number}.tif" for number in range(20)])
        async with house.start_engine() as wheel:
            batch = await wheel.run_batch(batch.id, ignored)
        assert batch.status == "DONE"
        assert [(one.total, one.done) for one in await house.records.count_tasks(batch.no)] == [(20, 20)] * 2
    connection = sqlite3.connect(tmp_path / "quire.db")
    found = connection.execute("SELECT DISTINCT phase, substr(worker, 1, 3) FROM tasks").fetchall()
    connection.close()
    assert sorted(found) == [(1, "ray"), (2, "loc")]


async def ignored(_batch):
    return None


async def test_no_more_is_out_than_was_allowed(cluster, tmp_path):
    async with opened_on(cluster, tmp_path, workers=2, max_out=3) as bench:
        await bench.until(lambda: bench.compute.capacity() > 0)
        assert bench.compute.capacity() <= 3
        await bench.compute.submit(MISBEHAVE, [order("hang", number) for number in range(3)])
        assert bench.compute.capacity() == 0


async def test_a_worker_that_no_machine_has_room_for_is_told(cluster, tmp_path):
    async with opened_on(cluster, tmp_path, cpus=64) as bench:
        with pytest.raises(Misconfigured, match=r"64 processors.*ray\.cpus"):
            await bench.take_reports(1)


async def test_machines_that_do_not_see_the_home_folder_are_told(cluster, tmp_path):
    async with opened_on(cluster, tmp_path, workers=1) as bench:
        bench.compute._set_up = partial(NodeWorkerSetup, str(tmp_path / "elsewhere"))
        with pytest.raises(Misconfigured, match=r'does not see the folder .* store to "s3"'):
            await bench.take_reports(1)
