"""The queues of one Redis server as published programs know them."""

from collections.abc import Callable, Collection

from quire.model.ids import Ids
from quire.model.probe import Probe
from quire.queues.redis_lists.dead_letters import RedisListDeadLetters
from quire.queues.redis_lists.forms import PlainForm
from quire.queues.redis_lists.messages import RedisListMessages
from quire.queues.redis_lists.overview import RedisListOverview
from quire.queues.redis_lists.rq import FUNCTION, RqForm
from quire.queues.redis_probe import probe
from quire.queues.redis_server import CONNECTIONS, TIMEOUT_SECONDS, Server

SCRIPTS = "quire.queues.redis_lists.lua"


class RedisListQueues(RedisListMessages, RedisListDeadLetters, RedisListOverview):
    """Connects when it is first used; end with `await close()`."""

    def __init__(
        self,
        url: str,
        *,
        ids: Ids,
        max_bytes: int,
        rq_queues: Collection[str] = (),
        names: Collection[str] = (),
        function: str = FUNCTION,
        read_sent_at: Callable[[bytes], float | None] = lambda _: None,
        connections: int = CONNECTIONS,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """`rq_queues` have the RQ form, whose jobs call `function`; all others are plain lists. `names` are
        the queues that operators see. `read_sent_at` finds in a body when it was sent. Raises Misconfigured
        for a missing extra or a malformed URL.
        """
        self._server = Server(url, scripts=SCRIPTS, connections=connections, timeout_seconds=timeout_seconds)
        self._ids = ids
        self._known = {}
        self._names = tuple(sorted({*names, *rq_queues}))
        self._forms = {name: RqForm(name, max_bytes=max_bytes, function=function) for name in rq_queues}
        self._plain = PlainForm()
        self._max_bytes = max_bytes
        self._worker = ids.ulid()
        self._read_sent_at = read_sent_at
        self._recover_at = {}

    def __repr__(self) -> str:
        return f"RedisListQueues({self._server.name})"

    async def probe(self) -> list[Probe]:
        """That the server answers, and warnings of what it may lose. Raises Misconfigured for one that cannot
        be trusted, Unavailable for one that does not answer.
        """
        found = await probe(self._server)
        return [Probe(name=f"{self._server.name} answers", ok=True), *found]

    async def close(self) -> None:
        """May be repeated."""
        await self._server.close()
