"""Converts rows to webhooks and deliveries: in every adapter their columns begin with the value's fields."""

from collections.abc import Callable, Sequence
from typing import Any

from quire.events.port import Webhook, WebhookDelivery
from quire.model.errors import Missing

Row = tuple[Any, ...]


def to_webhook(row: Row | None, hook_id: str, decode_kinds: Callable[[Any], Sequence[str]]) -> Webhook:
    """Raises Missing, naming `hook_id`, when there is no row."""
    if row is None:
        raise Missing(f"there is no webhook {hook_id[:80]}", code="unknown_hook")
    columns = dict(zip(Webhook.__struct_fields__, row, strict=False))
    return Webhook(**{**columns, "kinds": tuple(decode_kinds(columns["kinds"]))})


def to_delivery(row: Row) -> WebhookDelivery:
    return WebhookDelivery(**dict(zip(WebhookDelivery.__struct_fields__, row, strict=False)))


def unknown_batch(batch_id: str) -> Missing:
    return Missing(f"there is no batch {batch_id[:80]}", code="unknown_batch")
