"""A worker process to write to, read from and kill: on this machine, or behind a relay of its bytes.

Must not know: what the bytes mean.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from quire.model.errors import Misconfigured
from quire.tools.child_process import ChildProcess, describe_exit


class WorkerProcess(Protocol):
    @property
    def name(self) -> str:
        """What reports call the worker."""
        ...

    def write(self, data: bytes) -> None:
        """In order, without waiting. What a process that has ended was to be given is lost."""
        ...

    async def read(self) -> bytes:
        """The next bytes of the process; none when it is gone. All it wrote before its end is read first."""
        ...

    def kill(self) -> None:
        """Kill it now, whatever it does. May be repeated, also after its end."""
        ...

    async def wait(self) -> str:
        """Wait for the end of the process; how it ended, in words."""
        ...

    def read_stderr(self) -> str:
        """The end of what it wrote to its standard error; complete after `wait`."""
        ...

    @property
    def is_lost(self) -> bool:
        """Is it out of reach with its machine, through no fault of what it was doing? Known after `wait`."""
        ...


class LocalProcess:
    """A worker process on this machine. It limits its own memory and dies with its parent by itself."""

    def __init__(self, child: ChildProcess) -> None:
        self._child = child

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        folder: Path | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> "LocalProcess":
        """Raises Misconfigured when the system refuses to start a process."""
        try:
            return cls(
                await ChildProcess.start(
                    command, environment, folder=folder, stdin=True, stdout=True, on_stderr=on_stderr
                )
            )
        except OSError as error:
            raise Misconfigured(
                f"a worker process cannot be started: {error.strerror}; raise the limits of processes, open "
                "files or memory, or set fewer workers"
            ) from error

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def name(self) -> str:
        return f"local-{self.pid}"

    def write(self, data: bytes) -> None:
        self._child.write(data)

    async def read(self) -> bytes:
        return await self._child.read()

    def kill(self) -> None:
        self._child.kill()

    async def wait(self) -> str:
        code = await self._child.wait()
        self._child.close()
        return describe_exit(code)

    def read_stderr(self) -> str:
        return self._child.read_stderr()

    @property
    def is_lost(self) -> bool:
        return False
