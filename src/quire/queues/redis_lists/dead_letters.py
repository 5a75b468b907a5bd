"""Dead letters of queues on Redis lists: list, replay, discard.

The list `QUEUE:dead` has them as they were sent. Operators may also move one back with their own tools: the
reason that stands beside it does no harm then.
"""

import json
from collections.abc import Callable
from typing import Any

from quire.model.errors import Missing, Reject
from quire.queues.port import DeadLetter, DeadLetterFilter, FailedDelivery
from quire.queues.redis_lists.forms import WireForm
from quire.queues.rows import has_text, list_ids

_FIELDS = 3
# How many are read in one call: each may have a body of megabytes.
_PAGE = 50
_AT_ONCE = 1000


class RedisListDeadLetters:
    _form: Callable[[str], WireForm]
    _run: Callable[..., Any]
    _read_sent_at: Callable[[bytes], float | None]

    async def list_dead_letters(
        self, queue: str, *, chosen: DeadLetterFilter = DeadLetterFilter(), after: int = 0, limit: int
    ) -> list[DeadLetter]:
        found: list[DeadLetter] = []
        ids = list_ids(chosen)
        if ids == [] or limit <= 0:
            return found
        first = 0
        while len(found) < limit:
            flat = await self._run("dead_letters", queue, first, _PAGE)
            letters = [
                self._to_dead_letter(queue, *flat[place : place + _FIELDS])
                for place in range(0, len(flat), _FIELDS)
            ]
            found += [one for one in letters if one.no > after and _is_chosen(one, chosen, ids)]
            if len(letters) < _PAGE:
                break
            first += _PAGE
        return found[:limit]

    async def get_dead_letter(self, queue: str, message_id: str) -> DeadLetter:
        for letter in await self.list_dead_letters(queue, chosen=DeadLetterFilter(ids=[message_id]), limit=1):
            return letter
        raise Missing(f"queue {queue} has no dead letter {message_id}")

    async def count_dead_letters(self, queue: str) -> dict[str, int]:
        counted: dict[str, int] = {}
        for letter in await self.list_dead_letters(queue, limit=2**31):
            counted[letter.error_class] = counted.get(letter.error_class, 0) + 1
        return dict(sorted(counted.items(), key=lambda one: (-one[1], one[0])))

    async def replay(
        self,
        queue: str,
        *,
        chosen: DeadLetterFilter = DeadLetterFilter(),
        now: float,
        per_second: float = 0,
        limit: int,
    ) -> int:
        apart = 1 / per_second if per_second > 0 else 0.0
        return await self._resolve(queue, "replay", chosen, now=now, apart=apart, limit=limit)

    async def discard(
        self, queue: str, *, chosen: DeadLetterFilter = DeadLetterFilter(), now: float, limit: int
    ) -> int:
        return await self._resolve(queue, "discard", chosen, now=now, apart=0.0, limit=limit)

    async def _resolve(
        self, queue: str, act: str, chosen: DeadLetterFilter, *, now: float, apart: float, limit: int
    ) -> int:
        """Those that another call took meanwhile are skipped."""
        letters = await self.list_dead_letters(queue, chosen=chosen, limit=limit)
        trial = json.dumps({"at": float(now), "ending": "replayed"})[1:]
        resolved = 0
        for first in range(0, len(letters), _AT_ONCE):
            ids = [one.id for one in letters[first : first + _AT_ONCE]]
            start = repr(float(now + apart * first))
            resolved += await self._run("resolve", queue, act, start, repr(apart), trial, *ids)
        return resolved

    def _to_dead_letter(self, queue: str, name: bytes, stored: bytes, told: bytes) -> DeadLetter:
        first, *history = told.decode("utf-8", "replace").splitlines()
        known: dict[str, Any] = json.loads(first)
        try:
            body = self._form(queue).to_body(stored)
        except Reject:
            body = stored  # what was given up because it is no message is shown as it is
        return DeadLetter(
            no=known["no"],
            queue=queue,
            id=name.decode("utf-8", "replace"),
            body=body,
            priority=3,
            deliveries=known.get("deliveries", 0),
            sent_at=self._read_sent_at(body) or 0.0,
            buried_at=known.get("buried_at", 0.0),
            error_class=known.get("error_class", ""),
            reason=known.get("reason", ""),
            history=tuple(FailedDelivery(**json.loads(line)) for line in history),
        )


def _is_chosen(letter: DeadLetter, chosen: DeadLetterFilter, ids: list[str] | None) -> bool:
    return (
        (ids is None or letter.id in ids)
        and (chosen.error_class is None or letter.error_class == chosen.error_class)
        and (not chosen.text or has_text(letter, chosen.text))
    )
