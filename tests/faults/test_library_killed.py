"""Real workers and janitors of the library, killed again and again: every job is done once, nothing is left.

`LIBRARY_WORKERS` and `LIBRARY_JOBS` make it larger: 20 and 2000 for a soak.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from tests.processes.library_worker import Line, Plan, open_library
from tests.situations.libraries import ingest_text, list_keys

from quire.assembly.worker_blobs import S3Access
from quire.library.janitor import sweep
from quire.library.protocol import layout
from quire.library.worker.job_run import JobOutcome
from quire.library.worker.loop import WorkerEventKind
from quire.system import SystemClock, SystemIds

SEED = int(os.environ.get("KILL_SEED", "20261116"))
WORKERS = int(os.environ.get("LIBRARY_WORKERS", "4"))
JOBS = int(os.environ.get("LIBRARY_JOBS", "60"))
PATIENCE_SECONDS = 180.0 + JOBS
CLOCK = SystemClock()

pytestmark = [pytest.mark.slow, pytest.mark.timeout(int(PATIENCE_SECONDS) + 60)]


class WorkerProcesses:
    def __init__(self, plan, chance):
        self.plan = plan
        self.error_log = Path(plan.log + ".err")
        self.chance = chance
        self.workers = []
        self.killed = Counter()
        self.machines = 0
        self.limit = CLOCK.monotonic() + PATIENCE_SECONDS

    def start(self, *, janitor=False):
        # On a machine where a worker died, which knows its job; or on a new machine.
        self.machines += self.chance.random() < 0.3
        scratch = f"{self.plan.scratch}-{self.machines}"
        plan = msgspec.structs.replace(self.plan, janitor=janitor, scratch=scratch)
        command = [sys.executable, "-m", "tests.processes.library_worker", msgspec.json.encode(plan).decode()]
        with self.error_log.open("ab") as errors:
            return subprocess.Popen(command, start_new_session=True, stderr=errors)

    def complete(self):
        self.workers += [self.start() for _ in range(WORKERS - len(self.workers))]

    def kill(self):
        """Kill one worker and start another."""
        victim = self.workers.pop(self.chance.randrange(len(self.workers)))
        _end(victim, signal.SIGKILL)
        self.killed["worker"] += 1
        self.complete()

    def wait(self, seconds):
        """Wait; a worker that ends by itself fails the test."""
        watched = self.workers[0]
        try:
            watched.wait(seconds)
        except subprocess.TimeoutExpired:
            assert CLOCK.monotonic() < self.limit, "it takes too long"
        else:
            pytest.fail(f"a worker ended by itself: {self.error_log.read_text()}")

    def dismiss(self):
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self.workers:
            assert worker.wait(timeout=30) == 0, self.error_log.read_text()

    def close(self):
        for worker in self.workers:
            _end(worker, signal.SIGKILL)


def _end(process, number):
    if process.poll() is None:
        process.send_signal(number)
    process.wait()


def lines_in(path):
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=Line) for line in lines]


async def versions(context):
    """The versions of all results, by job."""
    return {
        layout.parse_job(seen.key): seen.version
        async for page in context.objects.pages(layout.OUT)
        for seen in page
    }


async def run_to_end(plan):
    chance = random.Random(SEED)
    context = open_library(plan)
    jobs = set()
    for number in range(JOBS):
        tier = chance.choice(["1_critical", "3_normal", "5_background"])
        jobs.add(await ingest_text(context, f"pages {number % 7} x{number}", tier=tier, name=f"{number}.pdf"))
    processes = WorkerProcesses(plan, chance)
    first = {}
    try:
        processes.complete()
        janitor = processes.start(janitor=True)
        while len(first) < JOBS:
            await asyncio.to_thread(processes.wait, chance.uniform(0.1, 0.8))
            found = await versions(context)
            assert all(found[job] == version for job, version in first.items()), "a result was replaced"
            first.update(found)
            # Not towards the end: nothing would ever be finished.
            if len(first) < JOBS * 0.9:
                processes.kill()
                _end(janitor, signal.SIGKILL)
                processes.killed["janitor"] += 1
                janitor = processes.start(janitor=True)
        _end(janitor, signal.SIGKILL)
        await asyncio.to_thread(processes.dismiss)
    finally:
        processes.close()
        _end(janitor, signal.SIGKILL)
    return context, jobs, first, processes.killed


async def check_end(plan, context, jobs, first, killed):
    assert await versions(context) == first
    assert set(first) == jobs
    assert killed["worker"] >= 3
    lines = lines_in(Path(plan.log))
    done = Counter(line.job for line in lines if line.outcome == JobOutcome.DONE)
    assert max(done.values()) == 1
    assert not [line for line in lines if line.outcome in {JobOutcome.FAILED, JobOutcome.DEAD}]
    claims = Counter(line.job for line in lines if line.kind == WorkerEventKind.CLAIMED)
    assert max(claims.values()) > 1  # some were tried again
    # No process is left: everything counts as stale.
    swept = await sweep(open_library(plan, stale_seconds=-3600.0))
    assert {one.done for one in swept.settled} <= {"cleared"}
    assert await list_keys(context) == []


async def test_in_a_folder_every_job_is_done_once(tmp_path):
    plan = Plan(root=str(tmp_path / "bucket"), scratch=str(tmp_path / "scratch"), log=str(tmp_path / "log"))
    await check_end(plan, *await run_to_end(plan))


@pytest.mark.service
async def test_in_s3_every_job_is_done_once(tmp_path, s3_server):
    access = S3Access(
        bucket=s3_server.bucket,
        endpoint=s3_server.endpoint,
        region=s3_server.region,
        access_key_id=s3_server.access_key_id,
        secret_access_key=s3_server.secret_access_key,
        prefix=f"killed/{SystemIds().ulid()}",
        allow_http=True,
    )
    plan = Plan(root="", scratch=str(tmp_path / "scratch"), log=str(tmp_path / "log"), s3=access)
    await check_end(plan, *await run_to_end(plan))
