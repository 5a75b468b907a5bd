"""Queues as published programs know them, on Redis 6.2 or newer: plain lists, and the queue of an RQ worker.

A published producer pushes, a published consumer pops, and neither can tell that the other side is ours: the
messages in the lists are the bytes that were sent. What a plain list cannot say is kept beside it: who has a
message and until when, how often it was delivered, why it was given up.

Kept of the port: at least once; leases; delays; delivery counts; dead letters with payload, reason and
history; an id that was sent is known for a day. Not kept, because the list is shared with programs that know
none of it:

- Priorities: first in, first out. A message whose lease ran out comes before all others.
- Ids: a leased message has the SHA-1 of its bytes (in the RQ form the job's id), not the sender's. Two
  messages with the same bytes count their deliveries together, and are one dead letter.
- Checksums: a byte that changed in Redis is not noticed.
- A message that a published consumer pops is gone, also for the counts.

What survives a crash of the server is decided by its settings, as with Redis streams.
"""

from quire.queues.redis_lists.store import RedisListQueues

__all__ = ["RedisListQueues"]
