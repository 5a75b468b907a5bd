"""Checks that a backend honours the guarantees that consumers rely on, in a queue that is emptied afterwards.

The check hands the time to the queues, so it does not wait for leases to run out.
"""

import asyncio
from collections.abc import Awaitable, Callable

from quire.model.clock import Clock
from quire.model.errors import Lost, Missing, QuireError, Reject
from quire.model.ids import Ids
from quire.model.probe import Probe
from quire.queues.port import (
    LEAST,
    MAX_MESSAGE_BYTES,
    URGENT,
    DeadLetterFilter,
    LeasedMessage,
    Message,
    QueueStore,
)

WOKEN_WITHIN_SECONDS = 5.0
# Between two checks: every lease and delay of one is over for the next.
_APART_SECONDS = 1000.0
_LEASE_SECONDS = 30.0
_FIRST, _SECOND = "first_try", "second_try"


class _BrokenError(Exception):
    """The guarantee is broken; the text says how."""


class _Check:
    def __init__(self, queues: QueueStore, clock: Clock, ids: Ids) -> None:
        self.queues = queues
        self.queue = f"quire-test-{ids.ulid()}"
        self.now = clock.now()
        self._ids = ids

    async def send(self, body: bytes = b"{}", *, delay_seconds: float = 0, **more: int) -> Message:
        message = Message(id=self._ids.ulid(), body=body, **more)
        new = await self.queues.send(self.queue, [message], now=self.now, delay_seconds=delay_seconds)
        _expect(new == 1, f"sending one new message counted {new}")
        return message

    async def lease(self, limit: int = 10) -> list[LeasedMessage]:
        return await self.queues.lease(
            self.queue, limit=limit, seconds=_LEASE_SECONDS, now=self.now, worker="quire queue test"
        )

    async def one(self) -> LeasedMessage:
        leased = await self.lease()
        _expect(len(leased) == 1, f"wanted one message, got {len(leased)}")
        return leased[0]

    async def none(self, why: str) -> None:
        _expect(not await self.lease(), f"delivered {why}")

    async def clear(self) -> None:
        self.now += _APART_SECONDS
        while leased := await self.lease(1000):
            await self.queues.acknowledge(leased, now=self.now)
        await self.queues.purge(self.queue, now=self.now)
        await self.queues.discard(self.queue, chosen=DeadLetterFilter(), now=self.now, limit=1000)


async def check_guarantees(queues: QueueStore, clock: Clock, ids: Ids) -> list[Probe]:
    """The result of every check; a broken guarantee does not stop the next check."""
    check = _Check(queues, clock, ids)
    return [await _run_check(check, words, attempt, clock) for words, attempt in _CHECKS.items()]


async def _run_check(
    check: _Check, words: str, attempt: Callable[[_Check], Awaitable[None]], clock: Clock
) -> Probe:
    began = clock.monotonic()
    try:
        await attempt(check)
        await check.clear()
    except (_BrokenError, QuireError) as error:
        seconds = clock.monotonic() - began
        return Probe(name=words, ok=False, detail=str(error), seconds=round(seconds, 3))
    return Probe(name=words, ok=True, seconds=round(clock.monotonic() - began, 3))


async def _check_delivery(check: _Check) -> None:
    sent = await check.send(b"\x00\xff any bytes")
    leased = await check.one()
    _expect((leased.id, leased.body, leased.deliveries) == (sent.id, sent.body, 1), "it came back changed")
    await check.none("a message that is leased")


async def _check_duplicates(check: _Check) -> None:
    sent = await check.send()
    _expect(await check.queues.send(check.queue, [sent], now=check.now) == 0, "the same id was taken twice")
    await check.queues.acknowledge([await check.one()], now=check.now)
    again = await check.queues.send(check.queue, [sent], now=check.now)
    _expect(again == 0, "the same id was taken again after it was acknowledged")


async def _check_acknowledge(check: _Check) -> None:
    await check.send()
    await check.queues.acknowledge([await check.one()], now=check.now)
    check.now += 2 * _LEASE_SECONDS
    await check.none("a message that was acknowledged")


async def _check_expiry(check: _Check) -> None:
    await check.send()
    await check.one()
    check.now += _LEASE_SECONDS + 1
    deliveries = (await check.one()).deliveries
    _expect(deliveries == 2, f"the second delivery was counted as {deliveries}")


async def _check_extend(check: _Check) -> None:
    await check.send()
    leased = await check.one()
    check.now += _LEASE_SECONDS - 1
    await check.queues.extend([leased], seconds=_LEASE_SECONDS, now=check.now)
    check.now += _LEASE_SECONDS - 1
    await check.none("a message whose lease was extended")
    await check.queues.acknowledge([leased], now=check.now)


async def _check_lost(check: _Check) -> None:
    await check.send()
    late = await check.one()
    check.now += _LEASE_SECONDS + 1
    current = await check.one()
    queues, now = check.queues, check.now
    await _expect_error(Lost, queues.acknowledge([late], now=now), "a lost lease was acknowledged")
    await _expect_error(Lost, queues.extend([late], seconds=9, now=now), "a lost lease was extended")
    await _expect_error(Lost, queues.release(late, now=now), "a lost lease was released")
    await _expect_error(
        Lost,
        queues.dead_letter(late, now=now, reason="late"),
        "a message with a lost lease became a dead letter",
    )
    await check.queues.acknowledge([current], now=check.now)


async def _check_order(check: _Check) -> None:
    last = await check.send(priority=LEAST)
    older, newer = await check.send(), await check.send()
    first = await check.send(priority=URGENT)
    order = [leased.id for leased in await check.lease()]
    _expect(order == [first.id, older.id, newer.id, last.id], "not by priority, then oldest first")


async def _check_delays(check: _Check) -> None:
    await check.send(delay_seconds=60)
    await check.none("a delayed message too early")
    due = await check.queues.next_due(check.queue, now=check.now)
    _expect(due is not None and abs(due - check.now - 60) < 1, f"it is due at {due}, not in 60 s")
    check.now += 60
    leased = await check.one()
    await check.queues.release(leased, now=check.now, delay_seconds=60, error_class=_FIRST, error="not yet")
    await check.none("a released message before its delay was over")
    check.now += 60
    leased = await check.one()
    _expect(leased.deliveries == 2, f"the delivery after a release was counted as {leased.deliveries}")
    await check.queues.release(leased, now=check.now, counted=False)
    deliveries = (await check.one()).deliveries
    _expect(deliveries == 2, f"a delivery that did not count was counted: {deliveries}")


async def _check_dead_letter(check: _Check) -> None:
    sent = await check.send(b"the payload")
    await check.queues.release(await check.one(), now=check.now, error_class=_FIRST, error="one")
    await check.queues.dead_letter(await check.one(), now=check.now, reason="two", error_class=_SECOND)
    await check.none("a dead letter")
    letter = await check.queues.get_dead_letter(check.queue, sent.id)
    history = [(trial.error_class, trial.error) for trial in letter.history]
    _expect(letter.body == sent.body, "the payload of a dead letter changed")
    _expect(history == [(_FIRST, "one"), (_SECOND, "two")], f"the history is {history}")
    found = await check.queues.list_dead_letters(
        check.queue, chosen=DeadLetterFilter(error_class=_SECOND), limit=9
    )
    _expect([one.id for one in found] == [sent.id], "it is not found by its class")


async def _check_replay(check: _Check) -> None:
    sent = await check.send()
    await check.queues.dead_letter(await check.one(), now=check.now, reason="one", error_class=_FIRST)
    done = await check.queues.replay(
        check.queue, chosen=DeadLetterFilter(ids=[sent.id]), now=check.now, limit=9
    )
    _expect(done == 1, f"replaying one counted {done}")
    leased = await check.one()
    _expect(leased.deliveries == 1, f"its deliveries start at {leased.deliveries}, not at 1")
    await check.queues.dead_letter(leased, now=check.now, reason="two", error_class=_SECOND)
    trials = (await check.queues.get_dead_letter(check.queue, sent.id)).history
    _expect([one.ending for one in trials] == ["buried", "replayed", "buried"], "the history was not kept")
    _expect(await check.queues.discard(check.queue, now=check.now, limit=9) == 1, "it was not discarded")
    await _expect_error(
        Missing, check.queues.get_dead_letter(check.queue, sent.id), "a discarded dead letter is still there"
    )


async def _check_size(check: _Check) -> None:
    await check.send(bytes(MAX_MESSAGE_BYTES))
    await _expect_error(Reject, check.send(bytes(MAX_MESSAGE_BYTES + 1)), "a message over 128 KiB was taken")


async def _check_wake(check: _Check) -> None:
    await check.none("something nobody sent")
    waiting = asyncio.ensure_future(check.queues.wait([check.queue], seconds=10 * WOKEN_WITHIN_SECONDS))
    try:
        await asyncio.sleep(0)
        await check.send()
        await asyncio.wait_for(waiting, WOKEN_WITHIN_SECONDS)
    except TimeoutError as error:
        raise _BrokenError(f"nobody was woken within {WOKEN_WITHIN_SECONDS:g} s") from error
    finally:
        waiting.cancel()


_CHECKS: dict[str, Callable[[_Check], Awaitable[None]]] = {
    "a message is delivered as it was sent, to one consumer at a time": _check_delivery,
    "the same id is one message, also after it was acknowledged": _check_duplicates,
    "what is acknowledged never comes again": _check_acknowledge,
    "a lease that ran out comes back with its delivery count": _check_expiry,
    "a lease that is extended lasts": _check_extend,
    "who lost a lease can do nothing with it": _check_lost,
    "urgent ones first, then oldest first": _check_order,
    "delays are kept, and a delivery that is given back uncounted does not count": _check_delays,
    "a dead letter keeps its payload and every error": _check_dead_letter,
    "a replay keeps the history, a discard is final": _check_replay,
    "128 KiB are taken, more is refused": _check_size,
    "who waits is woken": _check_wake,
}


async def _expect_error(kind: type[QuireError], attempt: Awaitable[object], otherwise: str) -> None:
    try:
        await attempt
    except kind:
        return
    raise _BrokenError(otherwise)


def _expect(kept: bool, otherwise: str) -> None:
    if not kept:
        raise _BrokenError(otherwise)
