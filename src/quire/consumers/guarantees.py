"""Does a backend keep what consumers rely on? Tried out in a queue of its own, which is emptied afterwards.

Time is handed to queues, so leases run out here without anybody waiting for it.
"""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from quire.model.clock import Clock
from quire.model.errors import Lost, Missing, QuireError, Reject
from quire.model.ids import Ids
from quire.queues.port import LEAST, MAX_MESSAGE_BYTES, URGENT, DeadLetterFilter, Leased, Message, QueueStore

WOKEN_WITHIN_SECONDS = 5.0
# Between two promises: whatever one leaves behind is over for the next.
_APART_SECONDS = 1000.0
_LEASE_SECONDS = 30.0
_FIRST, _SECOND = "first_try", "second_try"


class Promise(Struct, frozen=True, kw_only=True):
    promise: str
    ok: bool
    detail: str = ""
    seconds: float = 0.0


class _BrokenError(Exception):
    """Not kept; the text says what was seen."""


class _Trying:
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

    async def lease(self, limit: int = 10) -> list[Leased]:
        return await self.queues.lease(
            self.queue, limit=limit, seconds=_LEASE_SECONDS, now=self.now, worker="quire queue test"
        )

    async def one(self) -> Leased:
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


async def try_promises(queues: QueueStore, clock: Clock, ids: Ids) -> list[Promise]:
    """Every promise, kept or not; a broken one does not hide the next."""
    trying = _Trying(queues, clock, ids)
    return [await _tried(trying, words, attempt, clock) for words, attempt in _PROMISES.items()]


async def _tried(
    trying: _Trying, words: str, attempt: Callable[[_Trying], Awaitable[None]], clock: Clock
) -> Promise:
    began = clock.monotonic()
    try:
        await attempt(trying)
        await trying.clear()
    except (_BrokenError, QuireError) as error:
        seconds = clock.monotonic() - began
        return Promise(promise=words, ok=False, detail=str(error), seconds=round(seconds, 3))
    return Promise(promise=words, ok=True, seconds=round(clock.monotonic() - began, 3))


async def _delivered(trying: _Trying) -> None:
    sent = await trying.send(b"\x00\xff any bytes")
    leased = await trying.one()
    _expect((leased.id, leased.body, leased.deliveries) == (sent.id, sent.body, 1), "it came back changed")
    await trying.none("a message that is on loan")


async def _once(trying: _Trying) -> None:
    sent = await trying.send()
    _expect(
        await trying.queues.send(trying.queue, [sent], now=trying.now) == 0, "the same id was taken twice"
    )
    await trying.queues.acknowledge([await trying.one()], now=trying.now)
    again = await trying.queues.send(trying.queue, [sent], now=trying.now)
    _expect(again == 0, "the same id was taken again after it was acknowledged")


async def _acknowledged(trying: _Trying) -> None:
    await trying.send()
    await trying.queues.acknowledge([await trying.one()], now=trying.now)
    trying.now += 2 * _LEASE_SECONDS
    await trying.none("a message that was acknowledged")


async def _comes_back(trying: _Trying) -> None:
    await trying.send()
    await trying.one()
    trying.now += _LEASE_SECONDS + 1
    deliveries = (await trying.one()).deliveries
    _expect(deliveries == 2, f"the second delivery was counted as {deliveries}")


async def _extended(trying: _Trying) -> None:
    await trying.send()
    leased = await trying.one()
    trying.now += _LEASE_SECONDS - 1
    await trying.queues.extend([leased], seconds=_LEASE_SECONDS, now=trying.now)
    trying.now += _LEASE_SECONDS - 1
    await trying.none("a message whose lease was extended")
    await trying.queues.acknowledge([leased], now=trying.now)


async def _lost(trying: _Trying) -> None:
    await trying.send()
    late = await trying.one()
    trying.now += _LEASE_SECONDS + 1
    current = await trying.one()
    queues, now = trying.queues, trying.now
    await _raises(Lost, queues.acknowledge([late], now=now), "a lost lease was acknowledged")
    await _raises(Lost, queues.extend([late], seconds=9, now=now), "a lost lease was extended")
    await _raises(Lost, queues.release(late, now=now), "a lost lease was released")
    await _raises(Lost, queues.bury(late, now=now, reason="late"), "a lost lease was buried")
    await trying.queues.acknowledge([current], now=trying.now)


async def _in_order(trying: _Trying) -> None:
    last = await trying.send(priority=LEAST)
    older, newer = await trying.send(), await trying.send()
    first = await trying.send(priority=URGENT)
    order = [leased.id for leased in await trying.lease()]
    _expect(order == [first.id, older.id, newer.id, last.id], "not by priority, then oldest first")


async def _delayed(trying: _Trying) -> None:
    await trying.send(delay_seconds=60)
    await trying.none("a delayed message too early")
    due = await trying.queues.next_due(trying.queue, now=trying.now)
    _expect(due is not None and abs(due - trying.now - 60) < 1, f"it is due at {due}, not in 60 s")
    trying.now += 60
    leased = await trying.one()
    await trying.queues.release(leased, now=trying.now, delay_seconds=60, error_class=_FIRST, error="not yet")
    await trying.none("a released message before its delay was over")
    trying.now += 60
    leased = await trying.one()
    _expect(leased.deliveries == 2, f"the delivery after a release was counted as {leased.deliveries}")
    await trying.queues.release(leased, now=trying.now, counted=False)
    deliveries = (await trying.one()).deliveries
    _expect(deliveries == 2, f"a delivery that did not count was counted: {deliveries}")


async def _buried(trying: _Trying) -> None:
    sent = await trying.send(b"the payload")
    await trying.queues.release(await trying.one(), now=trying.now, error_class=_FIRST, error="one")
    await trying.queues.bury(await trying.one(), now=trying.now, reason="two", error_class=_SECOND)
    await trying.none("a dead letter")
    letter = await trying.queues.dead_letter(trying.queue, sent.id)
    told = [(trial.error_class, trial.error) for trial in letter.trials]
    _expect(letter.body == sent.body, "the payload of a dead letter changed")
    _expect(told == [(_FIRST, "one"), (_SECOND, "two")], f"the history is {told}")
    found = await trying.queues.dead(trying.queue, chosen=DeadLetterFilter(error_class=_SECOND), limit=9)
    _expect([one.id for one in found] == [sent.id], "it is not found by its class")


async def _replayed(trying: _Trying) -> None:
    sent = await trying.send()
    await trying.queues.bury(await trying.one(), now=trying.now, reason="one", error_class=_FIRST)
    done = await trying.queues.replay(
        trying.queue, chosen=DeadLetterFilter(ids=[sent.id]), now=trying.now, limit=9
    )
    _expect(done == 1, f"replaying one counted {done}")
    leased = await trying.one()
    _expect(leased.deliveries == 1, f"its deliveries start at {leased.deliveries}, not at 1")
    await trying.queues.bury(leased, now=trying.now, reason="two", error_class=_SECOND)
    trials = (await trying.queues.dead_letter(trying.queue, sent.id)).trials
    _expect([one.ending for one in trials] == ["buried", "replayed", "buried"], "the history was not kept")
    _expect(await trying.queues.discard(trying.queue, now=trying.now, limit=9) == 1, "it was not discarded")
    await _raises(
        Missing, trying.queues.dead_letter(trying.queue, sent.id), "a discarded dead letter is still there"
    )


async def _large(trying: _Trying) -> None:
    await trying.send(bytes(MAX_MESSAGE_BYTES))
    await _raises(Reject, trying.send(bytes(MAX_MESSAGE_BYTES + 1)), "a message over 128 KiB was taken")


async def _woken(trying: _Trying) -> None:
    await trying.none("something nobody sent")
    waiting = asyncio.ensure_future(trying.queues.wait([trying.queue], seconds=10 * WOKEN_WITHIN_SECONDS))
    try:
        await asyncio.sleep(0)
        await trying.send()
        await asyncio.wait_for(waiting, WOKEN_WITHIN_SECONDS)
    except TimeoutError as error:
        raise _BrokenError(f"nobody was woken within {WOKEN_WITHIN_SECONDS:g} s") from error
    finally:
        waiting.cancel()


_PROMISES: dict[str, Callable[[_Trying], Awaitable[None]]] = {
    "a message is delivered as it was sent, to one consumer at a time": _delivered,
    "the same id is one message, also after it was acknowledged": _once,
    "what is acknowledged never comes again": _acknowledged,
    "a lease that ran out comes back with its delivery count": _comes_back,
    "a lease that is extended lasts": _extended,
    "who lost a lease can do nothing with it": _lost,
    "urgent ones first, then oldest first": _in_order,
    "delays are kept, and a delivery that is given back uncounted does not count": _delayed,
    "a dead letter keeps its payload and every error": _buried,
    "a replay keeps the history, a discard is final": _replayed,
    "128 KiB are taken, more is refused": _large,
    "who waits is woken": _woken,
}


async def _raises(kind: type[QuireError], attempt: Awaitable[object], otherwise: str) -> None:
    try:
        await attempt
    except kind:
        return
    raise _BrokenError(otherwise)


def _expect(kept: bool, otherwise: str) -> None:
    if not kept:
        raise _BrokenError(otherwise)
