"""The entry point of a worker process: builds its components from the configuration that the pool sends."""

import sys
from functools import partial
from pathlib import Path

import msgspec

from quire.assembly.decoder import choose_decoding
from quire.assembly.worker_blobs import WorkerConfiguration, open_store
from quire.assembly.worker_steps import load_steps
from quire.compute.pool.worker import WorkerContext, serve
from quire.model.errors import QuireError
from quire.system import SystemClock

WORKER_COMMAND = (sys.executable, "-c", "from quire.assembly.worker import worker_main; worker_main()")


def worker_main(name: str = "local", scratch: str = "") -> None:
    """`scratch` is a folder of the machine, for pools that do not know the machine."""
    serve(partial(_build_context, name, scratch))


def _build_context(name: str, scratch: str, configuration: bytes) -> WorkerContext:
    configured = msgspec.json.decode(configuration, type=WorkerConfiguration)
    try:
        steps = load_steps(configured.step_modules, configured.pipelines)
        plain = load_steps(configured.step_modules, ())
        own = any(step.sandbox is not None for name, step in steps.items() if name not in plain)
        decoding = choose_decoding(
            configured.sandbox,
            configured.step_modules,
            configured.pipelines if own else (),
            configured.private,
        )
    except QuireError as error:
        # The pool shows what was written here: the reason, not the way to it.
        sys.exit(str(error))
    return WorkerContext(
        blobs=open_store(Path(configured.blobs_root), configured.s3),
        steps=steps,
        scratch=Path(scratch or configured.scratch),
        clock=SystemClock(),
        decoding=decoding,
        name=name,
    )
