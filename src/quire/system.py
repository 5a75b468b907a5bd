"""The real clock, ids and signal, and the name of the user: the only module that reads time and randomness.

Everything else takes them as arguments, so that tests and the simulator can replace them.
"""

import asyncio
import contextlib
import os
import pwd
import random
import socket
import time


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class SystemIds:
    def __init__(self) -> None:
        from ulid import ULID  # here: workers need only the clock and must start fast

        self._new = ULID
        self._random = random.SystemRandom()

    def ulid(self) -> str:
        return str(self._new())

    def fraction(self) -> float:
        return self._random.random()


def user_at_host() -> str:
    """The user as `user@host`: from the system, because variables can be set to anything."""
    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # in containers a user may have only a number
        name = str(number)
    return f"{name}@{socket.gethostname()}"


class LoopSignal:
    """A `Signal` on the running asyncio loop; `set` may be called from any thread of that loop's process."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def set(self) -> None:
        self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        with contextlib.suppress(TimeoutError):
            # Without a task of its own, which would cost one more turn of the loop before the waiter wakes.
            async with asyncio.timeout(timeout_seconds):
                await self._event.wait()
        was_set = self._event.is_set()
        self._event.clear()
        return was_set
