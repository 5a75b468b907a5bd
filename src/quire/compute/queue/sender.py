"""Sends messages, many at a time: what is to be sent while others are being sent goes with the next.

Promises: `send` returns when the message is durably in its queue; a backend that is away is waited for. As
ids make sending repeatable, an answer that was lost does no harm. Must not know: what is in the messages.
"""

import asyncio
from collections.abc import Awaitable, Callable

from quire.model.clock import Clock
from quire.model.errors import Retry
from quire.queues.port import Message, Queues

AT_ONCE = 500
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0

Sleep = Callable[[float], Awaitable[None]]
Place = tuple[str, float]  # a queue, and how long messages are delayed
Waiting = tuple[Message, "asyncio.Future[None]"]


class Posting:
    def __init__(self, queues: Queues, clock: Clock, sleep: Sleep) -> None:
        self._queues = queues
        self._clock = clock
        self._sleep = sleep
        self._waiting: dict[Place, list[Waiting]] = {}
        self._busy: asyncio.Task[None] | None = None
        self._closed = False

    def send(self, queue: str, message: Message, *, delay_seconds: float = 0.0) -> "asyncio.Future[None]":
        """Done when it is sent; raises there what the queue refuses it with."""
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault((queue, delay_seconds), []).append((message, sent))
        if self._busy is None or self._busy.done():
            self._busy = asyncio.create_task(self._send_all())
        return sent

    async def close(self) -> None:
        """What is not sent by now is not sent."""
        self._closed = True
        if self._busy is not None:
            self._busy.cancel()
            await asyncio.wait([self._busy])
        for waiting in self._waiting.values():
            for _, sent in waiting:
                sent.cancel()
        self._waiting.clear()

    async def _send_all(self) -> None:
        await asyncio.sleep(0)  # so that those who come at the same moment go together
        while self._waiting and not self._closed:
            place = next(iter(self._waiting))
            waiting = self._waiting[place]
            some = waiting[:AT_ONCE]
            refused = await self._send_some(place, [message for message, _ in some])
            del waiting[: len(some)]
            if not waiting:
                del self._waiting[place]
            for _, sent in some:
                if sent.done():
                    continue
                if refused is None:
                    sent.set_result(None)
                else:
                    sent.set_exception(refused)

    async def _send_some(self, place: Place, messages: list[Message]) -> Exception | None:
        queue, delay = place
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._queues.send(queue, messages, now=self._clock.now(), delay_seconds=delay)
            except Retry as error:
                if self._closed:  # a client that is cancelled amid an answer may say that the server is away
                    return error
                await self._sleep(pause)
                pause = min(LONGEST_PAUSE_SECONDS, 2 * pause)
            except Exception as error:  # noqa: BLE001 - told to whoever asked
                return error
            else:
                return None


async def unless_ended(waiting: Awaitable[None], end: asyncio.Event) -> None:
    """Wait, but not longer than until the end. So nothing else has to be cancelled, which a client amid an
    answer takes badly: it may leave a connection behind. Raises what the waiting raises.
    """
    both = (asyncio.ensure_future(waiting), asyncio.ensure_future(end.wait()))
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in both:
            one.cancel()
        await asyncio.wait(both)
    if not both[0].cancelled() and not end.is_set():
        both[0].result()
