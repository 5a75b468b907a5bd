"""Wakes the consumers of this process that wait for messages.

A notification that comes while nobody waits is remembered: between a lease that found nothing and the wait
after it, no message is missed. Must not know: where the messages are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection

Listen = Callable[[Callable[[], None]], Awaitable[None]]


class Notifier:
    """One per store and event loop. `listen` subscribes to the changes of other processes: it is called once,
    at the first wait.
    """

    def __init__(self, listen: Listen) -> None:
        self._listen = listen
        self._waiting: dict[asyncio.Event, frozenset[str]] = {}
        self._fresh: set[str] = set()  # notified since they were last read
        self._known: set[str] = set()  # read or waited for here
        self._connecting = asyncio.Lock()
        self._connected = False

    def mark_seen(self, queue: str) -> None:
        """Call before reading a queue: the read sees everything that was notified so far."""
        self._known.add(queue)
        self._fresh.discard(queue)

    def notify(self, queue: str) -> None:
        """A message may have arrived in this queue."""
        self._fresh.add(queue)
        for event, queues in self._waiting.items():
            if queue in queues:
                event.set()

    def notify_all(self) -> None:
        """A message may have arrived in any queue."""
        self._fresh |= self._known
        for event in self._waiting:
            event.set()

    async def wait(self, queues: Collection[str], *, seconds: float) -> None:
        wanted = frozenset(queues)
        self._known |= wanted
        if not self._connected:
            await self._connect()
        if seconds <= 0 or not self._fresh.isdisjoint(wanted):
            return
        event = asyncio.Event()
        self._waiting[event] = wanted
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            del self._waiting[event]

    async def _connect(self) -> None:
        async with self._connecting:
            if not self._connected:
                await self._listen(self.notify_all)
                self._connected = True
                # Messages that others sent before we listened have notified nobody.
                self.notify_all()
