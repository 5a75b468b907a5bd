"""Webhooks for people: added, listed, disabled, and what was sent to them looked at and sent again.

Promises: a secret is shown once, when its hook is added; a URL that would never be called is refused at once.
Must not know: who asks, and how it is shown. What sends is in `messenger`.
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
from quire.tools.outgoing import Outgoing

# Every kind of event that a batch can have; a test compares them with those that the code writes.
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
MOST_AT_ONCE = 1000
MOST_HOOKS = 100  # of one batch, and of all batches: each event becomes a call to every one of them


class WebhookContext(Struct, frozen=True, kw_only=True):
    """What is needed to add hooks and to look after them."""

    store: WebhookStore
    outgoing: Outgoing
    clock: Clock
    ids: Ids
    chance: Callable[[int], bytes] = secrets.token_bytes


class HookLine(Struct, frozen=True, kw_only=True):
    """A hook for people and programs, without its secret. `batch_id` None: of all batches."""

    id: str
    url: str
    batch_id: str | None
    kinds: list[str]
    created_at: str
    disabled_at: str | None
    disabled_reason: str | None


class NewHook(Struct, frozen=True, kw_only=True):
    """`secret` signs what is sent: this is the only time it is seen."""

    secret: str
    hook: HookLine


class DeliveryLine(Struct, frozen=True, kw_only=True):
    """`no` is the place in the log from which the next page goes on. `state`: waiting, delivered, failed."""

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
    desk: WebhookContext, *, url: str, batch_id: str = "", kinds: Sequence[str] = ()
) -> NewHook:
    """Events from now on are sent there. Without kinds: all. Raises Reject for a URL that is never called,
    for a kind that does not exist and when there are enough of them, Missing for an unknown batch.
    """
    wanted = tuple(dict.fromkeys(kind.removeprefix("quire.") for kind in kinds))
    for kind in wanted:
        _check_kind(kind)
    hook = Webhook(
        id=f"hook_{desk.ids.ulid()}",
        url=desk.outgoing.checked(url),
        secret=new_secret(desk.chance),
        batch_id=batch_id,
        kinds=wanted,
        created_at=desk.clock.now(),
    )
    active = [one for one in await desk.store.list_webhooks(batch_id=batch_id) if one.disabled_at is None]
    if len(active) >= MOST_HOOKS:
        raise Reject(
            f"there are {len(active)} webhooks already, which is the limit; remove one first",
            code="too_many_webhooks",
        )
    await desk.store.add_webhook(hook)
    return NewHook(secret=hook.secret, hook=hook_line(hook))


async def show_webhook(desk: WebhookContext, hook_id: str) -> HookLine:
    """Raises Missing."""
    return hook_line(await desk.store.get_webhook(hook_id))


async def list_webhooks(desk: WebhookContext, *, batch_id: str | None = None) -> list[HookLine]:
    """All, or those of one batch ("" is those of all batches), oldest first."""
    return [hook_line(hook) for hook in await desk.store.list_webhooks(batch_id=batch_id)]


async def disable_webhook(
    desk: WebhookContext, hook_id: str, *, reason: str = "disabled by a person"
) -> HookLine:
    """Nothing more goes there, not even what waits. May be repeated. Raises Missing."""
    return hook_line(await desk.store.disable_webhook(hook_id, reason=reason, now=desk.clock.now()))


async def list_deliveries(
    desk: WebhookContext,
    *,
    hook_id: str | None = None,
    batch_id: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[DeliveryLine]:
    """The log, newest first."""
    found = await desk.store.list_deliveries(hook_id=hook_id, batch_id=batch_id, before=before, limit=limit)
    return [delivery_line(one) for one in found]


async def redeliver(desk: WebhookContext, nos: Sequence[int]) -> int:
    """Send these once more, under their old ids; how many there were. Those of disabled hooks stay."""
    if len(nos) > MOST_AT_ONCE:
        raise Reject(f"at most {MOST_AT_ONCE} deliveries at once", code="bad_request")
    return await desk.store.redeliver(list(nos), now=desk.clock.now())


def hook_line(hook: Webhook) -> HookLine:
    return HookLine(
        id=hook.id,
        url=hook.url,
        batch_id=hook.batch_id or None,
        kinds=list(hook.kinds),
        created_at=timestamp(hook.created_at),
        disabled_at=_moment(hook.disabled_at),
        disabled_reason=hook.disabled_reason or None,
    )


def delivery_line(one: WebhookDelivery) -> DeliveryLine:
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
        next_at=_moment(one.next_at),
        last_status=one.last_status,
        last_error=one.last_error or None,
        last_tried_at=_moment(one.last_tried_at),
    )


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        near = difflib.get_close_matches(kind[:80], KINDS, n=1)
        advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(KINDS)}"
        raise Reject(f"there is no event {kind[:80]}; {advice}", code="unknown_event")


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)
