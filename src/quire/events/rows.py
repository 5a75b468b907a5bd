"""Converts rows to webhooks and deliveries: the same columns in the same order in every adapter."""

from collections.abc import Sequence
from typing import Any

from quire.events.port import Webhook, WebhookDelivery
from quire.model.errors import Missing

Row = tuple[Any, ...]


def to_webhook(row: Row | None, hook_id: str, kinds: Sequence[str]) -> Webhook:
    """`kinds` as the adapter has decoded them. Raises Missing, naming `hook_id`, when there is no row."""
    if row is None:
        raise Missing(f"there is no webhook {hook_id[:80]}", code="unknown_hook")
    return Webhook(
        id=row[0],
        url=row[1],
        secret=row[2],
        batch_id=row[3],
        kinds=tuple(kinds),
        created_at=row[5],
        disabled_at=row[6],
        disabled_reason=row[7],
    )


def to_delivery(row: Row) -> WebhookDelivery:
    return WebhookDelivery(
        no=row[0],
        id=row[1],
        hook_id=row[2],
        batch_id=row[3],
        event_no=row[4],
        kind=row[5],
        happened_at=row[6],
        data=row[7],
        state=row[8],
        tries=row[9],
        next_at=row[10],
        last_status=row[11],
        last_error=row[12],
        last_tried_at=row[13],
        created_at=row[14],
    )


def unknown_batch(batch_id: str) -> Missing:
    return Missing(f"there is no batch {batch_id[:80]}", code="unknown_batch")
