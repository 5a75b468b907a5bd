"""Who works in a home folder: each process holds a lock file of its own for as long as it lives.

The lock goes with the process, however it ends, so the others see at once who is dead. For one machine: where
processes share no folder, the crew's beats in the ledger tell.
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


class Presence:
    """`place` names machine and process for people; `scratch` is a folder for what is being made."""

    def __init__(self, home: Path, name: str) -> None:
        self.name = name
        self.place = f"{socket.gethostname()}:{os.getpid()}"
        self.scratch = home / "scratch" / name
        self._crew = home / "crew"

    def gone(self, member: Member) -> bool:
        """Certain on this machine: nobody holds its lock any more."""
        return _is_free(self._crew / (member.name + LOCK_ENDING))

    def sweep(self) -> None:
        """Remove what the dead left behind."""
        for lock in self._crew.glob("*" + LOCK_ENDING):
            if _is_free(lock):
                lock.unlink(missing_ok=True)
        for folder in self.scratch.parent.iterdir():
            if not (self._crew / (folder.name + LOCK_ENDING)).exists():
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def present(home: Path, name: str) -> Iterator[Presence]:
    """Be at work in `home`. Raises Misconfigured when the folder cannot be used."""
    presence = Presence(home, name)
    make_home(home)
    with held(home / "crew" / (name + LOCK_ENDING)):
        presence.scratch.mkdir(parents=True, exist_ok=True)
        presence.sweep()
        try:
            yield presence
        finally:
            shutil.rmtree(presence.scratch, ignore_errors=True)


def make_home(home: Path) -> None:
    try:
        # Other people's documents lie here: for nobody else's eyes.
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in ("crew", "scratch"):
            (home / folder).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise Misconfigured(
            f"the home folder {home} cannot be used: {error.strerror}; "
            "choose another with --home or QUIRE_HOME"
        ) from error


@contextmanager
def held(path: Path, busy: str = "somebody else holds {path}") -> Iterator[None]:
    """A lock file, gone when it is let go. Raises Misconfigured when somebody else holds it: `busy` says what
    then, with the holder's process number as {holder}.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            raise Misconfigured(busy.format(path=path, holder=holder), code="home_busy") from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
        with suppress(OSError):
            path.unlink()
    finally:
        os.close(lock)


def claimed_request(home: Path, key: str) -> AbstractContextManager[None]:
    """The same request, results folder included, is for one process at a time."""
    return held(
        home / "crew" / f"request-{key[:32]}{LOCK_ENDING}",
        "another quire (process {holder}) is at the same request; wait for it, or choose another --out",
    )


def _is_free(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return True  # it was never made here, or has been removed
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
