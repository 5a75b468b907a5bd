"""Sends messages in batches: messages that arrive while others are being sent go with the next batch.

Promises: `send` is done when the message is durably in its queue; an unavailable backend is tried again.
Sending is repeatable by the id of a message, so a lost answer does no harm. Must not know: what is in the
messages.
"""

import asyncio
from collections.abc import Awaitable, Callable

from quire.model.backoff import backoff_seconds
from quire.model.clock import Clock
from quire.model.errors import Retry
from quire.queues.port import Message, MessageQueues

AT_ONCE = 500
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0

Sleep = Callable[[float], Awaitable[None]]
Target = tuple[str, float]  # a queue, and how long messages are delayed
Waiting = tuple[Message, "asyncio.Future[None]"]


class MessageSender:
    def __init__(self, queues: MessageQueues, clock: Clock, sleep: Sleep) -> None:
        self._queues = queues
        self._clock = clock
        self._sleep = sleep
        self._waiting: dict[Target, list[Waiting]] = {}
        self._busy: asyncio.Task[None] | None = None
        self._closed = False

    def send(self, queue: str, message: Message, *, delay_seconds: float = 0.0) -> "asyncio.Future[None]":
        """Done when the message is sent; the future raises the error with which the queue refuses it."""
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault((queue, delay_seconds), []).append((message, sent))
        if self._busy is None or self._busy.done():
            self._busy = asyncio.create_task(self._send_all())
        return sent

    async def close(self) -> None:
        """Drop messages that are not sent yet."""
        self._closed = True
        if self._busy is not None:
            self._busy.cancel()
            await asyncio.wait([self._busy])
        for waiting in self._waiting.values():
            for _, sent in waiting:
                sent.cancel()
        self._waiting.clear()

    async def _send_all(self) -> None:
        await asyncio.sleep(0)  # so that messages of the same moment go together
        while self._waiting and not self._closed:
            target = next(iter(self._waiting))
            waiting = self._waiting[target]
            some = waiting[:AT_ONCE]
            refused = await self._send_some(target, [message for message, _ in some])
            del waiting[: len(some)]
            if not waiting:
                del self._waiting[target]
            for _, sent in some:
                if sent.done():
                    continue
                if refused is None:
                    sent.set_result(None)
                else:
                    sent.set_exception(refused)

    async def _send_some(self, target: Target, messages: list[Message]) -> Exception | None:
        queue, delay = target
        tries = 0
        while True:
            try:
                await self._queues.send(queue, messages, now=self._clock.now(), delay_seconds=delay)
            except Retry as error:
                if self._closed:  # a client that is cancelled may report an unavailable server
                    return error
                tries += 1
                await self._sleep(
                    backoff_seconds(tries, first=FIRST_PAUSE_SECONDS, longest=LONGEST_PAUSE_SECONDS)
                )
            except Exception as error:  # noqa: BLE001 - raised by the futures of these messages
                return error
            else:
                return None


async def wait_unless_ended(waiting: Awaitable[None], end: asyncio.Event) -> None:
    """Wait, but no longer than until `end` is set. So nothing else has to be cancelled: a client that is
    cancelled while it reads an answer may leave a connection behind. Raises what the waiting raises.
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
