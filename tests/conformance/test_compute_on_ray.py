"""The suite of computes on a real Ray cluster."""

import asyncio
import os
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest

from quire.assembly.ray import NodeOutfit
from quire.assembly.stores import Greeting
from quire.blobs.local import LocalBlobs
from quire.compute.ray import RayCompute, Terms
from quire.system import LoopSignal, SystemClock
from quire.testing.compute_suite import PATIENCE_SECONDS, Bench, ComputeSuite
from quire.testing.ray_cluster import ENVIRONMENT, ray_cluster

pytestmark = [pytest.mark.slow, pytest.mark.service]


@pytest.fixture(scope="module")
def cluster():
    os.environ.update(ENVIRONMENT)
    import ray

    with ray_cluster() as cluster:
        cluster.add(2)
        ray.init(cluster.address, log_to_driver=False)
        yield cluster
        ray.shutdown()


class TestRayCompute(ComputeSuite):
    @pytest.fixture
    def opened(self, cluster, tmp_path):
        @asynccontextmanager
        async def opened(workers):
            (tmp_path / "scratch").mkdir()
            greeting = Greeting(
                blobs_root=str(tmp_path / "blobs"),
                s3=None,
                step_modules=("quire.testing.steps",),
                scratch=str(tmp_path / "scratch"),
            )
            signal = LoopSignal()
            compute = RayCompute(
                terms=Terms(address=cluster.address, workers=workers),
                fit_out=partial(NodeOutfit, str(tmp_path / "scratch")),
                greeting=msgspec.json.encode(greeting),
                local_cpus=2,
                clock=SystemClock(),
                signal=signal,
            )
            compute.start()
            try:
                async with asyncio.timeout(2 * PATIENCE_SECONDS):
                    yield Bench(compute, signal, LocalBlobs(tmp_path / "blobs"))
            finally:
                await compute.stop(0)

        return opened
