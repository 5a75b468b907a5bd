"""What the routes work with: the use cases' components, and who is asking."""

import asyncio
from collections.abc import Callable, Mapping

from msgspec import Struct, field

from quire.api.routing import Asked, Route
from quire.engine.retry import RetryPolicy
from quire.service import queue_desk
from quire.service.callbacks import Attempt
from quire.service.house import Office
from quire.service.ingest.cleaning import Terms
from quire.service.ingest.front import Front
from quire.service.webhooks import HookDesk


class Caller(Struct, frozen=True, kw_only=True):
    """Who asks. `owner` names the key, and those it was rotated to; empty: no key is needed here."""

    name: str
    owner: str = ""
    tenant: str = ""
    max_batches: int = 0
    max_bytes: int = 0


class Desk(Struct, frozen=True, kw_only=True):
    front: Front
    queue_desk: queue_desk.Desk
    hook_desk: HookDesk
    secret: bytes  # signs callbacks
    stopping: asyncio.Event
    public_url: str = ""  # where people reach this server; empty: as the asker did
    wake: Callable[[], None] = lambda: None  # something waits in the outbox
    delivered: Callable[[Attempt], None] = lambda _: None  # this attempt was settled by a callback
    policy: RetryPolicy = RetryPolicy()
    prices: Mapping[str, float] = {}  # of a second on each compute
    version: str = ""
    routes: tuple[Route, ...] = ()
    cleaning: Terms = Terms()
    cleaning_seconds: float = 0.0  # how often it is done here; 0: never
    streams: set[int] = field(default_factory=set)  # who follows a batch just now

    @property
    def office(self) -> Office:
        return self.front.office

    def base_url(self, request: Asked) -> str:
        return self.public_url.rstrip("/") or str(request.base_url).rstrip("/")
