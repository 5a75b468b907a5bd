"""Use cases on webhooks: add, list, disable, inspect deliveries and send them again.

Promises: a secret is shown once, when its webhook is added; a URL that would never be called is refused at
once. Must not know: HTTP and the terminal. `sender` sends the deliveries.
"""

import difflib
import secrets
from collections.abc import Callable, Sequence

from msgspec import Struct

from quire.events.messages import new_secret
from quire.events.port import Webhook, WebhookDelivery, WebhookStore
from quire.model.clock import Clock, timestamp
from quire.model.errors import Reject
from quire.model.ids import Ids
from quire.tools.outgoing_client import OutgoingClient

# Every kind of event that a batch can have; a test compares them with the kinds that the code writes.
KINDS = (
    "batch_opened",
    "batch_finalized",
    "batch_started",
    "phase_started",
    "phase_retry",
    "batch_held",
    "batch_paused",
    "batch_resumed",
    "batch_prioritised",
    "batch_retried",
    "batch_reopened",
    "batch_cancelled",
    "batch_reset",
    "batch_failed",
    "batch_done",
    "batch_processed_elsewhere",
    "staging_swept",
)
MAX_REDELIVERIES = 1000
MAX_WEBHOOKS = 100  # of one batch, and of all batches: every event is sent to each of them


class WebhookContext(Struct, frozen=True, kw_only=True):
    """The components that use cases on webhooks need."""

    store: WebhookStore
    outgoing: OutgoingClient
    clock: Clock
    ids: Ids
    chance: Callable[[int], bytes] = secrets.token_bytes


class HookLine(Struct, frozen=True, kw_only=True):
    """A webhook for people and programs, without its secret. `batch_id` None: events of all batches."""

    id: str
    url: str
    batch_id: str | None
    kinds: list[str]
    created_at: str
    disabled_at: str | None
    disabled_reason: str | None


class NewHook(Struct, frozen=True, kw_only=True):
    """`secret` signs the deliveries; this is the only time it is shown."""

    secret: str
    hook: HookLine


class DeliveryLine(Struct, frozen=True, kw_only=True):
    """The next page of the log starts after `no`. `state`: waiting, delivered, failed."""

    no: int
    id: str
    hook_id: str
    batch_id: str
    event_no: int
    type: str
    happened_at: str
    state: str
    tries: int
    next_at: str | None
    last_status: int | None
    last_error: str | None
    last_tried_at: str | None


async def add_webhook(
    context: WebhookContext, *, url: str, batch_id: str = "", kinds: Sequence[str] = ()
) -> NewHook:
    """Send events from now on to this URL; without kinds, all of them. Raises Reject for a URL that is never
    called, for an unknown kind and at the limit of webhooks, Missing for an unknown batch.
    """
    wanted = tuple(dict.fromkeys(kind.removeprefix("quire.") for kind in kinds))
    for kind in wanted:
        _check_kind(kind)
    hook = Webhook(
        id=f"hook_{context.ids.ulid()}",
        url=context.outgoing.check_url(url),
        secret=new_secret(context.chance),
        batch_id=batch_id,
        kinds=wanted,
        created_at=context.clock.now(),
    )
    active = [one for one in await context.store.list_webhooks(batch_id=batch_id) if one.disabled_at is None]
    if len(active) >= MAX_WEBHOOKS:
        raise Reject(
            f"there are {len(active)} webhooks already, which is the limit; remove one first",
            code="too_many_webhooks",
        )
    await context.store.add_webhook(hook)
    return NewHook(secret=hook.secret, hook=to_line(hook))


async def list_webhooks(context: WebhookContext, *, batch_id: str | None = None) -> list[HookLine]:
    """All, or those of one batch ("" is those of all batches), oldest first."""
    return [to_line(hook) for hook in await context.store.list_webhooks(batch_id=batch_id)]


async def disable_webhook(
    context: WebhookContext, hook_id: str, *, reason: str = "disabled by a person"
) -> HookLine:
    """Send nothing more to this webhook, not even waiting deliveries. May be repeated. Raises Missing."""
    return to_line(await context.store.disable_webhook(hook_id, reason=reason, now=context.clock.now()))


async def list_deliveries(
    context: WebhookContext,
    *,
    hook_id: str | None = None,
    batch_id: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[DeliveryLine]:
    """The log of deliveries, newest first."""
    found = await context.store.list_deliveries(
        hook_id=hook_id, batch_id=batch_id, before=before, limit=limit
    )
    return [to_delivery_line(one) for one in found]


async def redeliver(context: WebhookContext, nos: Sequence[int]) -> int:
    """Send these deliveries again, under their old ids; returns how many. Those of disabled webhooks stay."""
    if len(nos) > MAX_REDELIVERIES:
        raise Reject(f"at most {MAX_REDELIVERIES} deliveries at once", code="bad_request")
    return await context.store.redeliver(list(nos), now=context.clock.now())


def to_line(hook: Webhook) -> HookLine:
    return HookLine(
        id=hook.id,
        url=hook.url,
        batch_id=hook.batch_id or None,
        kinds=list(hook.kinds),
        created_at=timestamp(hook.created_at),
        disabled_at=_format_moment(hook.disabled_at),
        disabled_reason=hook.disabled_reason or None,
    )


def to_delivery_line(one: WebhookDelivery) -> DeliveryLine:
    return DeliveryLine(
        no=one.no,
        id=one.id,
        hook_id=one.hook_id,
        batch_id=one.batch_id,
        event_no=one.event_no,
        type=f"quire.{one.kind}",
        happened_at=timestamp(one.happened_at),
        state=one.state,
        tries=one.tries,
        next_at=_format_moment(one.next_at),
        last_status=one.last_status,
        last_error=one.last_error or None,
        last_tried_at=_format_moment(one.last_tried_at),
    )


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        near = difflib.get_close_matches(kind[:80], KINDS, n=1)
        advice = f"did you mean {near[0]}?" if near else f"choose from {', '.join(KINDS)}"
        raise Reject(f"there is no event {kind[:80]}; {advice}", code="unknown_event")


def _format_moment(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)
