"""Leasing, and how a loan ends. The claim is a compare-and-swap of the message's state.

Promises: of any number of consumers one gets a message; who holds a token that is no longer the state's can
do nothing. Hints are moved after the state: the new one is written before the old one goes, so that a message
is found whatever happens in between, at the latest when its old lease would have ended.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial

from msgspec import Struct

from quire.model.errors import Lost, Retry, Unavailable
from quire.queues.bucket_store import records
from quire.queues.bucket_store.desk import Desk
from quire.queues.bucket_store.places import Hint, Places, micros, segment
from quire.queues.bucket_store.reach import Kept
from quire.queues.bucket_store.records import Grave, Record, encode, place_of
from quire.queues.bucket_store.sending import GRACE_SECONDS
from quire.queues.port import Happening, Leased

Change = Callable[[Record], Record | None]
_TRIES = 10


class _Wish(Struct, frozen=True):
    seconds: float
    now: float
    worker: str


class _Claimed(Struct, frozen=True):
    """What came of a hint: perhaps a loan, and the hints that are wrong now."""

    loan: Leased | None = None
    expired: bool = False
    wrong: tuple[str, ...] = ()
    orphan: Hint | None = None


class Lender:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def lease(self, queue: str, *, limit: int, seconds: float, now: float, worker: str) -> list[Leased]:
        if limit <= 0:
            return []
        desk, places = self._desk, self._desk.places(queue)
        desk.bell.looking(queue)
        wish = _Wish(seconds, now, worker)
        claimed: list[_Claimed] = []
        troubles: list[BaseException] = []
        wanted, left = limit, False
        async with aclosing(desk.reach.due(places, now)) as pages:
            async for hints in pages:
                at = 0
                while at < len(hints) and wanted > 0:
                    some = hints[at : at + wanted]
                    at += len(some)
                    for answer in await desk.reach.many(
                        partial(self._claim, queue, places, hint, wish) for hint in some
                    ):
                        if isinstance(answer, BaseException):
                            troubles.append(answer)
                        else:
                            claimed.append(answer)
                            wanted -= answer.loan is not None
                left = at < len(hints)
                if wanted == 0 or troubles:
                    break
        loans = [one.loan for one in claimed if one.loan is not None]
        # What was leased must not be kept from its consumer because something else went wrong.
        if troubles and (not loans or not isinstance(troubles[0], Unavailable)):
            raise troubles[0]
        wrong = [key for one in claimed for key in one.wrong]
        wrong += await self._abandoned([one.orphan for one in claimed if one.orphan is not None])
        await desk.reach.tidied(wrong)
        expired = sum(one.expired for one in claimed)
        desk.count(queue, {Happening.DELIVERED: len(loans), Happening.EXPIRED: expired}, now)
        if left:
            desk.bell.ring(queue)
        return loans

    async def _claim(self, queue: str, places: Places, hint: Hint, wish: _Wish) -> _Claimed:
        desk, reach = self._desk, self._desk.reach
        kept = await reach.state(places, hint.name)
        if kept is None:
            return _Claimed(orphan=hint)
        record = await desk.resolved(places, hint.name, kept)
        if record is None:
            return _Claimed()
        if record.state not in {"waiting", "leased"} or record.due_at > wish.now:
            return _Claimed(wrong=await self._mended(places, hint, kept, record))
        lent = records.lent(
            record, token=desk.ids.ulid(), seconds=wish.seconds, now=wish.now, worker=wish.worker
        )
        written = await reach.written(places.state(hint.name), lent, kept)
        if written is None or written.record is None:
            return _Claimed()
        desk.hold(written)
        old = {hint.key, place_of(record, places) or hint.key}
        wrong = await reach.placed(places, written.record, instead_of=sorted(old))
        return _Claimed(
            records.loan_of(queue, written.record), expired=record.state == "leased", wrong=tuple(wrong)
        )

    async def _mended(self, places: Places, hint: Hint, kept: Kept, record: Record) -> tuple[str, ...]:
        """There is nothing to deliver: the hint is wrong, or we are too early or too late."""
        if record.state == "gone" and kept.record is not None and kept.record.state == "pending":
            return (hint.key,)  # its sending was aborted
        if place_of(record, places) == hint.key:
            return ()
        return tuple(await self._desk.reach.placed(places, record, instead_of=[hint.key]))

    async def _abandoned(self, orphans: list[Hint]) -> list[str]:
        """Hints without a state: perhaps the state is just being written. Those that are old may go."""
        if not orphans:
            return []
        try:
            now = await self._desk.reach.now()
        except Retry:
            return []
        return [hint.key for hint in orphans if now - hint.written_at > GRACE_SECONDS]

    async def extend(self, leased: Sequence[Leased], *, seconds: float, now: float) -> None:
        def longer(record: Record) -> Record | None:
            return records.extended(record, seconds=seconds, now=now) if record.due_at > now else None

        await self._change(leased, longer, now=now)

    async def acknowledge(self, leased: Sequence[Leased], *, now: float) -> None:
        await self._change(
            leased, lambda record: records.finished(record, now=now), Happening.ACKNOWLEDGED, now=now
        )

    async def release(
        self, leased: Leased, *, now: float, delay_seconds: float, error_class: str, error: str, counted: bool
    ) -> None:
        def back(record: Record) -> Record:
            return records.released(
                record,
                now=now,
                delay_seconds=delay_seconds,
                error_class=error_class,
                error=error,
                counted=counted,
            )

        await self._change([leased], back, Happening.RELEASED if counted else None, now=now)
        await self._desk.rung(leased.queue)

    async def bury(self, leased: Leased, *, now: float, reason: str, error_class: str) -> None:
        places = self._desk.places(leased.queue)
        no = await self._number(places, segment(leased.id), now)

        def dead(record: Record) -> Record:
            return records.buried(record, no=no, now=now, error_class=error_class, reason=reason)

        try:
            await self._change([leased], dead, Happening.BURIED, now=now)
        except Lost:
            await self._desk.reach.tidied([places.grave(no)])
            raise

    async def _number(self, places: Places, name: str, now: float) -> int:
        """The next number of a dead letter: by the time, and never one that is taken."""
        desk = self._desk
        body = encode(Grave(name=name, nonce=desk.ids.ulid()))
        while True:
            no = desk.last_no = max(1, micros(now), desk.last_no + 1)
            if await desk.reach.create(places.grave(no), body) is not None:
                return no

    async def _change(
        self, leased: Sequence[Leased], change: Change, happening: Happening | None = None, *, now: float
    ) -> None:
        """Each that is still its holder's. Raises Lost with the others, when all have been tried."""
        answers = await self._desk.reach.many(partial(self._changed, one, change) for one in leased)
        wrong: list[str] = []
        lost: list[Leased] = []
        numbers: Counter[str] = Counter()
        troubles: list[BaseException] = []
        for one, answer in zip(leased, answers, strict=True):
            if isinstance(answer, BaseException):
                troubles.append(answer)
            elif answer is None:
                lost.append(one)
            else:
                wrong += answer
                numbers[one.queue] += 1
        await self._desk.reach.tidied(wrong)
        if happening is not None:
            for queue, number in numbers.items():
                self._desk.count(queue, {happening: number}, now)
        if troubles:
            raise troubles[0]
        raise_lost(lost)

    async def _changed(self, leased: Leased, change: Change) -> list[str] | None:
        """The hints that are wrong now; None: the loan is over."""
        desk, places, name = self._desk, self._desk.places(leased.queue), segment(leased.id)
        kept = desk.loans.pop(leased.token, None)
        for _ in range(_TRIES):
            kept = kept or await desk.reach.state(places, name)
            record = None if kept is None else kept.record
            held = record is not None and record.state == "leased" and record.token == leased.token
            if record is None or not held or record.id != leased.id:
                return None
            changed = change(record)
            if changed is None:
                return None
            written = await desk.reach.written(places.state(name), changed, kept)
            if written is not None and written.record is not None:
                desk.hold(written)
                old = place_of(record, places)
                return await desk.reach.placed(places, written.record, instead_of=[old] if old else [])
            kept = None  # it was not as we knew it: is it still ours?
        raise Unavailable(f"the state of message {leased.id} is written without a pause; try again later")


def raise_lost(gone: Sequence[Leased]) -> None:
    if not gone:
        return
    first = gone[0]
    more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
    raise Lost(
        f"the lease on {first.id}{more} in {first.queue} is gone: stop working on it",
        code="lease_lost",
        ids=tuple(one.id for one in gone),
    )
