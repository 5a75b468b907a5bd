"""A worker process as a thing to write to, read from and kill; on this machine, or behind something that
passes bytes on.

Must not know: what the bytes mean.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Protocol

from quire.model.errors import Misconfigured

READ_BYTES = 1 << 18
LAST_WORDS_BYTES = 4096


class Process(Protocol):
    @property
    def name(self) -> str:
        """What reports call the worker."""
        ...

    def write(self, data: bytes) -> None:
        """In order, without waiting. What a process that has ended was to be given is lost."""
        ...

    async def read(self) -> bytes:
        """What it has said next; nothing when it is gone. All it said before its end is read first."""
        ...

    def kill(self) -> None:
        """Now, whatever it is at. May be repeated, also after its end."""
        ...

    async def ending(self) -> str:
        """How it ended, in words; waits for it."""
        ...

    def last_words(self) -> str:
        """The end of what it wrote to its standard error; whole after `ending`."""
        ...


class Child:
    """A child of this process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._last_words = b""
        self._stderr = asyncio.create_task(self._listen_to_stderr())

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str]) -> "Child":
        """Raises Misconfigured when the system does not let us."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(environment),
            )
        except OSError as error:
            raise Misconfigured(
                f"a worker process cannot be started: {error.strerror}; raise the limits of processes, open "
                "files or memory, or set fewer workers"
            ) from error
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def name(self) -> str:
        return f"local-{self.pid}"

    def write(self, data: bytes) -> None:
        # A dead process is noticed where we read; what could not be written was never started.
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(data)

    async def read(self) -> bytes:
        stdout = self._process.stdout
        return await stdout.read(READ_BYTES) if stdout else b""

    def kill(self) -> None:
        # Not Process.kill: that looks whether the process has ended and may take its exit code away from the
        # thread that waits for it.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    async def ending(self) -> str:
        code = await self._process.wait()
        await self._stderr
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def last_words(self) -> str:
        return self._last_words.decode(errors="replace").strip()

    async def _listen_to_stderr(self) -> None:
        stderr = self._process.stderr
        while stderr is not None and (said := await stderr.read(LAST_WORDS_BYTES)):
            self._last_words = (self._last_words + said)[-LAST_WORDS_BYTES:]
