"""Worker processes on other machines, behind an actor.

`RemoteSlot` runs there, as an actor of a cluster; `ActorProcess` runs here and speaks to it. Frames to
and from the worker pass through both as bytes. Must not know: what the bytes mean, nor any cluster.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from quire.compute.pool.child import LocalProcess
from quire.model.errors import QuireError

Ending = tuple[str, str]  # how it ended, and the end of its standard error


class WorkerSetup(Protocol):
    """How a worker is started on the machine of a slot; created there."""

    @property
    def name(self) -> str: ...
    @property
    def command(self) -> Sequence[str]: ...
    @property
    def environment(self) -> Mapping[str, str]: ...
    def close(self) -> None: ...


class RemoteSlot:
    """Runs one worker process after the other. Every call names its process: a call for one that has
    ended must not reach the next.
    """

    def __init__(self, set_up: Callable[[], WorkerSetup]) -> None:
        self._set_up = set_up
        self._setup: WorkerSetup | None = None
        self._child: LocalProcess | None = None

    async def start(self) -> tuple[int, str]:
        """Start a process: its number and name; or 0, and why it cannot be started."""
        try:
            setup = self._setup = self._setup or self._set_up()
            child = self._child = await LocalProcess.start(setup.command, setup.environment)
        except QuireError as error:
            return 0, str(error)
        return child.pid, f"{setup.name}-{child.pid}"

    async def write(self, pid: int, data: bytes) -> None:
        if (child := self._find(pid)) is not None:
            child.write(data)

    async def read(self, pid: int) -> bytes:
        child = self._find(pid)
        return b"" if child is None else await child.read()

    async def kill(self, pid: int) -> None:
        if (child := self._find(pid)) is not None:
            child.kill()

    async def wait(self, pid: int) -> Ending:
        child = self._find(pid)
        return ("an unknown end", "") if child is None else (await child.wait(), child.read_stderr())

    async def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            await self._child.wait()
        if self._setup is not None:
            self._setup.close()

    def _find(self, pid: int) -> LocalProcess | None:
        return self._child if self._child is not None and self._child.pid == pid else None


class ActorProcess:
    """`slot` is the handle of the actor; calls of it raise `lost` when it or its machine is gone, or cannot
    be reached for a moment. After one such call the process counts as ended: the bytes of that call may be
    lost, and a worker that lacks them would wait for ever. `on_end` is called when the process has ended,
    with the slot and whether the slot can run another one.
    """

    def __init__(
        self, slot: Any, pid: int, name: str, *, lost: type[Exception], on_end: Callable[[Any, bool], None]
    ) -> None:
        self._slot = slot
        self._pid = pid
        self._name = name
        self._lost = lost
        self._on_end = on_end
        self._outgoing = bytearray()
        self._writing: asyncio.Task[None] | None = None
        self._killing: set[asyncio.Task[Any]] = set()
        # Why the slot cannot be reached any more.
        self._gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._stderr = ""

    @property
    def name(self) -> str:
        return self._name

    def write(self, data: bytes) -> None:
        self._outgoing += data
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all())

    async def read(self) -> bytes:
        data: bytes | None = await self._call(self._slot.read.remote(self._pid))
        return data or b""

    def kill(self) -> None:
        if not self._gone.done():
            killing = asyncio.create_task(self._call(self._slot.kill.remote(self._pid)))
            self._killing.add(killing)
            killing.add_done_callback(self._killing.discard)

    async def wait(self) -> str:
        how = ""
        if not self._gone.done():
            ending: Ending | None = await self._call(self._slot.wait.remote(self._pid))
            how, self._stderr = ending or ("", "")
        self._on_end(self._slot, not self._gone.done())
        return how or f"its machine or its actor is gone: {self._gone.result()}"

    def read_stderr(self) -> str:
        return self._stderr

    @property
    def is_lost(self) -> bool:
        return self._gone.done()

    async def _write_all(self) -> None:
        """One call at a time: several could overtake each other."""
        while self._outgoing and not self._gone.done():
            data, self._outgoing = bytes(self._outgoing), bytearray()
            await self._call(self._slot.write.remote(self._pid, data))

    async def _call(self, call: Any) -> Any:
        """The result of a call of the slot; None when the slot cannot be reached, by this call or another."""
        result = asyncio.ensure_future(call)
        try:
            await asyncio.wait({result, self._gone}, return_when=asyncio.FIRST_COMPLETED)
            return result.result() if result.done() else None
        except self._lost as error:
            if not self._gone.done():
                self._gone.set_result(summarize_error(error))
            return None
        finally:
            result.cancel()


def summarize_error(error: Exception) -> str:
    """Errors of a cluster fill a page; the first line says what happened, the last line why."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"
