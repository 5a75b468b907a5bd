"""A launcher that starts a child process for each order, with exactly the worker's environment.

Promises: the process has a group, a temporary folder and a memory limit of its own; it is ended as a group,
its folder goes with it, and it does not outlive this process. Must not know: what the command does.
"""

import asyncio
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from msgspec import Struct

from quire.compute.redaction import redact
from quire.compute.remote.step_task import is_step_task
from quire.model.errors import Retry
from quire.model.work import AttemptKey, Order, StepCall
from quire.tools.child_process import ChildProcess, describe_exit

KILL_SECONDS = 10.0
LONGEST_STDERR = 300  # characters that are shown
MAX_ENDINGS = 1000  # that are remembered


class Program(Struct, frozen=True, kw_only=True):
    """What a process runs. `environment` is what it gets beside the worker's own: where programs and
    libraries are. `folder` is where it starts; None: in its own temporary folder.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path | None = None


class ProcessLauncher:
    """`own` is what runs steps that people have written."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        scratch: Path,
        *,
        own: Program | None = None,
    ) -> None:
        self._program = Program(command=command, environment=environment)
        self._own = own or self._program
        self._scratch = scratch
        self._running: dict[str, AttemptKey] = {}
        self._processes: dict[str, ChildProcess] = {}
        self._endings: dict[str, str] = {}
        self._watchers: dict[str, asyncio.Task[None]] = {}

    async def launch(self, order: Order, call: StepCall, environment: Mapping[str, str]) -> str:
        try:
            folder = Path(mkdtemp(prefix="task-", dir=self._scratch))
        except OSError as error:  # a full disk is not the file's fault
            raise Retry(f"a process has no folder to work in: {error.strerror}") from error
        try:
            program = self._own if is_step_task(environment) else self._program
            process = await ChildProcess.start(
                program.command,
                {**program.environment, **environment, "TMPDIR": str(folder)},
                folder=program.folder or folder,
                memory_mb=call.memory_mb,
            )
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise Retry(f"a process cannot be started: {error.strerror}") from error
        handle = str(process.pid)
        self._endings.pop(handle, None)  # the system uses numbers again
        self._running[handle] = order.attempt_key
        self._processes[handle] = process
        self._watchers[handle] = asyncio.create_task(self._watch(handle, process, folder, environment))
        return handle

    async def find_ended(self, handles: Collection[str]) -> dict[str, str]:
        return {
            handle: self._endings.get(handle, "gone") for handle in handles if handle not in self._running
        }

    async def end(self, handle: str) -> None:
        if handle in self._running:
            self._processes[handle].kill()
            with suppress(TimeoutError):
                async with asyncio.timeout(KILL_SECONDS):
                    await asyncio.shield(self._watchers[handle])

    async def list_machines(self) -> dict[str, AttemptKey]:
        return dict(self._running)

    async def close(self) -> None:
        for handle in list(self._running):
            await self.end(handle)

    async def _watch(
        self, handle: str, process: ChildProcess, folder: Path, environment: Mapping[str, str]
    ) -> None:
        """Wait for the end of one process and remember how it ended."""
        how = describe_exit(await process.wait())
        stderr = redact(process.read_stderr(), environment)[-LONGEST_STDERR:]
        shutil.rmtree(folder, ignore_errors=True)
        self._endings[handle] = f"{how}; its last output: {stderr}" if stderr else how
        if len(self._endings) > MAX_ENDINGS:
            del self._endings[next(iter(self._endings))]
        del self._running[handle], self._processes[handle], self._watchers[handle]
