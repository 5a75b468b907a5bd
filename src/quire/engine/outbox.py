"""Sends the outbox to the queues, and starts batches by the messages that arrive.

A message is marked as sent only after the queue has stored it, and the queue recognises its id: the consumer
sees it once. Starting a batch twice starts it once: the move away from `queued` is a compare-and-swap.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from quire.blobs.port import Blobs
from quire.engine.moves import begin, fail, first_status
from quire.ledger.port import BatchStore, ControlStore, OperatorAction, OutboxStore, RecordStore
from quire.model.batch import RESET, Batch, Stage
from quire.model.clock import Clock
from quire.model.errors import Lost, Missing, QuireError, Stale, Unavailable
from quire.model.queues import FORMER_NAMES, KNOWN_QUEUES, QueuePolicy, policy_for
from quire.queues.port import DAMAGED, DeadLetterFilter, LeasedMessage, Message, QueueStore

MESSAGES_AT_ONCE = 100
# Starting a batch takes milliseconds; a scheduler that dies in them delays the next one by this much.
LEASE_SECONDS = 5.0
# Of a queue that nobody has said anything about; others as their policy says.
MAX_DELIVERIES = 3
PLAIN = QueuePolicy(name="", max_retries=MAX_DELIVERIES - 1, longest_delay_seconds=30.0)


class StartMessage(Struct, frozen=True, kw_only=True):
    """The part of a queue message that starts a batch; clients may send more, which is kept untouched."""

    batch_id: str
    manifest_r2_key: str


class Outbox:
    def __init__(
        self,
        outbox: OutboxStore,
        batches: BatchStore,
        records: RecordStore,
        control: ControlStore,
        queues: QueueStore,
        blobs: Blobs,
        clock: Clock,
        *,
        policies: Mapping[str, QueuePolicy] = KNOWN_QUEUES,
        fraction: Callable[[], float] = lambda: 1.0,
        is_elsewhere: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`fraction` is the chance in the jitter of delays. `is_elsewhere` says of a name whether its queue
        is on a server of its own, whose outage must hold up nothing else.
        """
        self._outbox = outbox
        self._batches = batches
        self._records = records
        self._control = control
        self._queues = queues
        self._blobs = blobs
        self._clock = clock
        self._policies = policies
        self._fraction = fraction
        self._is_elsewhere = is_elsewhere
        self._damaged_seen: dict[str, int] = {}  # by queue, the last damaged dead letter that was looked at

    async def start_batches(self, queue: str) -> int:
        """Send the outbox, then start the batches that `queue` names, under any name the queue had, and those
        whose message was damaged in the queue.
        """
        await self.send()
        started = 0
        for name in (queue, *FORMER_NAMES.get(queue, ())):
            started += await self._receive(name) + await self._start_damaged(name)
        return started

    async def _start_damaged(self, queue: str) -> int:
        """What the message said, the ledger knows. The dead letter stays, for operators."""
        started = 0
        for letter in await self._queues.list_dead_letters(
            queue,
            chosen=DeadLetterFilter(error_class=DAMAGED),
            after=self._damaged_seen.get(queue, 0),
            limit=MESSAGES_AT_ONCE,
        ):
            prefix, _, batch_id = letter.id.partition("start-")
            if not prefix and batch_id:
                started += await self._start_from_ledger(batch_id)
            self._damaged_seen[queue] = letter.no
        return started

    async def _start_from_ledger(self, batch_id: str) -> bool:
        try:
            batch = await self._batches.get_batch(batch_id)
            if batch.position.stage is not Stage.QUEUED or batch.manifest_key is None:
                return False
            await self._begin(
                StartMessage(batch_id=batch_id, manifest_r2_key=batch.manifest_key), original=True
            )
        except Missing:  # the batch, or its manifest: then the dead letter is the record
            return False
        return True

    async def _receive(self, queue: str) -> int:
        started = 0
        leases = await self._queues.lease(
            queue, limit=MESSAGES_AT_ONCE, seconds=LEASE_SECONDS, now=self._clock.now()
        )
        for place, leased in enumerate(leases):
            try:
                started += await self._start(leased)
            except Lost:
                continue  # too late: another process has the message by now
            except Unavailable:
                await self._release(leases[place:])
                raise
        return started

    async def _release(self, leases: Sequence[LeasedMessage]) -> None:
        """Release messages without counting a delivery: the ledger is away, the batches are not at fault."""
        with suppress(Unavailable):  # the queues may be away with it; then the leases run out
            for leased in leases:
                with suppress(Lost):
                    await self._queues.release(leased, now=self._clock.now(), counted=False)

    async def clean_queues(self) -> None:
        """Let the queues delete ids and counters that are no longer needed."""
        await self._queues.sweep(now=self._clock.now())

    async def send(self) -> None:
        """Messages that a server elsewhere does not take stay, and are sent the next time."""
        after = 0
        stuck: set[str] = set()
        while unsent := await self._outbox.list_unsent(MESSAGES_AT_ONCE, after=after):
            by_queue: dict[str, list[Message]] = {}
            for one in unsent:
                by_queue.setdefault(one.queue, []).append(Message(id=one.message_id, body=one.body))
            for queue, messages in by_queue.items():
                if queue not in stuck and not await self._send(queue, messages):
                    stuck.add(queue)
            await self._outbox.mark_sent([one.no for one in unsent if one.queue not in stuck])
            after = unsent[-1].no

    async def _send(self, queue: str, messages: Sequence[Message]) -> bool:
        """False: not now."""
        try:
            await self._queues.send(queue, messages, now=self._clock.now())
        except QuireError:
            if self._is_elsewhere(queue):
                return False
            raise
        return True

    async def _start(self, leased: LeasedMessage) -> bool:
        try:
            message = msgspec.json.decode(leased.body, type=StartMessage)
        except msgspec.MsgspecError as error:
            reason = f"not a start message: {error}"
            await self._queues.dead_letter(
                leased, now=self._clock.now(), reason=reason, error_class="bad_message"
            )
            return False
        try:
            await self._begin(message, original=leased.id == f"start-{message.batch_id}")
        except Unavailable:
            raise
        except QuireError as error:
            return await self._postpone(leased, message, error)
        await self._queues.acknowledge([leased], now=self._clock.now())
        return True

    async def _begin(self, message: StartMessage, *, original: bool) -> None:
        batch = await self._batches.get_batch(message.batch_id)
        # The message that was on its way when an operator reset the batch must not undo that.
        undone = original and batch.error == RESET
        if batch.position.stage is Stage.ERROR and not undone:
            batch = await self._reopen(batch)
        if batch.position.stage is not Stage.QUEUED:
            return
        # Looked at before the batch is touched: a manifest that is not there yet may still come.
        await self._blobs.head(message.manifest_r2_key)
        try:
            await self._batches.apply_move(begin(batch, now=self._clock.now()))
        except Stale:
            return  # somebody else has just started it

    async def _reopen(self, batch: Batch) -> Batch:
        """A batch that ended in error continues where it stopped; finished tasks stay finished."""
        counts = await self._records.count_tasks(batch.no)
        names = {phase.phase: phase.name for phase in counts}
        action = OperatorAction(
            actor="queue", reason="its start message was delivered again", now=self._clock.now()
        )
        status = names.get(batch.position.phase, first_status(batch))
        return await self._control.reopen(batch.no, action, status=status)

    async def _postpone(self, leased: LeasedMessage, message: StartMessage, error: QuireError) -> bool:
        """Release the message until the queue's policy is used up, then make it a dead letter and end the
        batch with the reason.
        """
        redelivery = self._policy(leased.queue).redelivery
        delay_seconds = redelivery.next_delay_seconds(leased.deliveries, self._fraction())
        if delay_seconds is not None:
            await self._queues.release(
                leased,
                now=self._clock.now(),
                delay_seconds=delay_seconds,
                error_class=error.code,
                error=str(error),
            )
            return False
        # First the batch, then the message: after a crash in between it comes again and finds the batch
        # ended.
        try:
            batch = await self._batches.get_batch(message.batch_id)
            if not batch.ended:
                await self._batches.apply_move(
                    fail(batch, f"the batch could not start: {error}", now=self._clock.now())
                )
        except (Missing, Stale):
            pass  # unknown here or already past it: the dead letter is the record
        await self._queues.dead_letter(
            leased, now=self._clock.now(), reason=str(error), error_class=error.code
        )
        return False

    def _policy(self, queue: str) -> QueuePolicy:
        policy = policy_for(queue, self._policies)
        return policy if policy.name in self._policies else PLAIN
