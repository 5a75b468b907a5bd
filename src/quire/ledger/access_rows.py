"""Between rows and values, for keys and webhooks: the same columns in the same order in every adapter."""

from collections.abc import Sequence

from quire.ledger.access import ApiKey
from quire.ledger.hooks import Webhook, WebhookDelivery
from quire.ledger.rows import Row
from quire.model.errors import Missing


def key_columns(key: ApiKey) -> Row:
    return (
        *(key.id, key.label, key.hint, key.hash, key.scope, key.tenant, key.created_at, key.expires_at),
        *(key.revoked_at, key.last_used_at, key.requests_per_minute, key.max_batches, key.max_bytes),
    )


def key_of(row: Row | None, name: str) -> ApiKey:
    if row is None:
        raise Missing(f"there is no key {name[:80]}", code="unknown_key")
    return ApiKey(
        id=row[0],
        label=row[1],
        hint=row[2],
        hash=row[3],
        scope=row[4],
        tenant=row[5],
        created_at=row[6],
        expires_at=row[7],
        revoked_at=row[8],
        last_used_at=row[9],
        requests_per_minute=row[10],
        max_batches=row[11],
        max_bytes=row[12],
    )


def hook_of(row: Row | None, name: str, kinds: Sequence[str]) -> Webhook:
    """`kinds` as the adapter has decoded them."""
    if row is None:
        raise Missing(f"there is no webhook {name[:80]}", code="unknown_hook")
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


def delivery_of(row: Row) -> WebhookDelivery:
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


def no_batch(batch_id: str) -> Missing:
    return Missing(f"there is no batch {batch_id[:80]}", code="unknown_batch")
