"""Steps that try what no decoder needs, as native code that a file has taken over would: in a sandbox, and,
to see that the tries are real, without one.
"""

import ctypes
import errno
import os
import platform
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quire.model.step import MemoryEstimate, OutputFile, Step, StepInput, StepOutput

_LIBC = ctypes.CDLL(None, use_errno=True)


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)
    os.wait()


def _native(call: Callable[..., int], *arguments: object) -> None:
    """A call without Python's own checks."""
    if call(*arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _fork_natively() -> None:
    number = 56 if platform.machine() == "x86_64" else 220  # clone, of a process
    answer = _LIBC.syscall(ctypes.c_long(number), int(signal.SIGCHLD), 0, 0, 0, 0)
    if answer == 0:
        os._exit(0)
    if answer < 0:
        raise OSError(ctypes.get_errno(), "clone")


def _run_in_thread(attempt: Callable[[], object]) -> None:
    caught: list[BaseException] = []

    def run() -> None:
        try:
            attempt()
        except BaseException as error:  # noqa: BLE001 - raised again below
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if caught:
        raise caught[0]


def _write(path: Path) -> None:
    path.write_bytes(b"from the sandbox")


def list_tries(step: StepInput) -> dict[str, Callable[[], object]]:
    """By name. `victim` is a process of the test's, `outside` a folder, `secret` a file, `address` where a
    server of the test's listens, `door` its Unix socket.
    """
    given = step.options
    outside, secret, victim = Path(given["outside"]), Path(given["secret"]), given["victim"]
    return {
        "inet": lambda: socket.create_connection(tuple(given["address"])).close(),
        "inet6": lambda: socket.socket(socket.AF_INET6).close(),
        "unix": lambda: socket.socket(socket.AF_UNIX).connect(given["door"]),
        "pair": lambda: socket.socketpair(type=socket.SOCK_DGRAM),
        "native socket": lambda: _native(_LIBC.socket, 2, 1, 0),
        "thread": lambda: _run_in_thread(lambda: socket.socket().close()),
        "spawn": lambda: subprocess.run(["true"], check=True),
        "fork": _fork,
        "native fork": _fork_natively,
        "write": lambda: _write(outside / "new"),
        "overwrite": lambda: _write(secret),
        "empty": lambda: os.close(os.open(secret, os.O_RDONLY | os.O_TRUNC)),
        "truncate": lambda: os.truncate(secret, 0),
        "delete": secret.unlink,
        "rename": lambda: secret.rename(outside / "renamed"),
        "folder": (outside / "folder").mkdir,
        "mode": lambda: secret.chmod(0o666),
        "time": lambda: os.utime(secret, (1, 1)),
        "owner": lambda: os.chown(secret, os.getuid(), os.getgid()),
        "input": lambda: _write(step.source),
        "mode of input": lambda: step.source.chmod(0o666),
        "link to input": lambda: os.link(step.source, step.folder / "linked"),
        "symlink": lambda: (step.folder / "symlink").symlink_to(secret),
        "pipe": lambda: os.mkfifo(step.folder / "pipe"),
        "read": secret.read_bytes,
        "list": lambda: list(outside.iterdir()),
        "read other": lambda: Path(f"/proc/{victim}/environ").read_bytes(),
        "kill": lambda: os.kill(victim, signal.SIGKILL),
        "kill parent": lambda: os.kill(os.getppid(), signal.SIGKILL),
        "kill group": lambda: os.kill(0, signal.SIGKILL),
        "trace": lambda: _native(_LIBC.ptrace, 16, victim, 0, 0),
        "leave group": lambda: os.setpgid(0, 0),
    }


def _try_one(step: StepInput) -> StepOutput:
    list_tries(step)[step.options["what"]]()
    return StepOutput(value="it worked")


def _try_all(step: StepInput) -> StepOutput:
    """What came of each try, by name."""
    came: dict[str, str] = {}
    for name, attempt in list_tries(step).items():
        try:
            attempt()
        except OSError as error:
            came[name] = errno.errorcode.get(error.errno or 0, "OSError")
        else:
            came[name] = "it worked"
    return StepOutput(value=came)


def _see(_: StepInput) -> StepOutput:
    """What is left of the process: its environment, its open files, and what the home folder would show."""
    descriptors = {}
    for one in Path("/proc/self/fd").iterdir():
        try:
            descriptors[one.name] = str(one.readlink())
        except OSError:
            continue
    return StepOutput(value={"environment": dict(os.environ), "descriptors": descriptors, "pid": os.getpid()})


def _copy(step: StepInput) -> StepOutput:
    target = step.folder / "copy"
    target.write_bytes(step.source.read_bytes())
    step.meter.spend(tokens_in=3, money="0.001")
    step.meter.progress(1, 2)
    output = OutputFile(role="copy", path=target, content_type="text/plain", facts={"pid": os.getpid()})
    return StepOutput(files=(output,), facts={"name": step.source.name})


def _join(step: StepInput) -> StepOutput:
    """All members, and the large values that earlier steps gave for them."""
    joined = b"".join(step.fetch(member).read_bytes() for member in step.members)
    values = [step.resolve(value) for member in step.members for value in member.values.values()]
    return StepOutput(value={"joined": joined.decode(), "values": values})


def _misbehave(step: StepInput) -> StepOutput:
    from quire.testing.steps import STEPS as KNOWN

    return KNOWN["misbehave"].run(step)


def _weigh(step: StepInput) -> MemoryEstimate:
    return MemoryEstimate(step.file.size)


def _lie(step: StepInput) -> StepOutput:
    """Returns a file of somebody else's as its own."""
    return StepOutput(
        files=(OutputFile(role="r", path=Path(step.options["secret"]), content_type="text/plain"),)
    )


def _nothing_more(_options: Any) -> tuple[str, ...]:
    return ()


def _some_more(options: Any) -> tuple[str, ...] | None:
    return None if options.get("programs") else tuple(options.get("places", ()))


def _read_places(step: StepInput) -> StepOutput:
    return StepOutput(value=[Path(place).read_text("utf-8") for place in step.options["files"]])


STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Step(name="try", version=1, run=_try_one, sandbox=_nothing_more),
        Step(name="try_all", version=1, run=_try_all, sandbox=_nothing_more),
        Step(name="try_free", version=1, run=_try_one),
        Step(name="see", version=1, run=_see, sandbox=_nothing_more),
        Step(name="copy", version=1, run=_copy, sandbox=_nothing_more),
        Step(name="join", version=1, run=_join, sandbox=_nothing_more),
        Step(name="lie", version=1, run=_lie, sandbox=_nothing_more),
        Step(name="read_places", version=1, run=_read_places, sandbox=_some_more),
        Step(name="misbehave", version=1, run=_misbehave, needs_source=False, sandbox=_nothing_more),
        Step(
            name="weighty",
            version=1,
            run=_misbehave,
            needs_source=False,
            estimate_memory=_weigh,
            sandbox=_nothing_more,
        ),
    )
}
