"""A name for each worker process of a machine, and what the process before it left undone.

Promises: no two living processes on one folder have the same name; whoever gets a name knows that the one
that had it is dead, and at which job it died. A lock of the kernel's: it goes with the process, whatever ends
it. Blocking, but only for a moment. Must not know: the bucket.
"""

import contextlib
import fcntl
import os
import re
from pathlib import Path

import msgspec
from msgspec import Struct

from quire.model.errors import Misconfigured

MOST_SLOTS = 1000
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")


class UnfinishedJob(Struct, frozen=True):
    """The job that a process had. `started` is as in its state: a machine of the same name elsewhere may have
    begun an attempt of the same number, after the job was removed and put in again.
    """

    job: str
    attempt: int
    started: int = 0


class WorkerSlot:
    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self._descriptor = descriptor

    def left(self) -> UnfinishedJob | None:
        try:
            return msgspec.json.decode(os.pread(self._descriptor, 4096, 0), type=UnfinishedJob)
        except msgspec.MsgspecError:
            return None

    def note(self, job: str, attempt: int, started: int) -> None:
        """Whoever gets this name next will find it, until it is cleared."""
        body = msgspec.json.encode(UnfinishedJob(job, attempt, started))
        os.pwrite(self._descriptor, body, 0)
        os.ftruncate(self._descriptor, len(body))

    def clear(self) -> None:
        os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        """The name is free."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def check_worker_id(worker: str) -> str:
    """The id of a worker, which gets into keys and file names. Raises Misconfigured."""
    if _NAME.fullmatch(worker) is None:
        raise Misconfigured(
            f"{worker[:80]!r} cannot be the id of a worker: use up to 100 letters, digits, dots, hyphens and "
            "underscores, the first one a letter or digit.",
            code="bad_worker_id",
        )
    return worker


def take_slot(folder: Path, worker: str) -> WorkerSlot:
    """`worker`, or `worker-2` and so on where processes are at work already. Raises Misconfigured."""
    check_worker_id(worker)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, MOST_SLOTS + 1):
            name = worker if number == 1 else f"{worker}-{number}"
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(folder / f"{name}.slot", flags, 0o600)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return WorkerSlot(name, descriptor)
            os.close(descriptor)
    except OSError as error:
        raise Misconfigured(
            f"The folder {str(folder)!r} of the workers cannot be used: {error.strerror}. Name another one.",
            code="scratch",
        ) from error
    raise Misconfigured(f"{MOST_SLOTS} workers are at work here already; end some of them.", code="crowded")
