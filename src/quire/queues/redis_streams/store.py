"""Every queue port on one Redis server."""

from quire.model.ids import Ids
from quire.model.probe import Probe
from quire.queues.redis_probe import probe
from quire.queues.redis_server import CONNECTIONS, TIMEOUT_SECONDS, Server
from quire.queues.redis_streams.dead_letters import RedisDeadLetters
from quire.queues.redis_streams.keys import RedisKeys
from quire.queues.redis_streams.messages import RedisMessages
from quire.queues.redis_streams.overview import RedisOverview

SCRIPTS = "quire.queues.redis_streams.lua"


class RedisStreamQueues(RedisMessages, RedisDeadLetters, RedisOverview):
    """Connects when it is first used; end with `await close()`."""

    def __init__(
        self,
        url: str,
        *,
        ids: Ids,
        prefix: str = "quire",
        connections: int = CONNECTIONS,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """All keys begin with `prefix`, so that several installations may share a server.

        Raises Misconfigured for a missing extra, a malformed URL or prefix.
        """
        self._server = Server(url, scripts=SCRIPTS, connections=connections, timeout_seconds=timeout_seconds)
        self._keys = RedisKeys(prefix)
        self._ids = ids

    def __repr__(self) -> str:
        return f"RedisStreamQueues({self._server.name})"

    async def probe(self) -> list[Probe]:
        """Warnings of what this server may lose. Raises Misconfigured for one that cannot be trusted."""
        return await probe(self._server)

    async def close(self) -> None:
        """May be repeated."""
        await self._server.close()
