"""Use cases for operators: inspect queues, replay and discard dead letters, purge.

Promises: inspecting is no delivery and changes nothing; selected dead letters are counted first, and no more
than that number is changed. Must not know: HTTP and the terminal.
"""

import difflib
from collections.abc import Collection, Mapping

from msgspec import Struct

from quire.consumers.lines import DeadLine, QueueLine, WaitingLine, to_dead_line, to_waiting_line
from quire.model.clock import Clock
from quire.model.errors import Missing, Unavailable
from quire.model.queues import QueuePolicy, policy_for
from quire.queues.port import DeadLetter, DeadLetterFilter, QueueCounter, QueueStore

# Backends count by the minute; rates of fewer minutes jump, those of more hide what happens now.
RATE_SECONDS = 300.0
_MINUTE_SECONDS = 60.0
# Bodies come along, up to 128 KiB each.
PAGE = 100
CHUNK = 500


class QueueContext(Struct, frozen=True, kw_only=True):
    """The components that use cases on queues need."""

    queues: QueueStore
    policies: Mapping[str, QueuePolicy]
    clock: Clock


async def list_queues(
    context: QueueContext, *, everything: bool = False, without: Collection[str] = ()
) -> list[QueueLine]:
    """Queues that have or recently had messages; with `everything` also those that are only configured.
    Those named in `without` are left out.
    """
    names = set(await context.queues.names())
    if everything:
        names.update(context.policies)
    return [await _describe(context, name) for name in sorted(names.difference(without))]


async def find_unreachable(context: QueueContext) -> dict[str, str]:
    """The configured queues that cannot be looked at, with the reason: queues may live on several servers,
    and one of these may be away.
    """
    found = {}
    for name in sorted(context.policies):
        try:
            await context.queues.depth(name, now=context.clock.now())
        except Unavailable as error:
            found[name] = str(error)
    return found


async def _describe(context: QueueContext, name: str) -> QueueLine:
    now = context.clock.now()
    since = now - RATE_SECONDS
    since -= since % _MINUTE_SECONDS
    depth = await context.queues.depth(name, now=now)
    lately = await context.queues.counters(name, since=since)
    delivered = lately.get(QueueCounter.DELIVERED, 0)
    retried = lately.get(QueueCounter.RELEASED, 0) + lately.get(QueueCounter.EXPIRED, 0)
    policy = policy_for(name, context.policies)
    return QueueLine(
        queue=name,
        waiting=depth.waiting,
        delayed=depth.delayed,
        in_flight=depth.leased,
        dead=depth.dead,
        oldest_age_seconds=None if depth.oldest_at is None else round(max(0.0, now - depth.oldest_at), 3),
        acknowledged_per_second=round(lately.get(QueueCounter.ACKNOWLEDGED, 0) / (now - since), 3),
        retry_rate=round(retried / delivered, 4) if delivered else None,
        seconds_looked_at=round(now - since, 3),
        max_retries=policy.max_retries,
        dead_letter=policy.dead_letter,
    )


async def resolve_name(context: QueueContext, name: str) -> str:
    """The queue of this name, or the one whose dead letters have this name. Raises Missing."""
    names = {*await context.queues.names(), *context.policies}
    if name in names:
        return name
    for queue in sorted(names):
        if policy_for(queue, context.policies).dead_letter == name:
            return queue
    near = difflib.get_close_matches(name[:200], names, n=1)
    advice = f"did you mean {near[0]}?" if near else "list them with `quire queue list --all`"
    raise Missing(f"there is no queue {name[:200]}; {advice}")


async def peek(context: QueueContext, queue: str, *, limit: int) -> list[WaitingLine]:
    """The next messages in the order of delivery, then those in flight. Raises Missing."""
    name, now = await resolve_name(context, queue), context.clock.now()
    return [to_waiting_line(one, now) for one in await context.queues.peek(name, limit=limit, now=now)]


async def list_dead_letters(
    context: QueueContext, queue: str, chosen: DeadLetterFilter, *, after: int, limit: int
) -> list[DeadLine]:
    """In the order in which they became dead letters, those after number `after`. Raises Missing."""
    name = await resolve_name(context, queue)
    found: list[DeadLetter] = []
    while len(found) < limit:
        page = await context.queues.list_dead_letters(
            name, chosen=chosen, after=after, limit=min(PAGE, limit - len(found))
        )
        if not page:
            break
        found += page
        after = page[-1].no
    return [to_dead_line(letter) for letter in found]


async def count_by_error_class(context: QueueContext, queue: str) -> dict[str, int]:
    """How many of each error class, most first. Raises Missing."""
    return await context.queues.count_dead_letters(await resolve_name(context, queue))


async def show_dead_letter(context: QueueContext, queue: str, message_id: str) -> DeadLine:
    """Raises Missing."""
    return to_dead_line(await context.queues.get_dead_letter(await resolve_name(context, queue), message_id))


async def count_dead(context: QueueContext, queue: str, chosen: DeadLetterFilter) -> int:
    """How many dead letters are selected. Raises Missing for an id that does not exist: it is a mistake."""
    name = await resolve_name(context, queue)
    if chosen.ids is not None:
        for message_id in chosen.ids:
            await context.queues.get_dead_letter(name, message_id)
    if chosen.ids is None and chosen.text is None:
        classes = await context.queues.count_dead_letters(name)
        return sum(classes.values()) if chosen.error_class is None else classes.get(chosen.error_class, 0)
    count, after = 0, 0
    while page := await context.queues.list_dead_letters(name, chosen=chosen, after=after, limit=PAGE):
        count, after = count + len(page), page[-1].no
    return count


async def replay(
    context: QueueContext, queue: str, chosen: DeadLetterFilter, *, per_second: float = 0.0
) -> int:
    """Put them back into the queue, oldest first; returns how many. Raises Missing."""
    name, left = await resolve_name(context, queue), await count_dead(context, queue, chosen)
    replayed = 0
    while left > 0:
        # With a rate all at once: each call starts its own series of moments. Counted down: a replayed
        # message may be dead again before we are done, and must not be replayed for ever.
        limit = left if per_second else min(left, CHUNK)
        done = await context.queues.replay(
            name, chosen=chosen, now=context.clock.now(), per_second=per_second, limit=limit
        )
        replayed, left = replayed + done, left - limit
        if done < limit:
            break
    return replayed


async def discard(context: QueueContext, queue: str, chosen: DeadLetterFilter) -> int:
    """Delete them for good; returns how many. Raises Missing."""
    name, left = await resolve_name(context, queue), await count_dead(context, queue, chosen)
    discarded = 0
    while left > 0:
        limit = min(left, CHUNK)
        done = await context.queues.discard(name, chosen=chosen, now=context.clock.now(), limit=limit)
        discarded, left = discarded + done, left - limit
        if done < limit:
            break
    return discarded


async def count_waiting(context: QueueContext, queue: str) -> int:
    """How many messages a purge would delete. Raises Missing."""
    depth = await context.queues.depth(await resolve_name(context, queue), now=context.clock.now())
    return depth.waiting + depth.delayed


async def purge(context: QueueContext, queue: str) -> int:
    """Delete waiting and delayed messages; returns how many. Raises Missing."""
    return await context.queues.purge(await resolve_name(context, queue), now=context.clock.now())
