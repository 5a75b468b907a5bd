"""Webhooks, their deliveries, and where both are stored.

The ledger writes a delivery in the transaction of its event: either both are there, or neither.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class Webhook(Struct, frozen=True, kw_only=True):
    """`batch_id` empty: events of all batches. `kinds` empty: every kind of event."""

    id: str
    url: str
    secret: str  # whsec_…: deliveries are signed with it, so it must be stored as it is
    batch_id: str = ""
    kinds: tuple[str, ...] = ()
    created_at: float = 0.0
    disabled_at: float | None = None
    disabled_reason: str = ""


class WebhookDelivery(Struct, frozen=True, kw_only=True):
    """One event for one webhook. `state`: waiting, delivered, failed."""

    no: int
    id: str  # the same for all tries: receivers recognise a repetition by it
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
    async def add_webhook(self, hook: Webhook) -> None:
        """Events from now on are delivered to this webhook. Raises Missing for an unknown batch, Stale when
        the id is taken.
        """
        ...

    async def get_webhook(self, hook_id: str) -> Webhook:
        """Raises Missing."""
        ...

    async def list_webhooks(self, *, batch_id: str | None = None) -> list[Webhook]:
        """All, or those of one batch ("" is those of all batches), oldest first."""
        ...

    async def disable_webhook(self, hook_id: str, *, reason: str, now: float) -> Webhook:
        """Nothing more is sent to it, and its waiting deliveries fail. Raises Missing. May be repeated."""
        ...

    async def lease_deliveries(
        self, *, limit: int, now: float, lease_seconds: float
    ) -> list[WebhookDelivery]:
        """Deliveries that are due, oldest first. Leasing counts a try. Nobody else gets a delivery before its
        lease runs out: when a sender dies, its deliveries are sent again.
        """
        ...

    async def next_delivery_at(self) -> float | None:
        """When the next delivery is due; None: none is waiting."""
        ...

    async def record_try(
        self, no: int, *, tries: int, status: int | None, error: str, next_at: float | None, now: float
    ) -> None:
        """How the try with this number ended. Error empty: delivered. `next_at` None with an error: given up.
        No effect when another try has started since.
        """
        ...

    async def list_deliveries(
        self,
        *,
        hook_id: str | None = None,
        batch_id: str | None = None,
        before: int | None = None,
        limit: int,
    ) -> list[WebhookDelivery]:
        """The log of deliveries, newest first."""
        ...

    async def redeliver(self, nos: Sequence[int], *, now: float) -> int:
        """Make these deliveries due now, whatever their state; how many there were. Deliveries to disabled
        webhooks stay as they are.
        """
        ...
