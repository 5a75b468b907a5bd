"""Sending: one message in two writes, many by one decision.

One message: its hint first, then its state, whose creation is the sending; a crash in between leaves a hint
without a state, which means nothing. Many: an open decision that names them, then their states, `pending` and
so invisible, then the decision is swapped to `committed`: at that moment all of them are sent. Anybody may
swap an open decision to `aborted` instead, and then none is. Hints follow; who crashes before they are
written leaves that to the next sweep, or to whoever sends the same again.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Literal

from msgspec import structs

from quire.model.errors import Retry, Unavailable
from quire.queues.bucket_store.desk import Desk
from quire.queues.bucket_store.places import Places, segment
from quire.queues.bucket_store.reach import Kept
from quire.queues.bucket_store.records import Record, Sending, decode, encode, fresh, place_of
from quire.queues.checks import checked
from quire.queues.port import Happening, Message
from quire.queues.rows import readable

_TRIES = 5
# How long somebody else's sending may stay undecided before it is taken for dead: about three seconds.
_WAITS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
# Nothing reaches the store so late after it was decided; by the store's clock.
GRACE_SECONDS = 600.0
Verdict = Literal["known", "free", "undecided", "closing"]


class Sender:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._named: set[str] = set()

    async def send(self, queue: str, messages: Sequence[Message], *, now: float, delay_seconds: float) -> int:
        wanted = checked(messages)
        if not wanted:
            return 0
        places = self._desk.places(queue)
        await self._introduce(queue, places)
        due_at = now + delay_seconds
        if len(wanted) == 1:
            new = await self._one(places, wanted[0], now, due_at)
        else:
            new = await self._many(places, wanted, now, due_at)
        if new:
            self._desk.count(queue, {Happening.SENT: new}, now)
            await self._desk.rung(queue)
        return new

    async def _introduce(self, queue: str, places: Places) -> None:
        if places.name not in self._named:
            made = await self._desk.reach.create(places.name, encode(readable(queue)))
            if made is None and await self._desk.reach.look(places.name) is None:
                raise Unavailable("the object store refused to write without a reason; send again")
            self._named.add(places.name)

    async def _one(self, places: Places, message: Message, now: float, due_at: float) -> int:
        record = self._fresh_one(message, now, due_at)
        hint = place_of(record, places)
        if hint is None:
            raise AssertionError(record)
        reach, seconds = self._desk.reach, asyncio.get_running_loop().time
        began = seconds()
        await reach.put(hint)
        written = await self._write(places, record, now)
        if written is None:
            await reach.tidied([hint])
            return 0
        place = place_of(written, places)
        # One that was so long without a state may be gone by now.
        if place != hint or seconds() - began > GRACE_SECONDS / 2:
            await reach.tidied(await reach.placed(places, written, instead_of=[hint]))
        return 1

    def _fresh_one(self, message: Message, now: float, due_at: float) -> Record:
        return fresh(message, order=f"{self._desk.ids.ulid()}{0:07d}", now=now, due_at=due_at, send="")

    async def _many(self, places: Places, messages: list[Message], now: float, due_at: float) -> int:
        for _ in range(_TRIES):
            new = await self._decided(places, messages, now, due_at)
            if new is not None:
                return new
        raise Unavailable("others send the same messages at the same moment; nothing was sent, send again")

    async def _decided(
        self, places: Places, messages: list[Message], now: float, due_at: float
    ) -> int | None:
        """How many were new; None: somebody has aborted it."""
        reach, send = self._desk.reach, self._desk.ids.ulid()
        records = [
            fresh(one, order=f"{send}{number:07d}", now=now, due_at=due_at, send=send)
            for number, one in enumerate(messages)
        ]
        names = tuple(segment(one.id) for one in messages)
        sending = Sending(state="open", nonce=self._desk.ids.ulid(), names=names)
        key = places.send(send)
        version = await reach.create(key, encode(sending))
        if version is None:
            return None
        try:
            answers = await reach.every(partial(self._write, places, one, now) for one in records)
        except BaseException:
            await self._abort(places, send)
            raise
        new = [record for record in answers if record is not None]
        if not new:
            await reach.tidied([key])  # nothing belongs to it
            return 0
        committed = structs.replace(sending, state="committed", nonce=self._desk.ids.ulid())
        if await reach.swap(key, encode(committed), version) is None:
            return None
        await reach.every(partial(reach.put, place) for one in new if (place := place_of(one, places)))
        return len(new)

    async def _write(self, places: Places, record: Record, now: float) -> Record | None:
        """The record as it stands, when its id was free; None: it is known."""
        reach, name = self._desk.reach, segment(record.id)
        key = places.state(name)
        written = await reach.written(key, record, None)
        waited = 0
        while written is None:
            there = await reach.state(places, name)
            if there is None:
                written = await reach.written(key, record, None)
                continue
            verdict = await self._verdict(places, name, there, now)
            if verdict == "known":
                return None
            if verdict == "free":
                rev = 1 if there.record is None else there.record.rev + 1
                written = await reach.written(key, structs.replace(record, rev=rev), there)
            else:
                await self._wait(places, record, there, waited, undecided=verdict == "undecided")
                waited += 1
        return written.record

    async def _wait(self, places: Places, mine: Record, there: Kept, waited: int, *, undecided: bool) -> None:
        """For somebody else's sending, or deletion, to come to its end. The older of two sendings aborts the
        other at once, so that they never wait for each other; whoever waited long aborts it too.
        """
        other = "" if there.record is None else there.record.send
        if undecided and ((mine.send and mine.send < other) or waited == len(_WAITS)):
            await self._abort(places, other)
        elif waited < len(_WAITS):
            await self._desk.pause(_WAITS[waited] * (0.5 + self._desk.ids.fraction()))
        else:
            raise Unavailable(f"message {mine.id} is being sent or forgotten elsewhere; send it again later")

    async def _verdict(self, places: Places, name: str, there: Kept, now: float) -> Verdict:
        record = there.record
        if record is None:
            return "known"  # a later version's
        if record.state == "closed":
            return await self._of_closed(places, name)
        if record.state == "pending":
            resolved = await self._desk.resolved(places, name, there)
            if resolved is None:
                return "undecided"
            if resolved.state == "waiting":
                place = place_of(resolved, places)
                if place is not None:  # whoever sent it may not have come so far
                    await self._desk.reach.put(place)
                return "known"
            return "free"
        over = record.state == "gone" or (record.state == "done" and record.until <= now)
        return "free" if over else "known"

    async def _of_closed(self, places: Places, name: str) -> Verdict:
        """It is being deleted. Only when that is so long ago that no deletion can be under way is it free."""
        seen = await self._desk.reach.look(places.state(name))
        if seen is not None and await self._desk.reach.now() - seen.modified_at > GRACE_SECONDS:
            return "free"
        return "closing"

    async def _abort(self, places: Places, send: str) -> None:
        try:
            await abort(self._desk, places, send)
        except Retry:
            return  # left to the next sweep


async def abort(desk: Desk, places: Places, send: str) -> None:
    """Decide that it was not sent, when nobody has decided yet."""
    key = places.send(send)
    found = await desk.reach.read(key)
    sending = None if found is None else decode(found.body, Sending)
    if found is None or sending is None or sending.state != "open":
        return
    aborted = structs.replace(sending, state="aborted", nonce=desk.ids.ulid())
    await desk.reach.swap(key, encode(aborted), found.version)
