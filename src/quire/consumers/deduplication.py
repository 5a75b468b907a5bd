"""Runs a handler once for each batch and stage, although a message may be delivered twice.

Promise: once a stage is marked, no later delivery runs the handler, whatever its message id. A crash between
the end of the handler and the mark repeats it: what the handler writes must be the same the second time.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from quire.blobs.port import Blobs, IfAbsent
from quire.model.errors import Missing, Stale
from quire.model.ids import named_ulid
from quire.queues.port import LeasedMessage

T = TypeVar("T")


def stage_message_id(batch_id: str, stage: str) -> str:
    """The same id for the same stage of the same batch: the queue accepts it once within its window."""
    return f"{stage}-{batch_id}"


class StageMarks:
    """Marks of finished stages in the blob store."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def is_done(self, batch_id: str, stage: str) -> bool:
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
    handler: Callable[[T, LeasedMessage], Awaitable[None]],
    stage_of: Callable[[T], tuple[str, str]],
    marks: StageMarks,
) -> Callable[[T, LeasedMessage], Awaitable[None]]:
    """A handler that does nothing when the batch and stage that `stage_of` returns are done."""

    async def run_once(content: T, leased: LeasedMessage) -> None:
        batch_id, stage = stage_of(content)
        if await marks.is_done(batch_id, stage):
            return
        await handler(content, leased)
        await marks.mark(batch_id, stage)

    return run_once


def _key(batch_id: str, stage: str) -> str:
    # The names come from messages: a digest cannot lead out of its folder.
    return "stages/" + named_ulid(f"{batch_id}\0{stage}")
