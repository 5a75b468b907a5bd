"""The steps of `quire.testing.steps` as coroutines, and some that misbehave as only coroutines can."""

import asyncio
import ctypes
import os
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from quire.model.step import NO_OUTPUT, OutputFile, Step, StepInput, StepOutput
from quire.testing.steps import HABITS

_guests: list[str] = []
_all_there = asyncio.Event()


async def _noop(_: StepInput) -> StepOutput:
    return NO_OUTPUT


async def _copy(step: StepInput) -> StepOutput:
    target = step.folder / "copy"
    target.write_bytes(await asyncio.to_thread(step.source.read_bytes))
    return StepOutput(files=(OutputFile(role="copy", path=target, content_type=step.file.content_type),))


async def _block(_: StepInput) -> None:
    time.sleep(600)  # noqa: ASYNC251 holds up the loop


async def _block_inside(_: StepInput) -> None:
    async def child() -> None:
        _sleep_long()

    await asyncio.gather(child(), asyncio.sleep(600))


def _sleep_long() -> None:
    time.sleep(600)


async def _block_a_while(step: StepInput) -> None:
    time.sleep(step.options["seconds"])  # noqa: ASYNC251 see above


async def _freeze(_: StepInput) -> None:
    # Holds the interpreter's lock, too: nothing inside the process can see it.
    ctypes.PyDLL(None).sleep(600)


async def _ignore_cancellation(_: StepInput) -> None:
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue


async def _return_when_cancelled(_: StepInput) -> StepOutput:
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        return StepOutput(value="half")
    return NO_OUTPUT


async def _fail_when_cancelled(_: StepInput) -> None:
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError as error:
        raise KeyError("instead") from error


async def _meet(step: StepInput) -> None:
    """Waits until as many as are invited are there."""
    _guests.append(step.file.path)
    if len(_guests) == step.options["guests"]:
        _all_there.set()
    await _all_there.wait()


async def _tell_pid(step: StepInput) -> None:
    Path(step.options["pids"], str(os.getpid())).touch()  # noqa: ASYNC240 takes no time


async def _hang(_: StepInput) -> None:
    await asyncio.sleep(600)


async def _slow(_: StepInput) -> None:
    await asyncio.sleep(0.2)


async def _doze(step: StepInput) -> None:
    await asyncio.sleep(step.options["seconds"])


async def _stall(step: StepInput) -> None:
    """Shows progress once, from a thread of its own, then never again."""
    told = threading.Thread(target=step.meter.progress, args=(1, 3))
    told.start()
    await asyncio.to_thread(told.join)
    await asyncio.sleep(600)


async def _gate(step: StepInput) -> None:
    """Waits until a test writes to the named pipe."""
    await asyncio.to_thread(Path(step.options["gate"]).read_bytes)


async def _exit_inside(_: StepInput) -> None:
    async def child() -> None:
        raise SystemExit(5)

    await asyncio.gather(child(), asyncio.sleep(600))


ASYNC_HABITS: dict[str, Callable[[StepInput], Awaitable[object]]] = {
    "hang": _block,
    "wait": _hang,
    "nested": _block_inside,
    "block": _block_a_while,
    "freeze": _freeze,
    "stubborn": _ignore_cancellation,
    "half": _return_when_cancelled,
    "wrong": _fail_when_cancelled,
    "meet": _meet,
    "tell": _tell_pid,
    "gate": _gate,
    "slow": _slow,
    "doze": _doze,
    "stall": _stall,
    "leave": _exit_inside,
}


async def _misbehave(step: StepInput) -> StepOutput:
    """Misbehaves as the file's name says."""
    given: Any = None
    for word, habit in HABITS.items():
        if word in step.file.name and word not in ASYNC_HABITS:
            given = habit(step) or given
    for word, other in ASYNC_HABITS.items():
        if word in step.file.name:
            given = await other(step) or given
    return NO_OUTPUT if given is None else cast("StepOutput", given)


def _refuse(_: StepInput) -> StepOutput:
    raise AssertionError("a coroutine is not called like this")


STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Step(name="noop_async", version=1, run=_refuse, run_async=_noop, needs_source=False),
        Step(name="copy_async", version=1, run=_refuse, run_async=_copy),
        Step(name="misbehave_async", version=1, run=_refuse, run_async=_misbehave, needs_source=False),
    )
}
