"""Consumers that may see a message twice do its work once: by (batch, stage), not by message.

Promise: once a mark is set, no later delivery runs the work, under whatever message id. Between the end of
the work and its mark a crash may come: what the work writes must be the same when it is written again.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from quire.blobs.port import Blobs, IfAbsent
from quire.model.errors import Missing, Stale
from quire.model.ids import named_ulid
from quire.queues.port import Leased

T = TypeVar("T")


def stage_message_id(batch_id: str, stage: str) -> str:
    """The same for the same stage of the same batch: the queue takes it once within its window."""
    return f"{stage}-{batch_id}"


class StageMarks:
    """Marks in the blob store, shared by all who share it."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def done(self, batch_id: str, stage: str) -> bool:
        try:
            await self._blobs.head(_key(batch_id, stage))
        except Missing:
            return False
        return True

    async def mark(self, batch_id: str, stage: str) -> None:
        """May be repeated."""
        with suppress(Stale):
            await self._blobs.put(_key(batch_id, stage), b"", condition=IfAbsent())


def once(
    handler: Callable[[T, Leased], Awaitable[None]],
    stage_of: Callable[[T], tuple[str, str]],
    marks: StageMarks,
) -> Callable[[T, Leased], Awaitable[None]]:
    """A handler that does nothing where `stage_of` names a batch and stage that are done."""

    async def guarded(content: T, leased: Leased) -> None:
        batch_id, stage = stage_of(content)
        if await marks.done(batch_id, stage):
            return
        await handler(content, leased)
        await marks.mark(batch_id, stage)

    return guarded


def _key(batch_id: str, stage: str) -> str:
    # Names come from messages: a digest cannot lead out of its folder.
    return "stages/" + named_ulid(f"{batch_id}\0{stage}")
