"""Who waits for messages in this process, and what wakes them.

A bell remembers what came while nobody was waiting: between a look that found nothing and the waiting
after it nothing is missed. It must not know where the messages are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection

Listen = Callable[[Callable[[], None]], Awaitable[None]]


class Notifier:
    """One per store; belongs to one event loop. `listen` tells of other processes: it is called once, when
    somebody waits for the first time.
    """

    def __init__(self, listen: Listen) -> None:
        self._listen = listen
        self._waiting: dict[asyncio.Event, frozenset[str]] = {}
        self._fresh: set[str] = set()  # rung for since somebody last looked
        self._known: set[str] = set()  # looked at or waited for here
        self._connecting = asyncio.Lock()
        self._connected = False

    def mark_seen(self, queue: str) -> None:
        """Somebody is about to look: what has rung so far is seen by this look."""
        self._known.add(queue)
        self._fresh.discard(queue)

    def notify(self, queue: str) -> None:
        """Something may have come into this queue."""
        self._fresh.add(queue)
        for event, queues in self._waiting.items():
            if queue in queues:
                event.set()

    def notify_all(self) -> None:
        """Something may have come into any queue."""
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
                # What others sent before we could hear them has rung for nobody.
                self.notify_all()
