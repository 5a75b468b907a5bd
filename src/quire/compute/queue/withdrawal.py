"""Takes messages back that wait in a queue: leased by us, they can be begun by nobody else.

Promise: messages of others are given back as if they had never been delivered. Must not know: what they are.
"""

from collections.abc import Collection
from contextlib import suppress

from quire.model.clock import Clock
from quire.model.errors import Lost
from quire.queues.port import Leased, Queues

AT_ONCE = 1000
LEASE_SECONDS = 60.0


async def withdrawn(
    queues: Queues, queue: str, ids: Collection[str], *, most: int, clock: Clock
) -> list[Leased]:
    """Those of these ids that were there, acknowledged. No more than `most` others are held meanwhile. Raises
    Retry; then leases that are out run out by themselves.
    """
    ours: list[Leased] = []
    others: list[Leased] = []
    while len(ours) < len(ids) and len(others) <= most:
        leased = await queues.lease(queue, limit=AT_ONCE, seconds=LEASE_SECONDS, now=clock.now())
        if not leased:
            break
        for one in leased:
            (ours if one.id in ids else others).append(one)
    for one in others:
        with suppress(Lost):
            await queues.release(one, now=clock.now(), counted=False)
    if not ours:
        return []
    try:
        await queues.acknowledge(ours, now=clock.now())
    except Lost as lost:
        return [one for one in ours if one.id not in lost.ids]
    return ours
