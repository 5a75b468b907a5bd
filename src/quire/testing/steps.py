"""Steps that do nothing, or misbehave on purpose: they run in real worker processes."""

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from quire.model.errors import Reject, Retry
from quire.model.step import NO_OUTPUT, MemoryEstimate, OutputFile, Step, StepInput, StepOutput


def _noop(_: StepInput) -> StepOutput:
    return NO_OUTPUT


def _copy(step: StepInput) -> StepOutput:
    time.sleep(step.options.get("seconds", 0))
    target = step.folder / "copy"
    target.write_bytes(step.source.read_bytes())
    return StepOutput(files=(OutputFile(role="copy", path=target, content_type=step.file.content_type),))


def _crash(_: StepInput) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _exit(_: StepInput) -> None:
    os._exit(7)


def _hang(_: StepInput) -> None:
    # Holds the interpreter's lock, too: nothing inside the process can end it.
    ctypes.PyDLL(None).sleep(600)


def _hoard(_: StepInput) -> None:
    kept = [bytearray(32 * 1024 * 1024) for _ in range(1024)]
    kept.clear()


def _reject(_: StepInput) -> None:
    raise Reject("this file never works", code="never")


def _busy(_: StepInput) -> None:
    raise Retry("the line is busy", code="busy")


def _later(step: StepInput) -> None:
    raise Retry("too many requests", code="later", delay_seconds=step.options["seconds"])


def _bug(step: StepInput) -> None:
    raise KeyError(step.file.name)


def _slow(_: StepInput) -> None:
    time.sleep(0.2)


def _doze(step: StepInput) -> None:
    time.sleep(step.options["seconds"])


def _noise(_: StepInput) -> None:
    os.write(1, b"a library that prints\n")
    print("and another")  # noqa: T201


def _once(step: StepInput) -> None:
    """Kills its worker the first time only."""
    marker = Path(step.options["markers"], step.file.name)
    if not marker.exists():
        marker.touch()
        os._exit(9)


def _stall(step: StepInput) -> None:
    """Shows progress once, from a thread of its own, then never again."""
    told = threading.Thread(target=step.meter.progress, args=(1, 3))
    told.start()
    told.join()
    threading.Event().wait(600)


def _spend(step: StepInput) -> None:
    step.meter.spend(tokens_in=1000, tokens_out=20, money="0.0015")
    step.meter.spend(tokens_in=5, money=0.000001)


def _costly(step: StepInput) -> None:
    _spend(step)
    raise Retry("the model gave no answer", code="no_answer")


def _nonsense(_: StepInput) -> str:
    return "nonsense"


def _gate(step: StepInput) -> None:
    """Waits until a test writes to the named pipe."""
    Path(step.options["gate"]).read_bytes()


HABITS: dict[str, Callable[[StepInput], object]] = {
    "crash": _crash,
    "exit": _exit,
    "hang": _hang,
    "memory": _hoard,
    "reject": _reject,
    "later": _later,
    "transient": _busy,
    "bug": _bug,
    "slow": _slow,
    "doze": _doze,
    "noise": _noise,
    "once": _once,
    "spend": _spend,
    "stall": _stall,
    "costly": _costly,
    "nonsense": _nonsense,
    "gate": _gate,
}


def _misbehave(step: StepInput) -> StepOutput:
    """Misbehaves as the file's name says."""
    for word, habit in HABITS.items():
        if word in step.file.name:
            given = habit(step)
            if given is not None:
                return cast("StepOutput", given)
    return NO_OUTPUT


def _write(step: StepInput, content: bytes = b"product", name: str = "product") -> Path:
    target = step.folder / name
    target.write_bytes(content)
    return target


def _link(step: StepInput) -> Path:
    target = step.folder / "link"
    target.symlink_to(_write(step))
    return target


def _through_link(step: StepInput) -> Path:
    """A file outside the scratch folder, reached by a link inside it."""
    (step.folder / "door").symlink_to(_outside(step).parent)
    return step.folder / "door" / "outside"


def _outside(step: StepInput) -> Path:
    return _write(step, name="../outside")


def _build_file(path: Any, **changes: Any) -> StepOutput:
    return StepOutput(
        files=(OutputFile(**({"role": "r", "path": path, "content_type": "text/plain"} | changes)),)
    )


# Unusable results of a step, by name.
NONSENSE: dict[str, Callable[[StepInput], object]] = {
    "nothing": lambda _: None,
    "list_made": lambda step: StepOutput(files=cast("Any", list(_build_file(_write(step)).files))),
    "not_made": lambda _: StepOutput(files=cast("Any", ("product",))),
    "text_path": lambda step: _build_file(str(_write(step))),
    "outside": lambda step: _build_file(_outside(step)),
    "dots": lambda step: _build_file(step.folder / ".." / _outside(step).name),
    "own_input": lambda step: _build_file(step.source),
    "missing": lambda step: _build_file(step.folder / "missing"),
    "zero_name": lambda step: _build_file(step.folder / "a\0b" / "c"),
    "link": lambda step: _build_file(_link(step)),
    "through_link": lambda step: _build_file(_through_link(step)),
    "circle": lambda step: _build_file(_circle(step) / "x"),
    "folder": lambda step: _build_file(step.folder),
    "twice": lambda step: StepOutput(files=_build_file(_write(step)).files * 2),
    "odd_role": lambda step: _build_file(_write(step), role=7),
    "odd_type": lambda step: _build_file(_write(step), content_type="\ud800"),
    "made_facts": lambda step: _build_file(_write(step), facts={"a": object()}),
    "facts": lambda _: StepOutput(facts={"a": object()}),
    "facts_number": lambda _: StepOutput(facts={"a": 2**70}),
    "facts_key": lambda _: StepOutput(facts=cast("Any", {1: 2})),
    "facts_inner_key": lambda _: StepOutput(facts={"a": {(1, 2): 3}}),
    "facts_text": lambda _: StepOutput(facts={"a": "\ud800"}),
    "facts_list": lambda _: StepOutput(facts=cast("Any", [1])),
    "facts_circle": lambda _: StepOutput(facts=_circular()),
}


def _circle(step: StepInput) -> Path:
    link = step.folder / "circle"
    link.symlink_to(link)
    return link


def _circular() -> dict[str, Any]:
    facts: dict[str, Any] = {}
    facts["itself"] = facts
    return facts


def _talk_nonsense(step: StepInput) -> StepOutput:
    """Returns the unusable result that the options name."""
    return cast("StepOutput", NONSENSE[step.options["kind"]](step))


def _empty(step: StepInput) -> StepOutput:
    return _build_file(_write(step, b""))


def _list_members(step: StepInput) -> StepOutput:
    """One product with the paths of the members, then of what came earlier, a line each."""
    paths = [member.path for member in step.members] + [one.path for one in step.earlier]
    target = _write(step, "".join(f"{path}\n" for path in paths).encode(), "members.txt")
    return StepOutput(files=(OutputFile(role="members", path=target, content_type="text/plain"),))


def _join_members(step: StepInput) -> StepOutput:
    """One product with the bytes of all members, each fetched twice."""
    fetched = [(step.fetch(member), step.fetch(member)) for member in step.members]
    joined = b"".join(first.read_bytes() for first, _ in fetched)
    facts = {
        "same": all(first == second for first, second in fetched),
        "names": [first.name for first, _ in fetched],
    }
    target = _write(step, joined, "joined")
    return StepOutput(
        files=(OutputFile(role="joined", path=target, content_type="application/octet-stream"),), facts=facts
    )


def _weigh(step: StepInput) -> MemoryEstimate:
    """The weight is the size in the file's record; `least`, too, when its name says so."""
    return MemoryEstimate(step.file.size, step.file.size if "certain" in step.file.name else 0)


STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Step(name="noop", version=1, run=_noop, needs_source=False),
        Step(name="copy", version=1, run=_copy),
        Step(name="misbehave", version=1, run=_misbehave, needs_source=False),
        Step(name="weighty", version=1, run=_misbehave, needs_source=False, estimate_memory=_weigh),
        Step(name="nonsense", version=1, run=_talk_nonsense),
        Step(name="empty", version=1, run=_empty),
        Step(name="list_members", version=1, run=_list_members),
        Step(name="join_members", version=1, run=_join_members),
    )
}
