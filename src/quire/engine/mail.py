"""Between ledger and queue: letters go out, start messages come in.

A letter is deleted from the outbox only after the queue has it for good, and the queue knows its id: as seen
by the consumer it is sent once. Starting twice is starting once: the move away from `queued` is a
compare-and-swap.
"""

from contextlib import suppress

import msgspec
from msgspec import Struct

from quire.blobs.port import Blobs
from quire.engine.moves import begin, fail
from quire.ledger.port import Act, Ledger
from quire.model.batch import Batch, Stage
from quire.model.clock import Clock
from quire.model.errors import Lost, Missing, QuireError, Stale, Unavailable
from quire.queues.port import Leased, Message, Queues

LETTERS_AT_ONCE = 100
# Starting a batch takes milliseconds; a conductor that dies in them delays its successor by this much.
LEASE_SECONDS = 5.0
MAX_DELIVERIES = 3


class StartMessage(Struct, frozen=True, kw_only=True):
    """The part of a queue message that starts a batch; clients may send more, which is kept untouched."""

    batch_id: str
    manifest_r2_key: str


class Mail:
    def __init__(self, ledger: Ledger, queues: Queues, blobs: Blobs, clock: Clock) -> None:
        self._ledger = ledger
        self._queues = queues
        self._blobs = blobs
        self._clock = clock

    async def deliver(self, queue: str) -> int:
        """Send what waits in the outbox, then start the batches that `queue` asks for."""
        await self.relay()
        started = 0
        for leased in await self._queues.lease(
            queue, limit=LETTERS_AT_ONCE, seconds=LEASE_SECONDS, now=self._clock.now()
        ):
            # Not in time: somebody else has the message by now and does what is to be done.
            with suppress(Lost):
                started += await self._start(leased)
        return started

    async def relay(self) -> None:
        while letters := await self._ledger.outbox(LETTERS_AT_ONCE):
            for letter in letters:
                message = Message(id=letter.message_id, body=letter.body)
                await self._queues.send(letter.queue, [message], now=self._clock.now())
            await self._ledger.sent([letter.no for letter in letters])

    async def _start(self, leased: Leased) -> bool:
        try:
            message = msgspec.json.decode(leased.body, type=StartMessage)
        except msgspec.MsgspecError as error:
            await self._queues.bury(leased, now=self._clock.now(), reason=f"not a start message: {error}")
            return False
        try:
            await self._begin(message)
        except Unavailable:
            raise  # says nothing about the batch: the message comes again when its lease is over
        except QuireError as error:
            return await self._put_off(leased, message, error)
        await self._queues.acknowledge([leased], now=self._clock.now())
        return True

    async def _begin(self, message: StartMessage) -> None:
        batch = await self._ledger.batch(message.batch_id)
        if batch.position.stage is Stage.ERROR:
            batch = await self._reopen(batch)
        if batch.position.stage is not Stage.QUEUED:
            return
        # Looked at before the batch is touched: a manifest that is not there yet may still come.
        await self._blobs.head(message.manifest_r2_key)
        try:
            await self._ledger.apply(begin(batch, now=self._clock.now()))
        except Stale:
            return  # somebody else has just started it

    async def _reopen(self, batch: Batch) -> Batch:
        """Told to start a batch that ended in error: it goes on where it stood. What is done stays done."""
        counts = await self._ledger.counts(batch.no)
        names = {phase.phase: phase.name for phase in counts}
        act = Act(actor="queue", reason="its start message was delivered again", now=self._clock.now())
        status = names.get(batch.position.phase, "QUEUED")
        return await self._ledger.reopen(batch.no, act, status=status)

    async def _put_off(self, leased: Leased, message: StartMessage, error: QuireError) -> bool:
        """Three deliveries, then a dead letter and a batch that says why."""
        if leased.deliveries < MAX_DELIVERIES:
            delay = 2.0**leased.deliveries
            await self._queues.release(leased, now=self._clock.now(), delay_seconds=delay, error=str(error))
            return False
        # First the batch, then the letter: after a crash in between it comes again and finds the batch ended.
        try:
            batch = await self._ledger.batch(message.batch_id)
            if not batch.ended:
                await self._ledger.apply(
                    fail(batch, f"the batch could not start: {error}", now=self._clock.now())
                )
        except (Missing, Stale):
            pass  # unknown here or already past it: the dead letter is the record
        await self._queues.bury(leased, now=self._clock.now(), reason=str(error))
        return False
