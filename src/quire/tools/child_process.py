"""Child processes with limits: the one way to start, time out and kill an outside program.

Promises: a child leads a process group of its own, and killing ends the whole group; with a memory limit it
also dies when this process does; only the end of its standard error is kept. A program that left the group
and still holds a pipe delays nobody for long. Must not know: what the command does.
"""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple, Self

from msgspec import Struct

STDERR_BYTES = 4096
READ_BYTES = 1 << 18
PIPE_SECONDS = 10.0  # after the end of a child, for whatever still holds its standard error open

_PR_SET_PDEATHSIG = 1
# Runs in the child before the command, because nothing may be called between fork and exec of a process with
# threads.
_LIMIT_AND_EXEC = (
    "import ctypes,os,resource,signal,sys\n"
    "if sys.platform=='linux': ctypes.CDLL(None).prctl(1,signal.SIGKILL,0,0,0)\n"
    "os.getppid()==int(sys.argv[1]) or os._exit(1)\n"
    "limit=int(sys.argv[2])<<20\n"
    "resource.setrlimit(resource.RLIMIT_DATA,(limit,resource.getrlimit(resource.RLIMIT_DATA)[1]))\n"
    "os.execvp(sys.argv[3],sys.argv[3:])\n"
)


# The groups that were started here and have not ended: for a process that ends in the middle of its work.
_running: set[int] = set()


def watch_group(group: int) -> None:
    """Have `kill_all` kill this group, too, which was started elsewhere."""
    _running.add(group)


def forget_group(group: int) -> None:
    _running.discard(group)


def kill_all() -> None:
    """Kill all groups that were started here. Never waits; from any thread."""
    for group in tuple(_running):
        kill_group(group)


def die_with_parent() -> None:
    """Have the system kill this process when its parent dies, even while native code runs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def kill_group(group: int) -> None:
    """Kill every process of the group. May be repeated."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def describe_exit(code: int) -> str:
    """An exit code in words; a negative one is the number of a signal."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


class ChildProcess:
    """A running child of this process and the leader of its own process group."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        stdout: "_Pipe | None",
        stderr: "_Pipe",
        on_stderr: Callable[[bytes], None] | None,
    ) -> None:
        self._process = process
        self._stdout = stdout
        self._stderr = stderr
        self._on_stderr = on_stderr
        self._stderr_tail = b""
        self._listening = asyncio.create_task(self._listen())
        self._ending: asyncio.Task[int] | None = None

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        folder: Path | None = None,
        memory_mb: int | None = None,
        stdin: bool = False,
        stdout: bool = False,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> Self:
        """`environment` is all that the child gets. With `memory_mb` it dies with this process and takes no
        more memory than that. `stdin` and `stdout` open pipes for `write` and `read`; `on_stderr` is called
        with each piece of the standard error. Raises OSError.
        """
        # Not asyncio's pipes: its `wait` may take as long as any descendant holds one of those open.
        out, out_end = os.pipe() if stdout else (None, asyncio.subprocess.DEVNULL)
        err, err_end = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(command if memory_mb is None else _limit(command, memory_mb)),
                cwd=folder,
                env=dict(environment),
                stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
                stdout=out_end,
                stderr=err_end,
                start_new_session=True,
            )
        except BaseException:
            for descriptor in (out, err):
                if descriptor is not None:
                    os.close(descriptor)
            raise
        finally:
            if stdout:
                os.close(out_end)
            os.close(err_end)
        _running.add(process.pid)
        return cls(process, None if out is None else await _open_pipe(out), await _open_pipe(err), on_stderr)

    @property
    def pid(self) -> int:
        """The number of the process and of its group."""
        return self._process.pid

    def write(self, data: bytes) -> None:
        """In order, without waiting. What a process that has ended was to be given is lost."""
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(data)

    async def read(self) -> bytes:
        """The next bytes of the standard output; none at its end."""
        return b"" if self._stdout is None else await self._stdout.reader.read(READ_BYTES)

    def kill(self) -> None:
        """Kill the whole group. May be repeated, also after its end."""
        # Not Process.kill: that looks whether the process has ended and may take its exit code away from the
        # thread that waits for it.
        if self._process.returncode is None:
            kill_group(self.pid)

    async def wait(self) -> int:
        """The exit code. What the child left running in its group is killed. May be repeated."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._finish())
        return await asyncio.shield(self._ending)

    def read_stderr(self) -> str:
        """The end of what the child wrote to its standard error; complete after `wait`."""
        return self._stderr_tail.decode(errors="replace").strip()

    def close(self) -> None:
        """Drop what was not read of the standard output. Call it after `wait`."""
        if self._stdout is not None:
            self._stdout.transport.close()

    async def _finish(self) -> int:
        code = await self._process.wait()
        kill_group(self.pid)
        _running.discard(self.pid)
        await asyncio.wait({self._listening}, timeout=PIPE_SECONDS)
        self._listening.cancel()
        self._stderr.transport.close()
        return code

    async def _listen(self) -> None:
        while piece := await self._stderr.reader.read(1 << 16):
            self._stderr_tail = (self._stderr_tail + piece)[-STDERR_BYTES:]
            if self._on_stderr is not None:
                self._on_stderr(piece)


class FinishedChild(Struct, frozen=True):
    code: int
    stderr: str


class ProgramMissing(Exception):
    """The program of a command is not installed."""


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    folder: Path,
    stdin: bytes,
    stdout: IO[bytes],
    timeout_seconds: float,
    stderr_bytes: int = STDERR_BYTES,
) -> FinishedChild:
    """Run a command to its end in a process group of its own. Raises ProgramMissing, another OSError when it
    cannot be started, and TimeoutError; whatever is raised, the whole group is killed first.
    """
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise ProgramMissing(command[0]) from error
    _running.add(process.pid)
    with process:
        try:
            _, stderr = process.communicate(stdin, timeout=timeout_seconds)
        except BaseException as error:
            kill_group(process.pid)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeoutError(str(error)) from error
            raise
        finally:
            _running.discard(process.pid)
    return FinishedChild(process.returncode, stderr[-stderr_bytes:].decode("utf-8", "replace").strip())


def _limit(command: Sequence[str], memory_mb: int) -> tuple[str, ...]:
    return (sys.executable, "-c", _LIMIT_AND_EXEC, str(os.getpid()), str(memory_mb), *command)


class _Pipe(NamedTuple):
    reader: asyncio.StreamReader
    transport: asyncio.ReadTransport


async def _open_pipe(descriptor: int) -> _Pipe:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    return _Pipe(reader, transport)
