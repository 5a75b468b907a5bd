"""The context of the routes, and the caller of a request."""

import asyncio
from collections.abc import Callable, Mapping

from msgspec import Struct, field

from quire.access.api_keys import ApiKeyContext
from quire.api.routing import ApiRequest, Route
from quire.batches.context import BatchContext
from quire.batches.remote.attempts import AttemptAddress
from quire.batches.remote.context import RemoteContext
from quire.blobs.checked_reads import RememberedChecks
from quire.consumers import administration
from quire.engine.retry import RetryPolicy
from quire.events.webhooks import WebhookContext
from quire.ingest.cleanup import CleanupPolicy
from quire.ingest.context import IngestContext
from quire.ledger.port import OperatorAction
from quire.ledger.submissions import NO_QUOTA, OwnerQuota
from quire.ocr.service import OcrService
from quire.recipes.context import RecipeContext
from quire.recipes.photos import PhotoRules


class Caller(Struct, frozen=True, kw_only=True):
    """The caller, and how much it may have open; 0 is no limit. `owner` names the key and those it was
    rotated to; empty: no key was needed. `user` is that of a token.
    """

    name: str
    owner: str = ""
    tenant: str = ""
    max_batches: int = 0
    quota: OwnerQuota = NO_QUOTA
    user: str = ""

    @property
    def recipe_user(self) -> str:
        """Whose recipes the caller sees."""
        return self.user or self.owner or "anonymous"


class ApiContext(Struct, frozen=True, kw_only=True):
    """One context for each product room, and what this server is like."""

    ingest: IngestContext
    remote: RemoteContext
    queues: administration.QueueContext
    webhooks: WebhookContext
    keys: ApiKeyContext
    recipes: RecipeContext
    photos: PhotoRules = PhotoRules()
    max_photo_bytes: int = 10 << 20
    secrets: tuple[bytes, ...]  # by one of which URLs of callbacks and tokens of tasks are signed
    stopping: asyncio.Event
    faltering: asyncio.Event = field(default_factory=asyncio.Event)  # the engine loop of this server is down
    public_url: str = ""  # the address of this server; empty: that of the request
    wake: Callable[[], None] = lambda: None  # called when the outbox has something to send
    delivered: Callable[[AttemptAddress], None] = lambda _: None  # this attempt was settled by a callback
    policy: RetryPolicy = RetryPolicy()
    prices: Mapping[str, float] = {}  # price of a second on each compute
    bucket_prefix: str = ""  # prefix of keys as workers with access to the bucket know them
    version: str = ""
    routes: tuple[Route, ...] = ()
    cleaning: CleanupPolicy = CleanupPolicy()
    cleaning_seconds: float = 0.0  # how often this server cleans up; 0: never
    streams: set[int] = field(default_factory=set)  # open streams of events
    checks: RememberedChecks = field(default_factory=RememberedChecks)
    ocr: OcrService | None = None

    @property
    def batches(self) -> BatchContext:
        return self.ingest

    async def acted(self, caller: Caller, kind: str, data: dict[str, object], *, reason: str = "") -> None:
        """Record an action that concerns no single batch in the audit trail."""
        act = OperatorAction(actor=caller.name, reason=reason, now=self.ingest.clock.now())
        await self.ingest.control.record_action(act, kind, data)

    def base_url(self, request: ApiRequest) -> str:
        return self.public_url.rstrip("/") or str(request.base_url).rstrip("/")
