"""What the sandbox costs: seconds to the first results of two workers, and pictures per second afterwards.

`python bench/sandbox.py 400` makes so many pictures and runs them with the sandbox off and on.
"""

import asyncio
import io
import os
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from PIL import Image

from quire.assembly.worker import WORKER_COMMAND
from quire.assembly.worker_blobs import WorkerConfiguration
from quire.blobs import content
from quire.blobs.local import LocalBlobs
from quire.compute.pool.local import LocalCompute
from quire.model.work import Order, StepCall
from quire.steps.registry import STEPS
from quire.system import LoopSignal, SystemClock
from quire.testing.factories import file
from quire.tools.vips import WORKER_ENVIRONMENT

CALL = StepCall(step="image_variants", version=STEPS["image_variants"].version)
WORKERS = 2


async def make_orders(blobs, count):
    for number in range(count):
        picture = Image.effect_noise((900, 1200), 40 + number % 20).convert("RGB")
        held = io.BytesIO()
        picture.save(held, "JPEG", quality=85, comment=str(number).encode())
        kept = await content.put_bytes(blobs, held.getvalue())
        named = file(f"{number}.jpg", key=kept.key, size=kept.size, digest=kept.digest)
        yield Order(1, number, 1, named)


async def drive(compute, signal, orders):
    began, out, back = time.perf_counter(), 0, 0
    while back < len(orders):
        if out < len(orders) and (room := compute.capacity()):
            await compute.submit(CALL, orders[out : out + room])
            out = min(len(orders), out + room)
        reports = compute.take_reports()
        assert all(report.outcome == "done" for report in reports), reports
        back += len(reports)
        if not reports:
            await signal.wait(60)
    return time.perf_counter() - began


async def measure(mode, count):
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        (Path(folder) / "scratch").mkdir()
        blobs = LocalBlobs(Path(folder, "blobs"))
        orders = [order async for order in make_orders(blobs, count)]
        configuration = WorkerConfiguration(
            blobs_root=f"{folder}/blobs",
            s3=None,
            step_modules=("quire.steps.registry",),
            scratch=f"{folder}/scratch",
            sandbox=mode,
        )
        signal, began = LoopSignal(), time.perf_counter()
        compute = LocalCompute(
            command=WORKER_COMMAND,
            environment={**os.environ, **WORKER_ENVIRONMENT},
            configuration=msgspec.json.encode(configuration),
            workers=WORKERS,
            clock=SystemClock(),
            signal=signal,
        )
        compute.start()
        await drive(compute, signal, orders[:WORKERS])
        first = time.perf_counter() - began
        seconds = await drive(compute, signal, orders[WORKERS:])
        await compute.stop(0)
        print(f"{mode:4} first {first:.3f} s, then {(count - WORKERS) / seconds:.1f} pictures/s")


for chosen in ("off", "on", "off", "on"):
    asyncio.run(measure(chosen, int(sys.argv[1])))
