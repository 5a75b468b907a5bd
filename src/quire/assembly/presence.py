"""The processes in a home folder: each holds a lock file of its own for as long as it runs.

The lock ends with the process, however it ends, so the others see at once that it is gone. For one machine:
where processes share no folder, heartbeats in the ledger do this.
"""

import fcntl
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from quire.ledger.port import Member
from quire.model.errors import Misconfigured

LOCK_ENDING = ".lock"


class HomeMember:
    """`place` names machine and process for people; `scratch` is a folder for temporary files."""

    def __init__(self, home: Path, name: str) -> None:
        self.name = name
        self.place = f"{socket.gethostname()}:{os.getpid()}"
        self.scratch = home / "scratch" / name
        self._members = home / "crew"

    def is_gone(self, member: Member) -> bool:
        """Whether the process of this member has ended: its lock is free. Certain on this machine."""
        lock = self._members / (member.name + LOCK_ENDING)
        with _try_lock(lock) as held:
            return held or not lock.exists()  # a running process has a file

    def sweep(self) -> None:
        """Remove lock files and scratch folders of processes that have ended."""
        for lock in self._members.glob("*" + LOCK_ENDING):
            with _try_lock(lock) as held:
                # During the removal. One that has vanished meanwhile may be about to come again.
                if held:
                    shutil.rmtree(self.scratch.parent / lock.stem, ignore_errors=True)
                    lock.unlink(missing_ok=True)
        for folder in self.scratch.parent.iterdir():
            # A running process has its lock before it has its folder.
            if not (self._members / (folder.name + LOCK_ENDING)).exists():
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def join_home(home: Path, name: str) -> Iterator[HomeMember]:
    """Hold a lock and a scratch folder in `home`. Raises Misconfigured when the folder cannot be used."""
    presence = HomeMember(home, name)
    make_home(home)
    with hold_lock(home / "crew" / (name + LOCK_ENDING)):
        presence.scratch.mkdir(parents=True, exist_ok=True)
        presence.sweep()
        try:
            yield presence
        finally:
            shutil.rmtree(presence.scratch, ignore_errors=True)


def make_home(home: Path) -> None:
    try:
        # Documents of other people are stored here: readable by the owner alone.
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in ("crew", "scratch", "requests"):
            (home / folder).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise Misconfigured(
            f"the home folder {home} cannot be used: {error.strerror}; "
            "choose another with --home or QUIRE_HOME"
        ) from error


def lock_request(home: Path, key: str) -> AbstractContextManager[None]:
    """Lock a request, results folder included: one process at a time works on it."""
    return hold_lock(
        home / "requests" / (key[:32] + LOCK_ENDING),
        "another quire (process {holder}) works on the same request; wait for it, or choose another --out",
    )


@contextmanager
def hold_lock(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a lock file, removed at the end. With `busy`, raises Misconfigured with this message when another
    process ({holder}) holds it; without, waits: for names that are locked only briefly.
    """
    lock = _lock(path, busy)
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # while it is still locked
        os.close(lock)


def _lock(path: Path, busy: str | None) -> int:
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError as error:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise Misconfigured((busy or "").format(holder=holder), code="home_busy") from error
        if _is_current(path, lock):
            return lock
        # It was removed between opening and locking: no other process can see the locked file.
        os.close(lock)


@contextmanager
def _try_lock(path: Path) -> Iterator[bool]:
    """Whether the lock is there and was free; if so, it is held inside the block."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        yield False  # unknown: better to wait for an ended process than to remove a running one's files
        return
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield _is_current(path, lock)
    finally:
        os.close(lock)


def _is_current(path: Path, lock: int) -> bool:
    """Whether the open file still has this name."""
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(lock)
    return (named.st_ino, named.st_dev) == (mine.st_ino, mine.st_dev)
