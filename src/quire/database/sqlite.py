"""One SQLite file: one writer with group commit, one reader.

Callers pass small functions of a connection. Those that wait at the same time share one transaction and one
fsync; each runs in a savepoint of its own, so that a failing one does not affect the others. A caller gets
its answer only after the commit is on disk (WAL, synchronous=FULL): accepted means durable.
"""

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from quire.database.private_files import keep_private
from quire.database.protection import Protection
from quire.database.sqlite_errors import ERRORS, damaged_error, translate
from quire.database.watch import FileWatch
from quire.model.errors import Misconfigured, QuireError

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

# How many callers may share one commit: limits the length of a transaction, not of the queue.
GROUP = 64
# Other processes touch the log after writing, which wakes this one; this is the fallback.
LISTEN_SECONDS = 0.2
# The least time between two checks, however much other processes write.
APART_SECONDS = 0.01

_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA busy_timeout=10000",
    "PRAGMA cache_size=-65536",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA wal_autocheckpoint=4000",
    "PRAGMA journal_size_limit=67108864",
)


class SqliteDatabase:
    """Open with `await open()`, end with `await close()`; both may be repeated. `thorough`: for processes
    that work with it for long; pages are checked whatever the file's size, and their checksums are kept.
    """

    def __init__(self, path: Path, *, thorough: bool = False) -> None:
        self.path = path
        self.warnings: tuple[str, ...] = ()  # of what the database does not protect from: nothing to say
        self.repairs: tuple[str, ...] = ()  # what was damaged and is right again, in words
        self._protection = Protection(path, thorough=thorough)
        self._inbox: queue.SimpleQueue[_Job | _Command] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._read_connection: sqlite3.Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._log = path.with_name(path.name + "-wal")
        self._listeners: tuple[_Listener, ...] = ()
        self._watch: FileWatch | None = None

    async def listen(self, callback: Callable[[], None], *, apart_seconds: float = APART_SECONDS) -> None:
        """Call `callback` on the loop soon after another process has written to the file, until `close`; not
        more often than `apart_seconds`. SQLite cannot notify: a process that writes touches the log, the file
        system reports that, and the writer thread reads a counter that this process's writes do not change.
        Where the file system reports nothing, the writer thread checks a few times a second.
        """
        if self._loop is None or self._thread is None:
            raise Misconfigured(f"{self.path} is not open")
        self._listeners += (_Listener(self._loop, callback, apart_seconds),)
        if self._watch is None:
            self._begin_watch(self._loop)
        self._inbox.put(_Command.CHECK)  # wakes the writer thread, which may be waiting for work
        await self.write(lambda _: None)

    def _begin_watch(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            watch = FileWatch(self._log)
        except OSError:
            return
        try:
            loop.add_reader(watch.fileno(), self._on_touch)
        except NotImplementedError:  # not every loop can
            watch.close()
            return
        self._watch = watch

    def _on_touch(self) -> None:
        if self._watch is not None and self._watch.was_touched():
            self._inbox.put(_Command.CHECK)

    async def open(self) -> None:
        if self._thread is not None:
            return
        self._loop = asyncio.get_running_loop()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.repairs = await asyncio.to_thread(self._protection.enter)
        try:
            connection = self._connect_both()
        except BaseException:
            await asyncio.to_thread(self._protection.leave)
            raise
        self._thread = threading.Thread(
            target=self._serve, args=(connection,), name="sqlite-writer", daemon=True
        )
        self._thread.start()
        self._readers = ThreadPoolExecutor(1, thread_name_prefix="sqlite-reader")

    def _connect_both(self) -> sqlite3.Connection:
        connection = _open(self.path)
        try:
            self._read_connection = _open(self.path)
        except QuireError:
            connection.close()
            raise
        return connection

    async def close(self) -> None:
        if self._thread is None:
            return
        self._inbox.put(_Command.END)
        await asyncio.to_thread(self._thread.join)
        self._thread = None
        for listener in self._listeners:
            listener.close()
        self._listeners = ()
        if self._watch is not None and self._loop is not None:
            self._loop.remove_reader(self._watch.fileno())
            self._watch.close()
            self._watch = None
        if self._readers is not None:
            self._readers.shutdown(wait=True)
        if self._read_connection is not None:
            self._read_connection.close()
        await asyncio.to_thread(self._protection.leave)

    async def write(self, work: Work[T]) -> T:
        """Run `work` in the next group's transaction; returns when that is durable."""
        if self._thread is None:
            raise Misconfigured(f"{self.path} is not open")
        loop = asyncio.get_running_loop()
        job = _Job(work, loop.create_future())
        self._inbox.put(job)
        answer: T = await job.answer
        return answer

    async def read(self, work: Work[T]) -> T:
        """Run `work` on the reading connection, outside any write transaction."""
        if self._readers is None or self._read_connection is None:
            raise Misconfigured(f"{self.path} is not open")
        connection = self._read_connection
        return await asyncio.get_running_loop().run_in_executor(
            self._readers, lambda: _run_translated(work, connection, self.path)
        )

    async def migrate(self, room: str, scripts: list[tuple[int, str, str]]) -> None:
        """Update the tables of one room (ledger, queues); each script runs once, in a transaction."""
        await self.write(lambda connection: _migrate(connection, room, scripts, self.path))

    def _serve(self, connection: sqlite3.Connection) -> None:
        running, touched = True, False
        version, checked_at = _version(connection), monotonic()
        while running:
            group = self._group(checked_at + (APART_SECONDS if touched else LISTEN_SECONDS))
            running = _Command.END not in group
            touched = touched or _Command.CHECK in group
            jobs = [job for job in group if isinstance(job, _Job)]
            if jobs:
                before = connection.total_changes
                answers = _run_group(connection, jobs, self.path)
                if connection.total_changes != before:
                    self._protection.begin_writing()
                    self._touch()
                self._on_loop(partial(_answer, answers))
            # Also under a constant load of writes: otherwise listeners would never be called.
            since = monotonic() - checked_at
            if self._listeners and since >= (APART_SECONDS if touched else LISTEN_SECONDS):
                touched, checked_at = False, monotonic()
                self._set_watch()
                before, version = version, _version(connection)
                if version != before:
                    for listener in self._listeners:
                        self._on_loop(listener.notify)
        self._protection.prepare(connection)
        connection.close()

    def _group(self, check_at: float) -> list["_Job | _Command"]:
        """The jobs of the next transaction; none when it is time to check for changes first."""
        group: list[_Job | _Command] = []
        wait = max(0.0, check_at - monotonic()) if self._listeners else None
        try:
            group.append(self._inbox.get(timeout=wait))
            while len(group) < GROUP:
                group.append(self._inbox.get_nowait())
        except queue.Empty:
            pass
        return group

    def _touch(self) -> None:
        # After the commit, when other processes can see the change; a failure does no harm.
        with contextlib.suppress(OSError):
            os.utime(self._log)

    def _set_watch(self) -> None:
        # Before the check: later changes are reported. A watch that cannot be set only costs speed.
        if self._watch is not None:
            with contextlib.suppress(OSError):
                self._watch.set()

    def _on_loop(self, call: Callable[[], None]) -> None:
        # The loop may be closed when the process exits; then no caller waits for an answer.
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)


class _Command(Enum):
    """Commands to the writer thread, between jobs."""

    CHECK = auto()
    END = auto()


class _Listener:
    """Calls back on the loop: at once, then at most every `apart` seconds; no notification is lost."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None], apart: float) -> None:
        self._loop = loop
        self._callback = callback
        self._apart = apart
        self._not_before = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def notify(self) -> None:
        if self._loop.time() >= self._not_before:
            self._call()
        elif self._timer is None:
            self._timer = self._loop.call_at(self._not_before, self._call)

    def _call(self) -> None:
        self.close()
        self._not_before = self._loop.time() + self._apart
        self._callback()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Job:
    __slots__ = ("answer", "work")

    def __init__(self, work: Work[Any], answer: "asyncio.Future[Any]") -> None:
        self.work = work
        self.answer = answer


_Answers = list[tuple["asyncio.Future[Any]", Any, BaseException | None]]


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    # Takes effect in a new file only. The default of 4 KiB puts rows with results on overflow pages.
    connection.execute("PRAGMA page_size=8192")
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    return connection


def _version(connection: sqlite3.Connection) -> int:
    """Changes when another connection has committed."""
    try:
        return int(connection.execute("PRAGMA data_version").fetchone()[0])
    except ERRORS:
        return 0


def _run_group(connection: sqlite3.Connection, jobs: list[_Job], path: Path) -> _Answers:
    answers: _Answers = []
    try:
        connection.execute("BEGIN IMMEDIATE")
        for job in jobs:
            connection.execute("SAVEPOINT job")
            try:
                answers.append((job.answer, job.work(connection), None))
            except BaseException as error:  # noqa: BLE001 - handed to the caller below
                if not connection.in_transaction:
                    # A full disk rolls the whole transaction back: the work of all callers is lost.
                    return [(one.answer, None, translate(error, path)) for one in jobs]
                connection.execute("ROLLBACK TO job")
                answers.append((job.answer, None, translate(error, path)))
            connection.execute("RELEASE job")
        connection.execute("COMMIT")
    except ERRORS as error:
        with contextlib.suppress(sqlite3.Error):  # whatever this says, nothing of the group was committed
            connection.execute("ROLLBACK")
        # Nothing of this group is on disk: every caller gets the error.
        return [(job.answer, None, translate(error, path)) for job in jobs]
    return answers


def _answer(answers: _Answers) -> None:
    for future, value, error in answers:
        if future.done():  # the caller was cancelled meanwhile
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


def _open(path: Path) -> sqlite3.Connection:
    try:
        keep_private(path)
        return _connect(path)
    except ERRORS as error:
        raise translate(error, path, opening=True) from error


def _run_translated(work: Work[T], connection: sqlite3.Connection, path: Path) -> T:
    try:
        return work(connection)
    except ERRORS as error:
        raise translate(error, path) from error


def _migrate(
    connection: sqlite3.Connection, room: str, scripts: list[tuple[int, str, str]], path: Path
) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations "
        "(room TEXT, number INTEGER, name TEXT, PRIMARY KEY (room, number))"
    )
    known = {row[0] for row in connection.execute("SELECT number FROM migrations WHERE room = ?", (room,))}
    newest = max((number for number, _, _ in scripts), default=0)
    if known and max(known) > newest:
        raise Misconfigured(
            f"this home was written by a newer quire ({room} schema {max(known)}, this one knows {newest}); "
            "upgrade quire or choose another --home"
        )
    for number, name, script in scripts:
        if number in known:
            continue
        for statement in split_statements(script):
            try:
                connection.execute(statement)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
                    # The statements are right: the list of what was done, or what it was done to, is not.
                    raise damaged_error(
                        path, f"its tables do not fit their list of changes: {error}"
                    ) from error
                raise
        connection.execute("INSERT INTO migrations VALUES (?, ?, ?)", (room, number, name))


def split_statements(script: str) -> list[str]:
    """The statements of a script (executescript would commit the transaction we are in)."""
    found, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            found.append(current.strip())
            current = ""
    return [statement for statement in found if statement]
