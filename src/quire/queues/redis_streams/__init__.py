"""Queues on Redis 6.2 or newer: a stream for each priority of a queue, read by one consumer group.

What survives is decided by the server's settings; `probe` tells which of them may lose something.

- `appendonly yes`, `appendfsync always`: every answer is on disk before it is given. A killed server or a
  power cut loses nothing that was answered.
- `appendonly yes`, `appendfsync everysec`: a killed server process loses nothing, a power cut up to the last
  two seconds: sent messages are gone, acknowledged ones are delivered again. Whole calls, never half of one.
- Snapshots only: everything since the last one. Nothing saved: everything.
- A replica that takes over has not seen the last writes, whatever the settings.
- `maxmemory-policy noeviction`: a full server refuses messages (Unavailable, `storage_full`). Policies that
  evict any key throw queues away and are refused; those that evict what expires do not touch these keys.

Every call is one script: all of it happens or nothing, and many messages cost one round trip. All keys of a
queue carry its name as hash tag, so that they lie together in a cluster.
"""

from quire.queues.redis_streams.store import RedisStreamQueues

__all__ = ["RedisStreamQueues"]
