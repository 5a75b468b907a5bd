"""Reads from network shares through processes of their own, with a limit for the time without an answer.

Promise: a share that stops answering costs the file that was read, never this process: no thread of it waits
for the share, and it can end whenever it wants to. Files of a share are copied to this machine before they
are read. Blocking, for threads; each call may be made from any of them.
"""

import errno
import json
import os
import select
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from quire.model.errors import Reject
from quire.tools import child_process, mounts
from quire.tools.input_open import NotRegularError

STALL_SECONDS = 60.0
_AFTER_STALL_SECONDS = 5.0  # while the last answer has not come: thousands of files must not wait in turn
_LOOK_SECONDS = 0.2  # whether the process is about to end
_MOST_STUCK = 16  # processes left behind in a share
_START = "import sys; sys.path.insert(0, sys.argv[1]); from quire.tools.share_child import main; main()"
_SOURCE = str(Path(__file__).parents[2])


class ShareFacts(NamedTuple):
    """What `stat` says; named as in `os.stat_result`."""

    st_mode: int
    st_size: int
    st_mtime_ns: int
    st_ino: int
    st_dev: int


class ShareEntry(NamedTuple):
    """An entry of a folder; `flaw` says why nothing is known of it."""

    name: str
    facts: ShareFacts | None
    flaw: str = ""

    def is_symlink(self) -> bool:
        return self.facts is not None and stat.S_ISLNK(self.facts.st_mode)

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        """As of an entry of `os.scandir`; links are never followed here."""
        del follow_symlinks
        return self.facts is not None and stat.S_ISDIR(self.facts.st_mode)

    def stat(self, *, follow_symlinks: bool) -> ShareFacts:
        del follow_symlinks
        if self.facts is None:
            raise OSError(errno.ENOENT, self.flaw)
        return self.facts


class CopiedFile(NamedTuple):
    facts: ShareFacts
    unchanged: bool  # while it was copied


class Shares:
    """The shares of this machine, as they are mounted now."""

    def __init__(self, places: Sequence[Path], *, stall_seconds: float = STALL_SECONDS) -> None:
        self.places = tuple(places)
        self.stall_seconds = stall_seconds
        self._lock = threading.Lock()
        self._idle: list[_Reader] = []
        self._stuck: list[_Reader] = []
        self._stalled = False
        self._abandoned = threading.Event()

    def abandon(self) -> None:
        """Wait for no answer any more, in no thread: the process is about to end."""
        self._abandoned.set()

    def refresh(self) -> None:
        """See what is mounted now."""
        self.places = mounts.find_shares()
        self._abandoned.clear()

    def hold(self, path: Path) -> bool:
        """Does the path lie on a share? Does not touch the share."""
        return mounts.is_below(path, self.places)

    def resolve(self, path: Path) -> Path:
        """Without links; on a share as it is given, because the share would have to be asked."""
        return Path(os.path.abspath(path)) if self.hold(path) else path.resolve()  # noqa: PTH100

    def stat(self, path: Path) -> ShareFacts:
        """Raises OSError, or Reject with code `stalled_input`, as all below."""
        (answer,) = self._ask({"do": "stat", "path": _absolute(path)})
        return ShareFacts(*answer["stat"])

    def list_folder(self, path: Path) -> list[ShareEntry]:
        entries = (
            one for answer in self._ask({"do": "list", "path": _absolute(path)}) for one in answer["entries"]
        )
        return [
            ShareEntry(name, None, facts) if isinstance(facts, str) else ShareEntry(name, ShareFacts(*facts))
            for name, facts in entries
        ]

    def read_head(self, path: Path, most: int, *, below: int) -> tuple[ShareFacts, bytes]:
        (answer,) = self._ask({"do": "read", "path": _absolute(path), "below": below, "most": most})
        return ShareFacts(*answer["stat"]), bytes.fromhex(answer["head"])

    def copy(self, path: Path, target: Path, *, below: int) -> CopiedFile:
        """Copy a regular file to this machine. The target must not exist."""
        for answer in self._ask(
            {"do": "copy", "path": _absolute(path), "below": below, "to": _absolute(target)}
        ):
            if "stat" in answer:
                return CopiedFile(ShareFacts(*answer["stat"]), answer["unchanged"])
        raise OSError("the process that reads from the share said nothing")

    def _ask(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        reader = self._take(request["path"])
        try:
            return [
                one for one in reader.ask(request, self._patience(), self._abandoned) if "copied" not in one
            ]
        except _StalledError as error:
            self._leave(reader)
            raise _stalled(request["path"], error.seconds) from error
        finally:
            if reader.is_free:
                self._give_back(reader)
            else:
                reader.end()

    def close(self) -> None:
        """End the processes that wait for requests. May be repeated."""
        with self._lock:
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.end(wait=True)

    def _patience(self) -> float:
        return min(self.stall_seconds, _AFTER_STALL_SECONDS) if self._stalled else self.stall_seconds

    def _take(self, path: str) -> "_Reader":
        with self._lock:
            self._stuck = [one for one in self._stuck if not one.has_ended()]
            if len(self._stuck) >= _MOST_STUCK:
                raise _stalled(path, 0)
            if self._idle:
                return self._idle.pop()
        return _Reader()

    def _give_back(self, reader: "_Reader") -> None:
        with self._lock:
            self._stalled = False
            self._idle.append(reader)

    def _leave(self, reader: "_Reader") -> None:
        reader.end()
        with self._lock:
            self._stalled = True
            self._stuck.append(reader)


@cache
def this_machine() -> Shares:
    """The shares that are mounted when it is first asked for."""
    return Shares(mounts.find_shares())


class _StalledError(Exception):
    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class _Reader:
    """One process that reads. `is_free`: it has answered its last request to the end."""

    def __init__(self) -> None:
        # Its standard error goes nowhere: left behind, it must hold no pipe that somebody reads to its end.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, _SOURCE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            bufsize=0,
            start_new_session=True,
        )
        child_process.watch_group(self._process.pid)
        self._stdin, self._stdout = (
            cast(IO[bytes], self._process.stdin),
            cast(IO[bytes], self._process.stdout),
        )
        self._rest = b""
        self.is_free = True

    def ask(
        self, request: dict[str, Any], patience: float, abandoned: threading.Event
    ) -> Iterator[dict[str, Any]]:
        self.is_free = False
        self._stdin.write(json.dumps(request).encode() + b"\n")
        while True:
            answer = json.loads(self._read_line(patience, abandoned))
            if "done" in answer:
                self.is_free = True
                return
            if "error" in answer:
                self.is_free = True
                number, words = answer["error"]
                kind = NotRegularError if answer["kind"] == "regular" else OSError
                raise kind(number, words, request["path"])
            yield answer

    def _read_line(self, patience: float, abandoned: threading.Event) -> bytes:
        stdout = self._stdout.fileno()
        poll = select.poll()  # `select` knows descriptors up to 1023
        poll.register(stdout, select.POLLIN)
        until = time.monotonic() + patience
        while b"\n" not in self._rest:
            left = until - time.monotonic()
            if not poll.poll(max(0.0, min(left, _LOOK_SECONDS)) * 1000):
                if left <= 0 or abandoned.is_set():
                    raise _StalledError(patience)
                continue
            piece = os.read(stdout, 1 << 16)
            if not piece:
                raise OSError("the process that reads from the share has ended")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def end(self, *, wait: bool = False) -> None:
        """Kill it. Without waiting: in the kernel it may stay for as long as the share is silent."""
        child_process.kill_group(self._process.pid)
        child_process.forget_group(self._process.pid)
        for pipe in (self._stdin, self._stdout):
            with suppress(OSError):
                pipe.close()
        if wait:
            self._process.wait()

    def has_ended(self) -> bool:
        return self._process.poll() is not None


def _absolute(path: Path) -> str:
    """The process that reads is in no folder that could lie on a share."""
    return os.path.abspath(path)  # noqa: PTH100 - it must not resolve


def _stalled(path: str, seconds: float) -> Reject:
    waited = f"did not answer for {seconds:g} s" if seconds else "does not answer; too many reads wait for it"
    return Reject(
        f"{path}: the network share {waited}. Check the connection and the server, then run again.",
        code="stalled_input",
    )
