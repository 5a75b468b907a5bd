"""Send, lease and settle messages of queues on Redis lists."""

import asyncio
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence

from quire.model.errors import Lost, Reject, Unavailable
from quire.model.ids import Ids
from quire.queues.checks import check_messages
from quire.queues.port import DEDUPE_SECONDS, LeasedMessage, Message
from quire.queues.redis_lists.forms import WireForm
from quire.queues.redis_lists.keys import ListKeys
from quire.queues.redis_lists.rq import KEEP_FINISHED_SECONDS, format_moment
from quire.queues.redis_server import Argument, Server

# Longer waits end in between: so a connection that died silently is noticed.
LONGEST_WAIT_SECONDS = 300.0
GRACE_SECONDS = 5.0
# How often lists of workers that show no sign of life are looked for, beside the leases that run out.
RECOVER_SECONDS = 60.0
TOO_LARGE = "message_too_large"
_FIELDS = 4


class RedisListMessages:
    _server: Server
    _ids: Ids
    _known: dict[str, ListKeys]
    _forms: Mapping[str, WireForm]  # of the queues in the RQ form
    _plain: WireForm
    _max_bytes: int
    _worker: str
    _read_sent_at: Callable[[bytes], float | None]
    _recover_at: dict[str, float]

    def _keys(self, queue: str) -> ListKeys:
        known = self._known.get(queue)
        if known is None:
            known = self._known[queue] = ListKeys(queue, rq=queue in self._forms)
        return known

    def _form(self, queue: str) -> WireForm:
        return self._forms.get(queue, self._plain)

    async def _run(self, script: str, queue: str, *values: Argument) -> object:
        keys = self._keys(queue)
        return await self._server.run(script, keys.every, *keys.form, *values)

    async def send(
        self, queue: str, messages: Sequence[Message], *, now: float, delay_seconds: float = 0
    ) -> int:
        """Ids are known for a day. An answer that was lost is harmless therefore: sending again sends nothing
        new. Priorities are ignored.
        """
        form = self._form(queue)
        stored = [
            (message.id, *form.to_stored(message, now=now))
            for message in check_messages(messages, max_bytes=self._max_bytes)
        ]
        if not stored:
            return 0
        flat = (part for one in stored for part in one)
        moments = (_text(now), _text(now + max(0.0, delay_seconds)), _text(now - DEDUPE_SECONDS))
        new = await self._run("send", queue, *moments, len(stored[0]), *flat)
        return int(str(new))

    async def lease(
        self, queue: str, *, limit: int, seconds: float, now: float, worker: str = ""
    ) -> list[LeasedMessage]:
        """What cannot be a message (larger than the limit, an RQ job that is no text) becomes a dead letter
        on the way.
        """
        if limit <= 0:
            return []
        # It becomes part of a key: whatever it is called, as text.
        worker = worker.encode("utf-8", "replace").decode() or self._worker
        await self._recover(queue, now)
        good: list[LeasedMessage] = []
        while True:
            wanted = limit - len(good)
            found = await self._lease(queue, limit=wanted, seconds=seconds, now=now, worker=worker)
            read = [await self._read(one, now) for one in found]
            good += [one for one in read if one is not None]
            # Ends: each further round has given up at least one.
            if len(found) < wanted or len(good) == limit:
                return good

    async def _lease(
        self, queue: str, *, limit: int, seconds: float, now: float, worker: str
    ) -> list[LeasedMessage]:
        """With bodies as they are stored."""
        too_large = json.dumps(f"it is larger than {self._max_bytes} bytes")
        values = (_text(now), _text(now + seconds), self._ids.ulid(), worker, limit, self._max_bytes)
        more = (_whole(seconds), json.dumps(TOO_LARGE), too_large, format_moment(max(0.0, now)))
        flat = await self._run("lease", queue, *values, *more)
        assert isinstance(flat, list)  # noqa: S101 - for the type checker: the script answers with a list
        return [
            LeasedMessage(
                queue=queue,
                id=flat[place].decode("utf-8", "replace"),
                body=flat[place + 1],
                deliveries=flat[place + 2],
                token=flat[place + 3].decode(),
                sent_at=now,
            )
            for place in range(0, len(flat), _FIELDS)
        ]

    async def _read(self, leased: LeasedMessage, now: float) -> LeasedMessage | None:
        try:
            body = self._form(leased.queue).to_body(leased.body)
        except Reject as error:
            await self.dead_letter(leased, now=now, reason=str(error), error_class=error.code)
            return None
        sent_at = self._read_sent_at(body)
        return LeasedMessage(
            queue=leased.queue,
            id=leased.id,
            body=body,
            deliveries=leased.deliveries,
            token=leased.token,
            sent_at=now if sent_at is None else min(now, sent_at),
        )

    async def _recover(self, queue: str, now: float) -> None:
        """Return what is in lists of workers without a sign of life and leased by nobody."""
        if now < self._recover_at.get(queue, -math.inf):
            return
        keys = self._keys(queue)
        cursor: Argument = 0
        while True:
            answer = await self._server.ask("SCAN", cursor, "MATCH", keys.processing_pattern, "COUNT", 1000)
            cursor, names = answer
            for name in names:
                await self._run("recover", queue, keys.worker_of(name))
            if int(cursor) == 0:
                break
        self._recover_at[queue] = now + RECOVER_SECONDS

    async def wait(self, queues: Collection[str], *, seconds: float) -> None:
        seconds = min(seconds, LONGEST_WAIT_SECONDS)
        if seconds <= 0:
            return
        if not queues:
            await asyncio.sleep(seconds)
            return
        waiting = [asyncio.ensure_future(self._wait_for(name, seconds)) for name in sorted(set(queues))]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for one in waiting:
                if one.done():
                    one.result()
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _wait_for(self, queue: str, seconds: float) -> None:
        keys = self._keys(queue)
        try:
            async with asyncio.timeout(seconds + GRACE_SECONDS):
                await self._server.wait_for_item(keys.list, keys.end, seconds=seconds)
        except TimeoutError as error:
            raise Unavailable(f"{self._server.name} does not answer") from error

    async def next_due(self, queue: str, *, now: float) -> float | None:
        due = await self._run("next_due", queue, _text(now))
        return float(due) if isinstance(due, bytes) else None

    async def extend(self, leased: Sequence[LeasedMessage], *, seconds: float, now: float) -> None:
        await self._on_leases("extend", leased, _text(now), _text(now + seconds), _whole(seconds))

    async def acknowledge(self, leased: Sequence[LeasedMessage], *, now: float) -> None:
        moment = format_moment(max(0.0, now))
        await self._on_leases("acknowledge", leased, _text(now), moment, KEEP_FINISHED_SECONDS)

    async def release(
        self,
        leased: LeasedMessage,
        *,
        now: float,
        delay_seconds: float = 0,
        error_class: str = "",
        error: str = "",
        counted: bool = True,
    ) -> None:
        """Behind what waits; one that is not counted comes next."""
        trial = _entry_end(at=now, ending="released", error_class=error_class, error=error)
        due = _text(now + max(0.0, delay_seconds))
        if not await self._run("release", leased.queue, _text(now), due, leased.token, int(counted), trial):
            raise _lost_error([leased.id])

    async def dead_letter(
        self, leased: LeasedMessage, *, now: float, reason: str, error_class: str = ""
    ) -> None:
        """Into the list `QUEUE:dead`, as it was sent; the reason stands beside it."""
        trial = _entry_end(at=now, ending="buried", error_class=error_class, error=reason)
        values = (_text(now), leased.token, json.dumps(error_class), json.dumps(reason), trial)
        if not await self._run("dead_letter", leased.queue, *values):
            raise _lost_error([leased.id])

    async def _on_leases(self, script: str, leased: Sequence[LeasedMessage], *values: Argument) -> None:
        by_queue: dict[str, dict[str, str]] = {}
        for one in leased:
            by_queue.setdefault(one.queue, {})[one.token] = one.id
        lost: list[str] = []
        for queue, ids in by_queue.items():
            answer = await self._run(script, queue, *values, *ids)
            assert isinstance(answer, list)  # noqa: S101 - for the type checker: the script answers with a list
            lost += [ids[token.decode()] for token in answer]
        if lost:
            raise _lost_error(lost)


def _text(seconds: float) -> str:
    """With all digits, so that it is read back as the same number."""
    return repr(float(seconds))


def _whole(seconds: float) -> int:
    return max(1, math.ceil(seconds))


def _entry_end(*, at: float, ending: str, error_class: str, error: str) -> str:
    """The end of a JSON object to which the script adds delivery and worker."""
    return json.dumps({"at": float(at), "ending": ending, "error_class": error_class, "error": error})[1:]


def _lost_error(ids: Sequence[str]) -> Lost:
    named = ", ".join(ids[:3]) + (" …" if len(ids) > 3 else "")
    return Lost(f"the lease is gone, stop working on: {named}", code="lease_lost", ids=tuple(ids))
