"""Steps that do nothing, or misbehave on purpose: they run in real worker processes."""

import ctypes
import os
import signal
import time
from pathlib import Path

from quire.model.errors import Reject, Retry
from quire.model.step import NO_OUTPUT, Made, Step, StepInput, StepOutput


def _noop(_: StepInput) -> StepOutput:
    return NO_OUTPUT


def _copy(step: StepInput) -> StepOutput:
    target = step.folder / "copy"
    target.write_bytes(step.source.read_bytes())
    return StepOutput(made=(Made(role="copy", path=target, content_type=step.file.content_type),))


def _crash(_: StepInput) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _exit(_: StepInput) -> None:
    os._exit(7)


def _hang(_: StepInput) -> None:
    # Holds the interpreter's lock too: nothing inside the process can end it.
    ctypes.PyDLL(None).sleep(600)


def _hoard(_: StepInput) -> None:
    kept = [bytearray(32 * 1024 * 1024) for _ in range(1024)]
    kept.clear()


def _reject(_: StepInput) -> None:
    raise Reject("this file never works", code="never")


def _busy(_: StepInput) -> None:
    raise Retry("the line is busy", code="busy")


def _bug(step: StepInput) -> None:
    raise KeyError(step.file.name)


def _slow(_: StepInput) -> None:
    time.sleep(0.2)


def _noise(_: StepInput) -> None:
    os.write(1, b"a library that prints\n")
    print("and another")  # noqa: T201


def _once(step: StepInput) -> None:
    """Takes its worker down the first time only."""
    marker = Path(step.options["markers"], step.file.name)
    if not marker.exists():
        marker.touch()
        os._exit(9)


HABITS = {
    "crash": _crash,
    "exit": _exit,
    "hang": _hang,
    "memory": _hoard,
    "reject": _reject,
    "transient": _busy,
    "bug": _bug,
    "slow": _slow,
    "noise": _noise,
    "once": _once,
}


def _misbehave(step: StepInput) -> StepOutput:
    """Does what the file's name says."""
    for word, habit in HABITS.items():
        if word in step.file.name:
            habit(step)
    return NO_OUTPUT


STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Step(name="noop", version=1, run=_noop, needs_source=False),
        Step(name="copy", version=1, run=_copy),
        Step(name="misbehave", version=1, run=_misbehave, needs_source=False),
    )
}
