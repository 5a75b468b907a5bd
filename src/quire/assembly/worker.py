"""The entrance of a worker process: builds its few components from the pool's greeting."""

import sys
from importlib import import_module
from pathlib import Path

import msgspec

from quire.assembly.stores import Greeting, open_store
from quire.compute.worker import Toolbox, serve
from quire.model.step import Step
from quire.system import SystemClock

WORKER_COMMAND = (sys.executable, "-c", "from quire.assembly.worker import worker_main; worker_main()")


def worker_main() -> None:
    serve(_build_toolbox)


def _build_toolbox(greeting: bytes) -> Toolbox:
    told = msgspec.json.decode(greeting, type=Greeting)
    steps: dict[str, Step] = {}
    for module in told.step_modules:
        steps.update(import_module(module).STEPS)
    return Toolbox(
        blobs=open_store(Path(told.blobs_root), told.s3),
        steps=steps,
        scratch=Path(told.scratch),
        clock=SystemClock(),
    )
