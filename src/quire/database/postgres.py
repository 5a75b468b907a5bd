"""One PostgreSQL database: a few connections, each piece of work in a transaction of its own.

Callers pass small async functions of a connection. When `write` returns, its work is committed and durable;
when it raises, nothing of it happened. Errors are translated here; no message contains the password.
Needs the extra `quire[postgres]`, imported when a database is made.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from quire.database.postgres_arrays import build_list_dumper
from quire.model.backoff import backoff_seconds
from quire.model.errors import Misconfigured, QuireError, Unavailable

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.AsyncConnection[tuple[Any, ...]]
else:
    Connection = Any

T = TypeVar("T")
Work = Callable[[Connection], Awaitable[T]]

CONNECTIONS = 4
CONNECT_SECONDS = 10
CHANNEL = "quire"  # a transaction that creates work for other processes sends NOTIFY on it
LISTEN_SECONDS = 30.0  # a silent connection is checked this often
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0
# Any number, the same in every release: one process migrates at a time, the others wait.
_MIGRATION_LOCK = 7_164_173_216

_SERVER_SETTINGS = "SELECT current_setting('synchronous_commit'), current_setting('data_checksums')"
_UNCHECKED = (
    "{name} keeps no checksums of its pages (data_checksums is off), so damage by a disk can go unnoticed; "
    "stop the server, run pg_checksums --enable on its data, and start it again"
)

# By SQLSTATE, or its first two digits. Everything else is a bug and is raised unchanged.
_BUSY = ("40", "55P03", "57014")  # serialization, deadlock, lock or statement timeout
_FULL = ("53100", "53400")
_LOST = ("08", "53", "57P")  # connection, resources, shutdown
_DAMAGED = ("XX001", "XX002")  # a page whose checksum is wrong, an index that contradicts its table
_REFUSED = ("28", "3D", "42501", "25006")  # authorization, unknown database, privilege, read-only standby
# A connection that could not be made has no SQLSTATE, only a message of the server or the library.
_REFUSALS = (
    "authentication failed",
    "does not exist",
    "no pg_hba.conf entry",
    "no password supplied",
    "permission denied",
    "not permitted to log in",
    "invalid port",
    "invalid sslmode",
    "certificate",
    "does not support SSL",
)


class PostgresDatabase:
    """Open with `await open()`, end with `await close()`; both may be repeated. Once it is open, `warnings`
    says what the server does not protect from.
    """

    def __init__(self, dsn: str, *, connections: int = CONNECTIONS) -> None:
        """Connects to nothing yet. Raises Misconfigured for a missing extra or a malformed DSN."""
        try:
            from psycopg import ProgrammingError
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as error:
            raise Misconfigured(
                "A database on PostgreSQL needs the package psycopg: install quire[postgres].",
                code="extra_missing",
            ) from error
        try:
            known = {"connect_timeout": CONNECT_SECONDS, **conninfo_to_dict(dsn)}
        except ProgrammingError:
            known = {"host": "@"}
        if "@" in str(known.get("host", "")):
            # Without the cause: the library quotes the part it could not read, often the password's.
            raise Misconfigured(
                "The DSN of the PostgreSQL database cannot be read; write "
                "postgresql://user:password@host:port/database, with @ : / % in the password percent-encoded."
            ) from None
        self.warnings: tuple[str, ...] = ()
        self._known: dict[str, Any] = known
        self._password = str(known.get("password", ""))
        host, port, name = (known.get(part, "") for part in ("host", "port", "dbname"))
        self.name = f"PostgreSQL {host or 'local'}:{port or 5432}/{name}"
        self._size = connections
        self._slots: asyncio.Semaphore | None = None
        self._idle: list[Connection] = []
        self._listeners: list[asyncio.Task[None]] = []
        self._listening: set[Connection] = set()
        self._late: set[asyncio.Task[None]] = set()  # connections whose caller was cancelled

    async def open(self) -> None:
        if self._slots is not None:
            return
        self._idle.append(await self._connect())
        if self._slots is None:  # another coroutine may have opened it meanwhile
            self._slots = asyncio.Semaphore(self._size)

    async def close(self) -> None:
        """Wait for running work; later work is refused."""
        slots, self._slots = self._slots, None
        if slots is None:
            return
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.cancel()
        await asyncio.gather(*listeners, return_exceptions=True)
        while self._listening:
            # The connection of a listener that was cancelled before it started is still open.
            await self._listening.pop().close()
        for _ in range(self._size):
            await slots.acquire()
        # Waiting callers go on and find that the database is closed.
        slots.release()
        await self._drop_idle()
        await asyncio.gather(*self._late)

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction; returns when that is durable."""
        return await self._run(work, keep=True)

    async def write_alone(self, work: Work[T]) -> T:
        """Run `work`, which is one statement and so a transaction by itself; returns when that is durable.
        One round trip instead of three. Several statements would each be kept when a later one fails.
        """
        return await self._run(work, keep=True, alone=True)

    async def read(self, work: Work[T]) -> T:
        """Run `work` in a transaction that is rolled back: it changes nothing."""
        return await self._run(work, keep=False)

    async def listen(self, callback: Callable[[], None]) -> None:
        """Call `callback` at every NOTIFY until `close`, on a connection of its own. A lost connection is
        reopened; then `callback` is called, too, because notifications were missed.
        """
        if self._slots is None:
            raise Misconfigured(f"{self.name} is not open")
        connection = await self._open_listener()
        self._listeners.append(asyncio.create_task(self._listen(connection, callback)))

    async def migrate(self, room: str, scripts: list[tuple[int, str, str]]) -> None:
        """Update the tables of one room (ledger, queues); each script runs once, in order, all in
        one transaction.
        """
        await self.write(lambda connection: _migrate(connection, room, scripts))

    async def _run(self, work: Work[T], *, keep: bool, alone: bool = False) -> T:
        slots = self._slots
        if slots is None:
            raise Misconfigured(f"{self.name} is not open")
        async with slots:
            if self._slots is not slots:
                raise Misconfigured(f"{self.name} was closed")
            connection = self._idle.pop() if self._idle else await self._connect()
            try:
                with self._translate_errors():
                    if connection.autocommit is not alone:
                        await connection.set_autocommit(alone)  # no round trip
                    answer = await work(connection)
                    if not alone:
                        await (connection.commit() if keep else connection.rollback())
                return answer
            finally:
                await self._put_back(connection)

    async def _connect(self) -> Connection:
        """Connect without being interrupted: the library would leave a half-open connection. After a
        cancellation the connection is closed when it is ready.
        """
        making = asyncio.create_task(self._open_connection())
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            late = asyncio.create_task(_close_late(making))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
            raise

    async def _open_connection(self) -> Connection:
        from psycopg import AsyncConnection

        with self._translate_errors():
            connection = await AsyncConnection.connect(**self._known)
            try:
                connection.adapters.register_dumper(list, build_list_dumper())
                # Accepted means durable, whatever the server's default; a stronger default stays.
                row = await (await connection.execute(_SERVER_SETTINGS)).fetchone()
                durable, checksums = row or ("on", "on")
                if durable == "off":
                    await connection.execute("SET synchronous_commit = on")
                self.warnings = (_UNCHECKED.format(name=self.name),) if checksums == "off" else ()
                await connection.commit()
            except BaseException:
                await connection.close()
                raise
            return connection

    async def _open_listener(self) -> Connection:
        connection = await self._connect()
        self._listening.add(connection)
        try:
            with self._translate_errors():
                await connection.set_autocommit(True)
                await connection.execute(f"LISTEN {CHANNEL}".encode())
        except BaseException:
            await self._close_listener(connection)
            raise
        return connection

    async def _close_listener(self, connection: Connection) -> None:
        self._listening.discard(connection)
        await connection.close()

    async def _listen(self, connection: Connection, callback: Callable[[], None]) -> None:
        from psycopg import Error

        while True:
            try:
                while True:
                    silent = True
                    async for _ in connection.notifies(timeout=LISTEN_SECONDS, stop_after=1):
                        silent = False
                        callback()
                    if silent:  # a query shows whether the connection is alive
                        async with asyncio.timeout(CONNECT_SECONDS):
                            await connection.execute("SELECT 1")
            except (Error, TimeoutError):
                pass  # lost; other calls report what is wrong with the server
            finally:
                await self._close_listener(connection)
            connection = await self._reopen_listener()
            callback()

    async def _reopen_listener(self) -> Connection:
        from psycopg import Error

        for tries in count(1):
            with contextlib.suppress(QuireError, Error):
                return await self._open_listener()
            await asyncio.sleep(
                backoff_seconds(tries, first=FIRST_PAUSE_SECONDS, longest=LONGEST_PAUSE_SECONDS)
            )
        raise AssertionError

    async def _put_back(self, connection: Connection) -> None:
        from psycopg import Error
        from psycopg.pq import TransactionStatus

        try:
            if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
                await connection.rollback()
        except Error:
            await connection.close()
        except BaseException:
            # Cancelled again: the state is unknown; closing makes the server end the transaction.
            await connection.close()
            raise
        if connection.closed:
            # The idle connections are probably lost, too: open new ones instead.
            await self._drop_idle()
        else:
            self._idle.append(connection)

    async def _drop_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        from psycopg import Error

        try:
            yield
        except Error as error:
            translated = self._translate(error)
            if translated is None:
                raise
            raise translated from error

    def _translate(self, error: "psycopg.Error") -> QuireError | None:
        from psycopg import OperationalError
        from psycopg.errors import PipelineAborted

        if isinstance(error, PipelineAborted):
            return None  # says only that an earlier statement failed: not a loss of the connection
        state = error.sqlstate or ""
        words = (str(error).splitlines() or ["no details"])[0]
        if self._password:
            words = words.replace(self._password, "***")
        if state.startswith(_BUSY):
            return Unavailable(
                f"{self.name}: another transaction was in the way ({words})", code="database_busy"
            )
        if state.startswith(_FULL):
            return Unavailable(f"{self.name}: no space left; free some and run again", code="storage_full")
        unreached = not state and isinstance(error, OperationalError)
        if state.startswith(_REFUSED) or (unreached and any(part in str(error) for part in _REFUSALS)):
            return Misconfigured(f"{self.name} refuses us ({words}); check the DSN and the user's rights")
        if unreached or state.startswith(_LOST):
            return Unavailable(f"{self.name} cannot be reached ({words})")
        return self._describe_damage(words) if state.startswith(_DAMAGED) else None

    def _describe_damage(self, words: str) -> Misconfigured:
        return Misconfigured(
            f"{self.name} is damaged ({words}); check the server's disk and restore it from a backup",
            code="database_damaged",
        )


async def _migrate(connection: Connection, room: str, scripts: list[tuple[int, str, str]]) -> None:
    await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations "
        "(room text, number bigint, name text NOT NULL, PRIMARY KEY (room, number))"
    )
    cursor = await connection.execute("SELECT number FROM migrations WHERE room = %s", (room,))
    known = {row[0] for row in await cursor.fetchall()}
    newest = max((number for number, _, _ in scripts), default=0)
    if known and max(known) > newest:
        raise Misconfigured(
            f"this database was written by a newer quire ({room} schema {max(known)}, this one knows "
            f"{newest}); upgrade quire or choose another database"
        )
    for number, name, script in scripts:
        if number not in known:
            await connection.execute(script.encode())
            await connection.execute("INSERT INTO migrations VALUES (%s, %s, %s)", (room, number, name))


async def _close_late(making: "asyncio.Task[Connection]") -> None:
    with contextlib.suppress(Exception):  # the caller was cancelled and does not need the reason
        await (await making).close()
