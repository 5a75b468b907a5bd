"""A name for each worker process of a machine, and the job that the previous process of that name left
unfinished.

Promises: no two living processes on one folder have the same name; the process that gets a name knows that
the previous one is dead, and which job it had. The lock is the kernel's: it ends with the process.
Blocking, but only for a moment. Must not know: the bucket.
"""

import contextlib
import fcntl
import os
import re
from pathlib import Path

import msgspec
from msgspec import Struct

from quire.model.errors import Misconfigured

MAX_SLOTS = 1000
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")


class UnfinishedJob(Struct, frozen=True):
    """The job of a process. `started` is as in its state: a machine of the same name elsewhere may have begun
    an attempt of the same number, after the job was removed and ingested again.
    """

    job: str
    attempt: int
    started: int = 0


class WorkerSlot:
    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self._descriptor = descriptor

    def read(self) -> UnfinishedJob | None:
        try:
            return msgspec.json.decode(os.pread(self._descriptor, 4096, 0), type=UnfinishedJob)
        except msgspec.MsgspecError:
            return None

    def write(self, job: str, attempt: int, started: int) -> None:
        """Remember the job for the next process of this name, until it is cleared."""
        body = msgspec.json.encode(UnfinishedJob(job, attempt, started))
        os.pwrite(self._descriptor, body, 0)
        os.ftruncate(self._descriptor, len(body))

    def clear(self) -> None:
        os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        """Release the name."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def check_worker_id(worker: str) -> str:
    """Check the id of a worker, which becomes part of keys and file names. Raises Misconfigured."""
    if _NAME.fullmatch(worker) is None:
        raise Misconfigured(
            f"{worker[:80]!r} cannot be the id of a worker: use up to 100 letters, digits, dots, hyphens and "
            "underscores, beginning with a letter or digit.",
            code="bad_worker_id",
        )
    return worker


def take_slot(folder: Path, worker: str) -> WorkerSlot:
    """Take the name `worker`, or `worker-2` and so on if other processes have it. Raises Misconfigured."""
    check_worker_id(worker)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, MAX_SLOTS + 1):
            name = worker if number == 1 else f"{worker}-{number}"
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(folder / f"{name}.slot", flags, 0o600)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return WorkerSlot(name, descriptor)
            os.close(descriptor)
    except OSError as error:
        raise Misconfigured(
            f"The folder {str(folder)!r} cannot be used for workers: {error.strerror}. Choose another one.",
            code="scratch",
        ) from error
    raise Misconfigured(f"{MAX_SLOTS} workers already run here; stop some of them.", code="crowded")
