"""Decoders: whether and how the workers of this machine start them, and the entry point of their processes.

Promise: a decoder is told its steps and its places, and neither addresses nor keys. Must not know: settings,
which worker processes do not have.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from quire.assembly.worker_steps import WorkerPipeline, load_steps
from quire.compute.decoder.child import DecoderContext, serve
from quire.compute.decoder.handle import DecoderSetup
from quire.compute.pool.order_run import SandboxPlace
from quire.model.step import SandboxMode
from quire.system import SystemClock
from quire.tools import sandbox
from quire.tools.sandbox import SandboxRules

# -P: its own folder is no place for modules.
DECODER_COMMAND = (
    sys.executable,
    "-P",
    "-c",
    "from quire.assembly.decoder import decoder_main; decoder_main()",
)


class DecoderConfiguration(Struct, frozen=True, kw_only=True):
    """Sent over the pipe of a decoder."""

    step_modules: tuple[str, ...]
    pipelines: tuple[WorkerPipeline, ...]
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    private: tuple[str, ...]
    import_from: tuple[str, ...] = ()


def choose_decoding(
    mode: SandboxMode,
    step_modules: tuple[str, ...],
    pipelines: tuple[WorkerPipeline, ...] = (),
    private: tuple[str, ...] = (),
) -> DecoderSetup | None:
    """How to start decoders that know these steps; None: steps run without. Raises Misconfigured."""
    if not sandbox.check_mode(mode):
        return None

    def configure(place: SandboxPlace, places: tuple[str, ...]) -> bytes:
        return msgspec.json.encode(
            DecoderConfiguration(
                step_modules=step_modules,
                pipelines=pipelines,
                readable=(str(place.inputs), *places, *_folders_of(pipelines)),
                writable=(str(place.outputs),),
                private=private,
                import_from=(str(Path.cwd()),) if pipelines and "" in sys.path else (),
            )
        )

    return DecoderSetup(
        command=DECODER_COMMAND,
        environment=sandbox.clean_environment,
        configure=configure,
        is_strict=mode == "on",
    )


def _folders_of(pipelines: Sequence[WorkerPipeline]) -> list[str]:
    """Where modules may lie that a pipeline imports later."""
    files = [one.reference.rpartition(":")[0] or one.reference for one in pipelines]
    return [str(Path(file).resolve().parent) for file in files if file.endswith(".py")]


def decoder_main() -> None:
    serve(_build_context)


def _build_context(configuration: bytes) -> DecoderContext:
    configured = msgspec.json.decode(configuration, type=DecoderConfiguration)
    sys.path.extend(configured.import_from)
    return DecoderContext(
        # Before the sandbox is entered: these are the operator's own modules.
        steps=load_steps(configured.step_modules, configured.pipelines),
        rules=SandboxRules(
            readable=configured.readable, writable=configured.writable, private=configured.private
        ),
        clock=SystemClock(),
    )
