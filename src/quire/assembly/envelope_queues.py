"""The queues on which envelopes travel, from settings: Redis lists and RQ, or Quire's own queues.

On lists, `jarvis.recipes.jobs` has the form of RQ jobs and every other name is a plain list, so that
published programs can be on the other side. Nothing connects before it is used: with Redis away a process
starts.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from quire.assembly.queues import open_queues_alone
from quire.assembly.redis_lists import max_envelope_bytes, open_lists, travels_on_lists
from quire.model.ids import Ids
from quire.queues.port import QueueStore
from quire.settings import Settings

__all__ = ["max_envelope_bytes", "open_envelope_queues", "travels_on_lists"]


@asynccontextmanager
async def open_envelope_queues(
    settings: Settings, ids: Ids, *, queues: QueueStore | None = None
) -> AsyncIterator[QueueStore]:
    """Queues for a process that reads or writes envelopes; any name may be used, as a `reply_to` may have
    any. `queues` are those that the process has open already, used when envelopes travel on Quire's own.
    Raises Misconfigured for a missing extra or a malformed URL.
    """
    if travels_on_lists(settings):
        async with open_lists(settings, ids) as lists:
            yield lists
    elif queues is not None:
        yield queues
    else:
        async with open_queues_alone(settings, ids) as opened:
            yield opened.queues
