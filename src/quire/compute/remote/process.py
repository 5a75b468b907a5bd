"""A launcher that starts a child process for each order, with exactly the worker's environment.

Promises: the process has a group, a temporary folder and a memory limit of its own; it is ended as a group,
its folder goes with it, and it does not outlive this process. Must not know: what the command does.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from quire.compute.pool.child import LAST_WORDS_BYTES
from quire.compute.pool.child_limits import shimmed
from quire.compute.pool.worker_handle import Name, name_of
from quire.compute.redaction import discreet
from quire.model.errors import Retry
from quire.model.work import Order, StepCall

KILL_SECONDS = 10.0
LAST_WORDS = ".stderr"
MOST_ENDINGS = 1000  # that are remembered, for whoever asks how one ended


class ProcessLauncher:
    """`environment` is what every process gets beside the worker's own: where programs and libraries are."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], scratch: Path) -> None:
        self._command = command
        self._environment = environment
        self._scratch = scratch
        self._names: dict[str, Name] = {}  # of those that run
        self._endings: dict[str, str] = {}
        self._minders: dict[str, asyncio.Task[None]] = {}

    async def launch(self, order: Order, call: StepCall, environment: Mapping[str, str]) -> str:
        try:
            folder = Path(mkdtemp(prefix="task-", dir=self._scratch))
        except OSError as error:  # a full disk is not the file's fault
            raise Retry(f"a process has no folder to work in: {error.strerror}") from error
        try:
            # A file and no pipe: one that it started and left behind would hold a pipe open.
            with (folder / LAST_WORDS).open("wb") as last_words:
                process = await asyncio.create_subprocess_exec(
                    *shimmed(self._command, call.memory_mb),
                    cwd=folder,
                    env={**self._environment, **environment, "TMPDIR": str(folder)},
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=last_words,
                    start_new_session=True,
                )
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise Retry(f"a process cannot be started: {error.strerror}") from error
        handle = str(process.pid)
        self._endings.pop(handle, None)  # numbers come again
        self._names[handle] = name_of(order)
        minder = self._mind(handle, process, folder, environment)
        self._minders[handle] = asyncio.create_task(minder)
        return handle

    async def ended(self, handles: Collection[str]) -> dict[str, str]:
        return {handle: self._endings.get(handle, "gone") for handle in handles if handle not in self._names}

    async def end(self, handle: str) -> None:
        if handle in self._names:
            _kill(int(handle))
            with suppress(TimeoutError):
                async with asyncio.timeout(KILL_SECONDS):
                    await asyncio.shield(self._minders[handle])

    async def listed(self) -> dict[str, Name]:
        return dict(self._names)

    async def close(self) -> None:
        for handle in list(self._names):
            await self.end(handle)

    async def _mind(
        self, handle: str, process: asyncio.subprocess.Process, folder: Path, environment: Mapping[str, str]
    ) -> None:
        code = await process.wait()
        _kill(process.pid)  # whatever it left behind in its group
        words = discreet(_last_words(folder), environment)[-300:]
        shutil.rmtree(folder, ignore_errors=True)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._endings[handle] = f"{how}; its last words: {words}" if words else how
        if len(self._endings) > MOST_ENDINGS:
            del self._endings[next(iter(self._endings))]
        del self._names[handle], self._minders[handle]


def _last_words(folder: Path) -> str:
    with suppress(OSError), (folder / LAST_WORDS).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_WORDS_BYTES))
        return file.read().decode(errors="replace").strip()
    return ""


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
