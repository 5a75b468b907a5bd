"""The queues on which envelopes travel, from settings: Redis lists and RQ, or Quire's own queues.

On lists, `jarvis.recipes.jobs` has the form of RQ jobs and every other name is a plain list, so that
published programs can be on the other side. Nothing connects before it is used: with Redis away a process
starts.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from quire.assembly.queues import open_queues_alone
from quire.model.envelope_reading import read_created_at
from quire.model.envelopes import MAX_ENVELOPE_BYTES, RECIPE_QUEUE
from quire.model.ids import Ids
from quire.queues.port import MAX_MESSAGE_BYTES, MessageQueues, QueueStore
from quire.settings import Settings

# Of the names that belong to published programs; those of other systems stay where they are.
PREFIX = "jarvis."


def travels_on_lists(settings: Settings) -> bool:
    chosen = settings.envelopes.transport
    return chosen == "lists" or (chosen == "auto" and bool(settings.redis.url))


def max_envelope_bytes(settings: Settings) -> int:
    """How large an envelope may be on this transport: for `encode_envelope`, which cuts texts to it."""
    return MAX_ENVELOPE_BYTES if travels_on_lists(settings) else MAX_MESSAGE_BYTES


@asynccontextmanager
async def open_envelope_queues(
    settings: Settings, ids: Ids, *, queues: QueueStore | None = None
) -> AsyncIterator[MessageQueues]:
    """Routes by the queue's name. `queues` are those that the process has open already, used when envelopes
    travel on Quire's own. Raises Misconfigured for a missing extra or a malformed URL.
    """
    async with AsyncExitStack() as stack:
        if not travels_on_lists(settings):
            if queues is None:
                queues = (await stack.enter_async_context(open_queues_alone(settings, ids))).queues
            yield queues
            return
        from quire.queues.redis_lists import RedisListQueues

        lists = RedisListQueues(
            settings.redis.url.reveal(),
            ids=ids,
            max_bytes=MAX_ENVELOPE_BYTES,
            rq_queues=(RECIPE_QUEUE,),
            read_sent_at=read_created_at,
        )
        stack.push_async_callback(lists.close)
        yield lists
