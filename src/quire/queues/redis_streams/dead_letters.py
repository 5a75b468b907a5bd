"""Dead letters: list, replay, discard.

The server filters by error class and id, this module by text: Redis ignores case of ASCII only.
"""

import json

from quire.model.errors import Missing
from quire.queues.checksums import is_intact, unseal
from quire.queues.port import DEDUPE_SECONDS, DeadLetter, DeadLetterFilter
from quire.queues.redis_server import Argument, Server
from quire.queues.redis_streams.keys import (
    RedisKeys,
    decode_id,
    decode_text,
    encode_id,
    encode_text,
    format_moment,
    read_moment,
)
from quire.queues.rows import has_text, list_ids, read_history

_FIELDS = 10
# How many are read in one call: whole ones have bodies of up to 128 KiB.
_WHOLE, _SLIM = 100, 2000


class RedisDeadLetters:
    _server: Server
    _keys: RedisKeys

    async def list_dead_letters(
        self, queue: str, *, chosen: DeadLetterFilter = DeadLetterFilter(), after: int = 0, limit: int
    ) -> list[DeadLetter]:
        return await self._find_letters(queue, chosen, after=after, limit=limit, whole=True)

    async def get_dead_letter(self, queue: str, message_id: str) -> DeadLetter:
        for letter in await self.list_dead_letters(queue, chosen=DeadLetterFilter(ids=[message_id]), limit=1):
            return letter
        raise Missing(f"queue {queue} has no dead letter {message_id}")

    async def count_dead_letters(self, queue: str) -> dict[str, int]:
        table = await self._server.table(self._keys.classes(queue))
        counted = [(decode_text(name), int(number)) for name, number in table.items()]
        return dict(sorted(counted, key=lambda one: (-one[1], one[0])))

    async def replay(
        self,
        queue: str,
        *,
        chosen: DeadLetterFilter = DeadLetterFilter(),
        now: float,
        per_second: float = 0,
        limit: int,
    ) -> int:
        return await self._resolve(
            queue, chosen, limit, "replay", format_moment(now), format_moment(per_second)
        )

    async def discard(
        self, queue: str, *, chosen: DeadLetterFilter = DeadLetterFilter(), now: float, limit: int
    ) -> int:
        return await self._resolve(
            queue, chosen, limit, "discard", format_moment(now), format_moment(now + DEDUPE_SECONDS)
        )

    async def _resolve(self, queue: str, chosen: DeadLetterFilter, limit: int, *values: Argument) -> int:
        """Select, then act on all in one call. Those that another call took meanwhile are skipped."""
        letters = await self._find_letters(queue, chosen, after=0, limit=limit, whole=bool(chosen.text))
        if not letters:
            return 0
        flat = (part for letter in letters for part in (encode_id(letter.id), letter.no))
        resolved: int = await self._server.run("resolve", self._keys.of(queue), *values, *flat)
        return resolved

    async def _find_letters(
        self, queue: str, chosen: DeadLetterFilter, *, after: int, limit: int, whole: bool
    ) -> list[DeadLetter]:
        """In order of their number, page by page; payload and history only if `whole`."""
        found: list[DeadLetter] = []
        ids = list_ids(chosen)
        if ids == []:
            return found
        page = _WHOLE if whole else _SLIM
        if chosen.text is None and chosen.error_class is None:
            page = min(page, limit)  # every one that is read matches
        error_class = b"" if chosen.error_class is None else encode_text(chosen.error_class)
        kind = (int(chosen.error_class is not None), error_class, int(whole), *(ids or ()))
        while after >= 0 and len(found) < limit:
            after, *flat = await self._server.run("dead_letters", self._keys.of(queue), after, page, *kind)
            letters = (
                _to_dead_letter(queue, flat[place : place + _FIELDS])
                for place in range(0, len(flat), _FIELDS)
            )
            found += [one for one in letters if not chosen.text or has_text(one, chosen.text)]
        return found[: max(0, limit)]


def _to_dead_letter(queue: str, fields: list[bytes]) -> DeadLetter:
    name, no, priority, deliveries, sent, buried, error_class, reason, stored, trials = fields
    body, checksum = unseal(stored)
    message_id, sent_at = decode_id(name), read_moment(sent)
    return DeadLetter(
        no=int(no),
        queue=queue,
        id=message_id,
        body=body,
        priority=int(priority),
        deliveries=int(deliveries),
        sent_at=sent_at,
        buried_at=float(buried),
        error_class=decode_text(error_class),
        reason=decode_text(reason),
        history=read_history(json.loads(line) for line in trials.splitlines()),
        is_damaged=not is_intact(queue, message_id, int(priority), sent_at, body, checksum),
    )
