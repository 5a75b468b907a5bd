"""Two hundred coroutines of one second each, in one process: how long they take together, and what memory.

The floor is the same two hundred in a bare event loop of this process. Through the pool each has its order,
its time limit, its report and its result in the store; through `quire.run` also its task in the ledger.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COUNT = 200
SECONDS = 1.0
ROUNDS = 2
OWN = """
import asyncio
from quire import Document, Output, Pipeline

wait = Pipeline("wait", version=1)

@wait.step(accepts="*.txt", at_once=200, cached=False)
async def answer(document: Document) -> Output:
    await asyncio.sleep(1.0)
    return Output.json("answer.json", {"asked": document.name})
"""


def memory_mb(pid: int) -> float:
    """What the process has used at most."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


async def bare() -> float:
    began = time.perf_counter()
    await asyncio.gather(*(asyncio.sleep(SECONDS) for _ in range(COUNT)))
    return time.perf_counter() - began


async def pooled() -> tuple[float, float]:
    """Seconds, and megabytes that the host has used for all of them beyond what one took."""
    from quire.assembly.worker import WORKER_COMMAND
    from quire.assembly.worker_blobs import WorkerConfiguration
    from quire.compute.pool.local import LocalCompute
    from quire.model.work import Order, StepCall
    from quire.system import LoopSignal, SystemClock
    from quire.testing.factories import file

    call = StepCall(
        step="misbehave_async", version=1, asynchronous=True, at_once=COUNT, options={"seconds": SECONDS}
    )
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder, "scratch")
        scratch.mkdir()
        configuration = {
            name: getattr(configured, name)
            for configured in [
                WorkerConfiguration(
                    blobs_root=f"{folder}/blobs",
                    s3=None,
                    step_modules=("quire.testing.steps", "quire.testing.async_steps"),
                    scratch=str(scratch),
                )
            ]
            for name in configured.__struct_fields__
        }
        signal = LoopSignal()
        compute = LocalCompute(
            command=WORKER_COMMAND,
            environment=dict(os.environ),
            configuration=json.dumps(configuration).encode(),
            workers=1,
            clock=SystemClock(),
            signal=signal,
        )
        compute.start()

        async def drive(name: str, count: int) -> tuple[float, int]:
            began, reports = time.perf_counter(), []
            await compute.submit(call, [Order(1, number, 1, file(name)) for number in range(count)])
            while len(reports) < count:
                await signal.wait()
                reports += compute.take_reports()
            assert all(report.outcome == "done" for report in reports), reports
            pids = {int(report.worker.rpartition("-")[2]) for report in reports}
            assert len(pids) == 1, "it was one process"
            return time.perf_counter() - began, pids.pop()

        _, pid = await drive("good", 1)
        before = memory_mb(pid)
        seconds = min([(await drive("doze", COUNT))[0] for _ in range(ROUNDS)])
        more = memory_mb(pid) - before
        await compute.stop(0)
        return seconds, more


def whole() -> float:
    """Seconds of the run as its report has them: from the batch's start to its end."""
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder, "texts")
        texts.mkdir()
        for number in range(COUNT):
            (texts / f"{number:03}.txt").write_text(f"text {number}")
        Path(folder, "wait.py").write_text(OWN)
        command = [sys.executable, "-m", "quire.cli.main", "run", "texts", "--pipeline", "wait.py"]
        environment = os.environ | {"QUIRE_HOME": f"{folder}/home"}
        subprocess.run(
            [*command, "--out", "out"], cwd=folder, env=environment, check=True, capture_output=True
        )
        report = json.loads(Path(folder, "out", "report.json").read_text("utf-8"))
        assert report["counts"]["done"] == COUNT, report["counts"]
        return float(report["seconds"])


def run() -> dict[str, object]:
    floor = min(asyncio.run(bare()) for _ in range(ROUNDS))
    seconds, more = asyncio.run(pooled())
    total = whole()
    rows = [
        {"where": "bare event loop", "seconds": round(floor, 2), "of the floor": 1.0},
        {
            "where": "one host of the pool",
            "seconds": round(seconds, 2),
            "of the floor": round(seconds / floor, 2),
        },
        {"where": "quire run", "seconds": round(total, 2), "of the floor": round(total / floor, 2)},
    ]
    return {"rows": rows, "megabytes_more_in_the_host": round(more, 1)}
