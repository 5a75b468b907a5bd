"""Who wants to be told: webhooks, and the deliveries that their events make.

A delivery is written in the transaction of its event: what happened is told, or nothing has happened.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class Webhook(Struct, frozen=True, kw_only=True):
    """`batch_id` empty: of all batches. `kinds` empty: every kind of event."""

    id: str
    url: str
    secret: str  # whsec_…: it signs, so it must be known here
    batch_id: str = ""
    kinds: tuple[str, ...] = ()
    created_at: float = 0.0
    disabled_at: float | None = None
    disabled_reason: str = ""


class WebhookDelivery(Struct, frozen=True, kw_only=True):
    """One event on its way to one hook. `state`: waiting, delivered, failed."""

    no: int
    id: str  # stays the same over all tries: receivers recognise a repetition by it
    hook_id: str
    batch_id: str
    event_no: int
    kind: str
    happened_at: float
    data: str  # of the event, JSON
    state: str
    tries: int
    next_at: float | None
    last_status: int | None = None
    last_error: str = ""
    last_tried_at: float | None = None
    created_at: float = 0.0


class WebhookStore(Protocol):
    async def add_hook(self, hook: Webhook) -> None:
        """Events from now on are delivered to it. Raises Missing for an unknown batch, Stale when the id is
        taken.
        """
        ...

    async def hook(self, hook_id: str) -> Webhook:
        """Raises Missing."""
        ...

    async def hooks(self, *, batch_id: str | None = None) -> list[Webhook]:
        """All, or those of one batch ("" is those of all batches), oldest first."""
        ...

    async def disable_hook(self, hook_id: str, *, reason: str, now: float) -> Webhook:
        """Nothing more goes there; what waited for it has failed. Raises Missing. May be repeated."""
        ...

    async def due_deliveries(self, *, limit: int, now: float, lease_seconds: float) -> list[WebhookDelivery]:
        """Those to be sent now, oldest first. Each counts a try here and is not given to anybody else before
        the lease is over: who dies while sending has its delivery sent again.
        """
        ...

    async def next_delivery(self) -> float | None:
        """When the next one is due; None: none waits."""
        ...

    async def told(
        self, no: int, *, tries: int, status: int | None, error: str, next_at: float | None, now: float
    ) -> None:
        """How the try with this number ended. Error empty: it was delivered. `next_at` None with an error:
        given up. No effect when another try has begun since.
        """
        ...

    async def deliveries(
        self,
        *,
        hook_id: str | None = None,
        batch_id: str | None = None,
        before: int | None = None,
        limit: int,
    ) -> list[WebhookDelivery]:
        """The log, newest first."""
        ...

    async def redeliver(self, nos: Sequence[int], *, now: float) -> int:
        """Send these again as soon as possible, whatever became of them; how many there were. Not those of
        hooks that are disabled.
        """
        ...
