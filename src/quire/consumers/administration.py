"""Looking at queues and working with their dead letters, for people.

Promises: looking is no delivery and changes nothing; what is chosen is counted before it is touched, and no
more than was counted is touched. Must not know: who looks, and how it is shown.
"""

import difflib
from collections.abc import Mapping

from msgspec import Struct

from quire.consumers.lines import (
    DeadLine,
    QueueLine,
    WaitingLine,
    dead_line,
    waiting_line,
)
from quire.model.clock import Clock
from quire.model.errors import Missing
from quire.model.queues import QueuePolicy, policy_for
from quire.queues.port import DeadLetter, DeadLetterFilter, Happening, QueueStore

# Backends count by the minute; fewer minutes jump, more hide what happens now.
LOOKED_AT_SECONDS = 300.0
_MINUTE_SECONDS = 60.0
# Bodies come along, up to 128 KiB each.
PAGE = 100
AT_ONCE = 500


class QueueContext(Struct, frozen=True, kw_only=True):
    """What is needed to look and to intervene."""

    queues: QueueStore
    policies: Mapping[str, QueuePolicy]
    clock: Clock


async def list_queues(desk: QueueContext, *, everything: bool = False) -> list[QueueLine]:
    """Those that have or lately had messages; with `everything` also those that are only configured."""
    names = set(await desk.queues.names())
    if everything:
        names.update(desk.policies)
    return [await _line(desk, name) for name in sorted(names)]


async def _line(desk: QueueContext, name: str) -> QueueLine:
    now = desk.clock.now()
    since = now - LOOKED_AT_SECONDS
    since -= since % _MINUTE_SECONDS
    depth = await desk.queues.depth(name, now=now)
    lately = await desk.queues.counters(name, since=since)
    delivered = lately.get(Happening.DELIVERED, 0)
    retried = lately.get(Happening.RELEASED, 0) + lately.get(Happening.EXPIRED, 0)
    policy = policy_for(name, desk.policies)
    return QueueLine(
        queue=name,
        waiting=depth.waiting,
        delayed=depth.delayed,
        in_flight=depth.leased,
        dead=depth.dead,
        oldest_age_seconds=None if depth.oldest_at is None else round(max(0.0, now - depth.oldest_at), 3),
        acknowledged_per_second=round(lately.get(Happening.ACKNOWLEDGED, 0) / (now - since), 3),
        retry_rate=round(retried / delivered, 4) if delivered else None,
        seconds_looked_at=round(now - since, 3),
        max_retries=policy.max_retries,
        dead_letter=policy.dead_letter,
    )


async def known(desk: QueueContext, name: str) -> str:
    """The queue of this name, or the one whose dead letters are called so. Raises Missing."""
    names = {*await desk.queues.names(), *desk.policies}
    if name in names:
        return name
    for queue in sorted(names):
        if policy_for(queue, desk.policies).dead_letter == name:
            return queue
    near = difflib.get_close_matches(name[:200], names, n=1)
    advice = f"did you mean {near[0]}?" if near else "list them with `quire queue list --all`"
    raise Missing(f"there is no queue {name[:200]}; {advice}")


async def peek(desk: QueueContext, queue: str, *, limit: int) -> list[WaitingLine]:
    """The next ones in the order of delivery, then those in flight. Raises Missing."""
    name, now = await known(desk, queue), desk.clock.now()
    return [waiting_line(one, now) for one in await desk.queues.peek(name, limit=limit, now=now)]


async def dead_list(
    desk: QueueContext, queue: str, chosen: DeadLetterFilter, *, after: int, limit: int
) -> list[DeadLine]:
    """In order of burial, those after number `after`. Raises Missing."""
    name = await known(desk, queue)
    found: list[DeadLetter] = []
    while len(found) < limit:
        page = await desk.queues.dead(name, chosen=chosen, after=after, limit=min(PAGE, limit - len(found)))
        if not page:
            break
        found += page
        after = page[-1].no
    return [dead_line(letter) for letter in found]


async def dead_groups(desk: QueueContext, queue: str) -> dict[str, int]:
    """How many of each error class, most first. Raises Missing."""
    return await desk.queues.dead_classes(await known(desk, queue))


async def dead_show(desk: QueueContext, queue: str, message_id: str) -> DeadLine:
    """Raises Missing."""
    return dead_line(await desk.queues.dead_letter(await known(desk, queue), message_id))


async def count_dead(desk: QueueContext, queue: str, chosen: DeadLetterFilter) -> int:
    """How many are meant. Raises Missing for an id that is not there: nobody means it by accident."""
    name = await known(desk, queue)
    if chosen.ids is not None:
        for message_id in chosen.ids:
            await desk.queues.dead_letter(name, message_id)
    if chosen.ids is None and chosen.text is None:
        classes = await desk.queues.dead_classes(name)
        return sum(classes.values()) if chosen.error_class is None else classes.get(chosen.error_class, 0)
    count, after = 0, 0
    while page := await desk.queues.dead(name, chosen=chosen, after=after, limit=PAGE):
        count, after = count + len(page), page[-1].no
    return count


async def replay(desk: QueueContext, queue: str, chosen: DeadLetterFilter, *, per_second: float = 0.0) -> int:
    """Back into the queue, oldest first; how many. Raises Missing."""
    name, left = await known(desk, queue), await count_dead(desk, queue, chosen)
    replayed = 0
    while left > 0:
        # With a rate all at once: each call begins its own row of moments. Counted down: what is replayed may
        # be dead again before we are through, and is not to be replayed for ever.
        limit = left if per_second else min(left, AT_ONCE)
        done = await desk.queues.replay(
            name, chosen=chosen, now=desk.clock.now(), per_second=per_second, limit=limit
        )
        replayed, left = replayed + done, left - limit
        if done < limit:
            break
    return replayed


async def discard(desk: QueueContext, queue: str, chosen: DeadLetterFilter) -> int:
    """For good; how many. Raises Missing."""
    name, left = await known(desk, queue), await count_dead(desk, queue, chosen)
    discarded = 0
    while left > 0:
        limit = min(left, AT_ONCE)
        done = await desk.queues.discard(name, chosen=chosen, now=desk.clock.now(), limit=limit)
        discarded, left = discarded + done, left - limit
        if done < limit:
            break
    return discarded


async def count_waiting(desk: QueueContext, queue: str) -> int:
    """What a purge would delete. Raises Missing."""
    depth = await desk.queues.depth(await known(desk, queue), now=desk.clock.now())
    return depth.waiting + depth.delayed


async def purge(desk: QueueContext, queue: str) -> int:
    """Delete what waits or is delayed; how many. Raises Missing."""
    return await desk.queues.purge(await known(desk, queue), now=desk.clock.now())
