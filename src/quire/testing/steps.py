"""Steps that do nothing, or misbehave on purpose: they run in real worker processes."""

import ctypes
import os
import signal
import time

from quire.model.errors import Reject, Retry
from quire.model.step import NO_OUTPUT, Made, Step, StepInput, StepOutput


def _noop(_: StepInput) -> StepOutput:
    return NO_OUTPUT


def _copy(step: StepInput) -> StepOutput:
    target = step.folder / "copy"
    target.write_bytes(step.source.read_bytes())
    return StepOutput(made=(Made(role="copy", path=target, content_type=step.file.content_type),))


def _misbehave(step: StepInput) -> StepOutput:
    """Does what the file's name says."""
    name = step.file.name
    if "crash" in name:
        os.kill(os.getpid(), signal.SIGSEGV)
    elif "exit" in name:
        os._exit(7)
    elif "hang" in name:
        # Holds the interpreter's lock too: nothing inside the process can end it.
        ctypes.PyDLL(None).sleep(600)
    elif "memory" in name:
        hoard = [bytearray(32 * 1024 * 1024) for _ in range(1024)]
        return StepOutput(facts={"hoard": len(hoard)})
    elif "reject" in name:
        raise Reject("this file never works", code="never")
    elif "transient" in name:
        raise Retry("the line is busy", code="busy")
    elif "bug" in name:
        raise KeyError(name)
    elif "slow" in name:
        time.sleep(0.2)
    elif "noise" in name:
        os.write(1, b"a library that prints\n")
        print("and another")  # noqa: T201
    elif "once" in name:
        # Fails the first time only: the marker is beside the file that the test offered.
        marker = step.options["markers"] + "/" + name
        if not os.path.exists(marker):  # noqa: PTH110
            with open(marker, "w", encoding="utf-8"):  # noqa: PTH123
                os._exit(9)
    return NO_OUTPUT


STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Step(name="noop", version=1, run=_noop, needs_source=False),
        Step(name="copy", version=1, run=_copy),
        Step(name="misbehave", version=1, run=_misbehave, needs_source=False),
    )
}
