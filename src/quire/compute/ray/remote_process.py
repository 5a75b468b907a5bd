"""A place for a worker process on another machine, and the process as it is seen from here.

`RemoteSlot` runs there, as an actor of a cluster; `FarChild` runs here and speaks to it. What the worker says and
is told goes through the two as bytes. Must not know: what they mean, nor which cluster it is.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from quire.compute.pool.child import Child
from quire.model.errors import QuireError

Ending = tuple[str, str]  # how, and its last words


class Outfit(Protocol):
    """How a worker is started on the machine of a berth; made there."""

    @property
    def name(self) -> str: ...
    @property
    def command(self) -> Sequence[str]: ...
    @property
    def environment(self) -> Mapping[str, str]: ...
    def close(self) -> None: ...


class RemoteSlot:
    """One worker process after the other lives in it. Whatever is asked names the process that is meant: what
    was said to one that has ended must not reach the next.
    """

    def __init__(self, fit_out: Callable[[], Outfit]) -> None:
        self._fit_out = fit_out
        self._outfit: Outfit | None = None
        self._child: Child | None = None

    async def start(self) -> tuple[int, str]:
        """Number and name of a new process; or 0, and why there is none."""
        try:
            outfit = self._outfit = self._outfit or self._fit_out()
            child = self._child = await Child.start(outfit.command, outfit.environment)
        except QuireError as error:
            return 0, str(error)
        return child.pid, f"{outfit.name}-{child.pid}"

    async def write(self, pid: int, data: bytes) -> None:
        if (child := self._known(pid)) is not None:
            child.write(data)

    async def read(self, pid: int) -> bytes:
        child = self._known(pid)
        return b"" if child is None else await child.read()

    async def kill(self, pid: int) -> None:
        if (child := self._known(pid)) is not None:
            child.kill()

    async def ending(self, pid: int) -> Ending:
        child = self._known(pid)
        return ("an unknown end", "") if child is None else (await child.ending(), child.last_words())

    async def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            await self._child.ending()
        if self._outfit is not None:
            self._outfit.close()

    def _known(self, pid: int) -> Child | None:
        return self._child if self._child is not None and self._child.pid == pid else None


class FarChild:
    """`berth` is the handle of the actor; calls of it raise one of `lost` when it or its machine is gone.
    `back` is told when the process has ended, and whether its berth can take another one.
    """

    def __init__(
        self,
        berth: Any,
        pid: int,
        name: str,
        *,
        lost: type[Exception],
        back: Callable[[Any, bool], None],
    ) -> None:
        self._berth = berth
        self._pid = pid
        self._name = name
        self._lost = lost
        self._back = back
        self._outgoing = bytearray()
        self._writing: asyncio.Task[None] | None = None
        self._gone = ""  # why the berth cannot be reached any more
        self._last_words = ""

    @property
    def name(self) -> str:
        return self._name

    def write(self, data: bytes) -> None:
        self._outgoing += data
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_on())

    async def read(self) -> bytes:
        try:
            data: bytes = await self._berth.read.remote(self._pid)
        except self._lost as error:
            self._gone = in_short(error)
            return b""
        return data

    def kill(self) -> None:
        if not self._gone:
            self._berth.kill.remote(self._pid)

    async def ending(self) -> str:
        how = ""
        if not self._gone:
            try:
                how, self._last_words = await self._berth.ending.remote(self._pid)
            except self._lost as error:
                self._gone = in_short(error)
        self._back(self._berth, not self._gone)
        return how or f"its machine or its actor is gone: {self._gone}"

    def last_words(self) -> str:
        return self._last_words

    async def _write_on(self) -> None:
        """One call at a time: several may overtake each other on their way."""
        while self._outgoing and not self._gone:
            data, self._outgoing = bytes(self._outgoing), bytearray()
            try:
                await self._berth.write.remote(self._pid, data)
            except self._lost as error:
                self._gone = in_short(error)


def in_short(error: Exception) -> str:
    """Errors of a cluster fill a page; what happened is in the first line, why is in the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"
