"""One Redis server: connections, scripts, and its errors as ours. Shared by the adapters on Redis.

A script is called by its digest and loaded when the server does not know it, as after a restart. No call is
repeated after a lost connection: it may have been executed. The password is in no message.
Needs the extra `quire[redis]`, imported when a server is made.
"""

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

from quire.model.errors import Bug, Misconfigured, Unavailable

Argument = str | bytes | int

CONNECTIONS = 8
TIMEOUT_SECONDS = 10.0
# By the first word of an answer, for which the library may have a class instead; inside a script it comes
# after the script's own name and line.
_FULL = re.compile(r"\b(OutOfMemoryError|OOM|No space left)\b")
_AWAY = re.compile(
    r"\b(BusyLoadingError|LOADING|ReadOnlyError|READONLY|MISCONF|MasterDownError|MASTERDOWN|ClusterDownError|"
    r"CLUSTERDOWN|TryAgainError|TRYAGAIN|MaxConnectionsError|NOREPLICAS|BUSY|UNBLOCKED)\b"
)
# A server of version 7 closes the connection on long commands before authentication.
_REFUSED = re.compile(
    r"\b(NoPermissionError|NOPERM|NOAUTH|WRONGPASS|WRONGTYPE|DB index is out of range|unauthenticated)\b"
)
_TOO_OLD = re.compile(r"unknown (redis )?command", re.IGNORECASE)


def _load_scripts(package: str) -> dict[str, bytes]:
    """By name, the text of each script with what the package's scripts share in front."""
    folder = resources.files(package)
    texts = {one.name.removesuffix(".lua"): one for one in folder.iterdir() if one.name.endswith(".lua")}
    shared = texts.pop("shared").read_bytes()
    return {name: b"\n".join((shared, text.read_bytes())) for name, text in sorted(texts.items())}


class Server:
    """Connects when it is first used; end with `await close()`, after which it connects again when used."""

    def __init__(self, url: str, *, scripts: str, connections: int, timeout_seconds: float) -> None:
        """`scripts` is the package with the Lua files. Raises Misconfigured for a missing extra or a
        malformed URL.
        """
        try:
            from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError as error:
            raise Misconfigured(
                "Queues on Redis need the package redis: install quire[redis].", code="extra_missing"
            ) from error
        settings: dict[str, Any] = {
            "socket_connect_timeout": timeout_seconds,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,  # answers have the same shape from every server
        }
        try:
            pool = BlockingConnectionPool.from_url(
                url, max_connections=connections, timeout=None, socket_timeout=timeout_seconds, **settings
            )
            # A pool of its own for waiting: such a connection is busy until something arrives.
            waiting = ConnectionPool.from_url(url, socket_timeout=None, **settings)
        except (ValueError, TypeError, AttributeError):
            # Without the cause: the library quotes the part it could not read, often the password's.
            raise Misconfigured(
                "The URL of the Redis server cannot be read; write redis://user:password@host:port/0 "
                "(rediss:// for TLS), with @ : / % in the password percent-encoded."
            ) from None
        self._client: Any = Redis(connection_pool=pool)
        self._waiting: Any = Redis(connection_pool=waiting)
        known = pool.connection_kwargs
        place = known.get("path") or f"{known.get('host', 'localhost')}:{known.get('port', 6379)}"
        self.name = f"Redis {place}/{known.get('db', 0) or 0}"
        self._password = str(known.get("password") or "")
        self._texts = _load_scripts(scripts)
        # The digest by which Redis knows a script; not for security.
        self._digests = {
            name: hashlib.sha1(text, usedforsecurity=False).hexdigest() for name, text in self._texts.items()
        }

    def __repr__(self) -> str:
        return f"<{self.name}>"

    async def close(self) -> None:
        for client in (self._client, self._waiting):
            await client.aclose(close_connection_pool=True)

    async def ask(self, *command: Argument) -> Any:
        """One plain command."""
        with self._translate_errors():
            return await self._client.execute_command(*command)

    async def table(self, key: bytes) -> dict[bytes, bytes]:
        """All of a hash."""
        with self._translate_errors():
            found: dict[bytes, bytes] = await self._client.execute_command("HGETALL", key)
        return found

    async def run(self, script: str, keys: Sequence[bytes], *arguments: Argument) -> Any:
        """One script, which happens as a whole or not at all."""
        (answer,) = await self._run([(script, keys, arguments)], self._client)
        return answer

    async def run_after(
        self, command: Sequence[Argument], script: str, keys: Sequence[bytes], *arguments: Argument
    ) -> Any:
        """First a plain command that may be repeated, on a key of another slot; still one round trip."""
        return (await self._run([(script, keys, arguments)], self._client, first=command))[0]

    async def wait_for_entry(
        self, script: str, keys: Sequence[Sequence[bytes]], places: Sequence[bytes], *, milliseconds: int
    ) -> None:
        """Returns at once when a queue has messages; otherwise waits for an entry in one of `places`."""
        answers = await self._run([(script, one, ()) for one in keys], self._waiting)
        if any(there for there, _ in answers):
            return
        last = [entry for _, entry in answers]
        with self._translate_errors():
            await self._waiting.execute_command("XREAD", "BLOCK", milliseconds, "STREAMS", *places, *last)

    async def wait_for_item(self, key: bytes, end: str, *, seconds: float) -> None:
        """Returns at once when a list has items; otherwise waits for one, which stays where it is."""
        with self._translate_errors():
            # From an end to the same end: the only command of 6.2 that waits for an item and takes none.
            await self._waiting.execute_command("BLMOVE", key, key, end, end, seconds)

    async def _run(
        self,
        calls: Sequence[tuple[str, Sequence[bytes], Sequence[Argument]]],
        client: Any,
        first: Sequence[Argument] | None = None,
    ) -> list[Any]:
        from redis.exceptions import NoScriptError

        with self._translate_errors():
            commands = [
                ("EVALSHA", self._digests[name], len(keys), *keys, *arguments)
                for name, keys, arguments in calls
            ]
            for known in (False, True):
                answers = await _send_all([*([first] if first else []), *commands], client)
                if known or not any(isinstance(answer, NoScriptError) for answer in answers):
                    break
                # Scripts that were known have run: only calls that may be repeated are sent together.
                for name in {name for name, _, _ in calls}:
                    await client.execute_command("SCRIPT LOAD", self._texts[name])
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
        return answers[1:] if first else answers

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        from redis.exceptions import AuthenticationError, AuthorizationError, RedisError

        try:
            yield
        except (AuthenticationError, AuthorizationError) as error:
            raise Misconfigured(f"{self.name} refuses: {self._message_of(error)}") from error
        except (RedisError, OSError, TimeoutError) as error:
            raise self._translate(error) from error

    def _translate(self, error: Exception) -> Exception:
        from redis.exceptions import ConnectionError as LostConnection
        from redis.exceptions import TimeoutError as TooLate

        words = self._message_of(error)
        kind = f"{type(error).__name__} {words}"
        if _REFUSED.search(kind):
            return Misconfigured(f"{self.name} refuses: {words}. Look at its user, password and key prefix.")
        if _TOO_OLD.search(kind):
            return Misconfigured(
                f"{self.name} does not know a command ({words}): queues need Redis 6.2 or newer",
                code="too_old",
            )
        if _FULL.search(kind):
            return Unavailable(
                f"{self.name} is full: {words}. Give it more memory or disk.", code="storage_full"
            )
        if isinstance(error, LostConnection | TooLate | OSError | TimeoutError) or _AWAY.search(kind):
            return Unavailable(f"{self.name} cannot be used now: {words or type(error).__name__}")
        return Bug(f"{self.name} did not understand: {words}")

    def _message_of(self, error: Exception) -> str:
        words = str(error)
        return words.replace(self._password, "…") if self._password else words


async def _send_all(commands: Sequence[Sequence[Argument]], client: Any) -> list[Any]:
    """The answers, errors among them, in one round trip."""
    from redis.exceptions import ResponseError

    if len(commands) == 1:
        try:
            return [await client.execute_command(*commands[0])]
        except ResponseError as error:
            return [error]
    pipeline = client.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    answers: list[Any] = await pipeline.execute(raise_on_error=False)
    return answers
