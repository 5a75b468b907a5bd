"""Withdraws messages that wait in a queue: while they are leased here, no worker can take them.

Promise: messages of other senders are released as if they had never been delivered. Must not know: what is in
the messages.
"""

from collections.abc import Collection
from contextlib import suppress

from quire.model.clock import Clock
from quire.model.errors import Lost
from quire.queues.port import LeasedMessage, MessageQueues

AT_ONCE = 1000
LEASE_SECONDS = 60.0


async def withdraw_messages(
    queues: MessageQueues, queue: str, ids: Collection[str], *, max_others: int, clock: Clock
) -> list[LeasedMessage]:
    """Acknowledge and return the messages with these ids that were waiting. At most `max_others` other
    messages are leased meanwhile. Raises Retry; then leases expire by themselves.
    """
    ours: list[LeasedMessage] = []
    others: list[LeasedMessage] = []
    while len(ours) < len(ids) and len(others) <= max_others:
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
