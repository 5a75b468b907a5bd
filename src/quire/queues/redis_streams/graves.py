"""Dead letters: to look at, to replay, to discard. Nothing leaves by itself.

Error class and ids are sorted out by the server, text here: Redis knows upper and lower case of ASCII only.
"""

import json
from collections.abc import AsyncIterator

from quire.model.errors import Missing
from quire.queues.port import DEDUPE_SECONDS, Chosen, DeadLetter, Trial
from quire.queues.redis_streams.keys import Keys, moment, read, written
from quire.queues.redis_streams.server import Argument, Server

_FIELDS = 10
# How many are looked at in one call: whole ones have bodies of up to 128 KiB.
_WHOLE, _SLIM = 100, 2000


class RedisGraves:
    _server: Server
    _keys: Keys

    async def dead(
        self, queue: str, *, chosen: Chosen = Chosen(), after: int = 0, limit: int
    ) -> list[DeadLetter]:
        letters: list[DeadLetter] = []
        if limit <= 0:
            return letters
        async for letter in self._letters(queue, chosen, after=after, whole=True, most=min(limit, _WHOLE)):
            letters.append(letter)
            if len(letters) == limit:
                break
        return letters

    async def dead_letter(self, queue: str, message_id: str) -> DeadLetter:
        for letter in await self.dead(queue, chosen=Chosen(ids=[message_id]), limit=1):
            return letter
        raise Missing(f"queue {queue} has no dead letter {message_id}")

    async def dead_classes(self, queue: str) -> dict[str, int]:
        table = await self._server.table(self._keys.classes(queue))
        counted = [(read(name), int(number)) for name, number in table.items()]
        return dict(sorted(counted, key=lambda one: (-one[1], one[0])))

    async def replay(
        self, queue: str, *, chosen: Chosen = Chosen(), now: float, per_second: float = 0, limit: int
    ) -> int:
        return await self._dig(queue, chosen, limit, "replay", moment(now), moment(per_second))

    async def discard(self, queue: str, *, chosen: Chosen = Chosen(), now: float, limit: int) -> int:
        return await self._dig(queue, chosen, limit, "discard", moment(now), moment(now + DEDUPE_SECONDS))

    async def _dig(self, queue: str, chosen: Chosen, limit: int, *values: Argument) -> int:
        """Choose, then act on all in one call. Who is faster leaves fewer; none is taken twice."""
        flat: list[Argument] = []
        if limit > 0:
            async for letter in self._letters(queue, chosen, after=0, whole=bool(chosen.text), most=_SLIM):
                flat += (letter.id, letter.no)
                if len(flat) == 2 * limit:
                    break
        if not flat:
            return 0
        dug: int = await self._server.run("dig", self._keys.of(queue), *values, *flat)
        return dug

    async def _letters(
        self, queue: str, chosen: Chosen, *, after: int, whole: bool, most: int
    ) -> AsyncIterator[DeadLetter]:
        if chosen.ids is not None and not chosen.ids:
            return
        ids = sorted(set(chosen.ids or ()))
        error_class = b"" if chosen.error_class is None else written(chosen.error_class)
        only = int(chosen.error_class is not None)
        most = min(most, _WHOLE) if whole else most
        while after >= 0:
            values: tuple[Argument, ...] = (
                after,
                most,
                only,
                error_class,
                int(whole),
                *(written(name) for name in ids),
            )
            after, *flat = await self._server.run("graves", self._keys.of(queue), *values)
            for place in range(0, len(flat), _FIELDS):
                letter = _letter(queue, flat[place : place + _FIELDS])
                if _has_text(letter, chosen.text):
                    yield letter


def _letter(queue: str, fields: list[bytes]) -> DeadLetter:
    name, no, priority, deliveries, sent, buried, error_class, reason, body, trials = fields
    return DeadLetter(
        no=int(no),
        queue=queue,
        id=name.decode(),
        body=body,
        priority=int(priority),
        deliveries=int(deliveries),
        sent_at=float(sent),
        buried_at=float(buried),
        error_class=read(error_class),
        reason=read(reason),
        trials=tuple(Trial(**json.loads(line)) for line in trials.splitlines()),
    )


def _has_text(letter: DeadLetter, text: str | None) -> bool:
    wanted = (text or "").casefold()
    places = (letter.reason, letter.id, letter.body.decode("utf-8", "replace"))
    return not wanted or any(wanted in place.casefold() for place in places)
