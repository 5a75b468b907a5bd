"""Which queues live on Redis lists, from settings: those of published programs, whose names begin alike.

Nothing connects before it is used: with Redis away a process starts, and whatever it has to send there waits
in the outbox.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from quire.model.envelope_reading import read_created_at
from quire.model.envelopes import MAX_ENVELOPE_BYTES, OCR_QUEUE, RECIPE_QUEUE
from quire.model.errors import Misconfigured, Unavailable
from quire.model.ids import Ids
from quire.model.probe import Probe
from quire.queues.port import MAX_MESSAGE_BYTES, QueueStore
from quire.queues.routed import RoutedQueues
from quire.settings import Settings
from quire.system import SystemClock, SystemIds

if TYPE_CHECKING:
    from quire.queues.redis_lists import RedisListQueues

# Of the names that belong to published programs; those of other systems stay where they are.
PREFIX = "jarvis."
PROBE_SECONDS = 15.0

_log = logging.getLogger("quire.envelopes")


def travels_on_lists(settings: Settings) -> bool:
    chosen = settings.envelopes.transport
    return chosen == "lists" or (chosen == "auto" and bool(settings.redis.url))


def max_envelope_bytes(settings: Settings) -> int:
    """How large an envelope may be on this transport: for `encode_envelope`, which cuts texts to it."""
    return MAX_ENVELOPE_BYTES if travels_on_lists(settings) else MAX_MESSAGE_BYTES


def is_on_lists(queue: str) -> bool:
    return queue.startswith(PREFIX)


def elsewhere(settings: Settings) -> Callable[[str], bool]:
    """Says of a queue's name whether its server may be away while the process's own queues are there."""
    return is_on_lists if travels_on_lists(settings) else lambda _: False


@asynccontextmanager
async def open_lists(settings: Settings, ids: Ids) -> AsyncIterator["RedisListQueues"]:
    """`jarvis.recipes.jobs` has the form of RQ jobs, every other name is a plain list. Raises Misconfigured
    for a missing extra or a malformed URL.
    """
    from quire.queues.redis_lists import RedisListQueues

    lists = RedisListQueues(
        settings.redis.url.reveal(),
        ids=ids,
        max_bytes=MAX_ENVELOPE_BYTES,
        rq_queues=(RECIPE_QUEUE,),
        names=(OCR_QUEUE,),
        read_sent_at=read_created_at,
    )
    try:
        yield lists
    finally:
        await lists.close()


async def probe_lists(settings: Settings) -> list[Probe]:
    """Whether the server of the lists answers, keeps what it takes, and throws nothing away. All that is
    wrong is a warning: a process runs without it, and what it has to send there waits.
    """
    try:
        async with open_lists(settings, SystemIds()) as lists, asyncio.timeout(PROBE_SECONDS):
            return await lists.probe()
    except Misconfigured as error:
        return [Probe(name="server", ok=False, needed=False, detail=str(error), advice="follow the message")]
    except Unavailable as error:
        detail = str(error)
    except TimeoutError:
        detail = f"no answer in {PROBE_SECONDS:g} seconds"
    advice = "start it, or correct redis.url; what is to be sent there waits until it is back"
    return [Probe(name="server", ok=False, needed=False, detail=detail, advice=advice)]


@asynccontextmanager
async def open_routed(settings: Settings, ids: Ids, main: QueueStore) -> AsyncIterator[QueueStore]:
    """The queues of a process, with those of published programs on lists where the settings say so."""
    if not travels_on_lists(settings):
        yield main
        return
    async with open_lists(settings, ids) as lists:
        yield RoutedQueues(main, lists, is_on_lists, SystemClock(), trouble=_report)


def _report(trouble: str | None) -> None:
    if trouble is None:
        _log.warning("envelopes_sent_again")
    else:
        _log.warning("envelopes_not_sent", extra={"reason": trouble})
