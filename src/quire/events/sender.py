"""Sends what is due to webhooks, again and later each time until it is taken or given up.

Promises: at least once, in no order; a try that is not told of (because we died) is made again when its lease
is over; one slow receiver holds up its own slot alone. Receivers cannot make us wait longer than a day.
"""

import asyncio
import logging
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Protocol

from msgspec import Struct

from quire.events.messages import body_of, headers_of
from quire.events.port import WebhookDelivery, WebhookStore
from quire.model.clock import Clock
from quire.model.errors import Reject, Retry, Unavailable
from quire.model.signal import Signal
from quire.tools.outgoing import Answer

_log = logging.getLogger("quire.webhooks")

# Waits after the first, second … try; the tenth is the last one, three and a half days after the first.
DELAYS_SECONDS = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
LONGEST_DELAY_SECONDS = 86_400.0
JITTER = 0.2  # of a wait, half of it either way: a receiver that was away is not met by all at once
LEASE_GRACE_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 1.0  # nobody wakes us for what this process writes down itself
SHORTEST_WAIT_SECONDS = 0.05  # what is due may be in somebody else's hands
AWAY_SECONDS = 5.0
GRACE_SECONDS = 5.0
GONE = 410
ASKS_FOR_TIME = frozenset({429, 503})


class HttpPost(Protocol):
    async def post(self, url: str, *, body: bytes, headers: dict[str, str]) -> Answer: ...


class DeliveryPolicy(Struct, frozen=True, kw_only=True):
    max_tries: int = 10
    timeout_seconds: float = 15.0
    at_once: int = 16


class WebhookSender:
    def __init__(
        self,
        *,
        store: WebhookStore,
        outgoing: HttpPost,
        clock: Clock,
        signal: Signal,
        fraction: Callable[[], float],
        source: str,
        policy: DeliveryPolicy = DeliveryPolicy(),  # noqa: B008 - frozen
    ) -> None:
        """`source` says in each event who sends it: the server's public URL, or any other name of it."""
        self._store = store
        self._outgoing = outgoing
        self._clock = clock
        self._signal = signal
        self._fraction = fraction
        self._source = source
        self._policy = policy
        self._sending: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """Something may be due."""
        self._signal.set()

    async def turn(self) -> int:
        """Send what is due now, as many as go at once; returns when all are answered. How many it were."""
        taken = await self._take(self._policy.at_once)
        await asyncio.gather(*(self._send(one) for one in taken))
        return len(taken)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`; what is being sent then has a few seconds. Waits while the ledger is away."""
        stopping = asyncio.ensure_future(self._wake_at(stop))
        try:
            while not stop.is_set():
                await self._signal.wait(await self._begun())
        finally:
            stopping.cancel()
            await self._wind_down()

    async def _begun(self) -> float:
        """Begin to send what is due; how long to wait for more."""
        try:
            for one in await self._take(self._policy.at_once - len(self._sending)):
                task = asyncio.ensure_future(self._send(one))
                self._sending.add(task)
                task.add_done_callback(self._sent)
            if len(self._sending) >= self._policy.at_once:
                return LONGEST_WAIT_SECONDS
            following = await self._store.next_delivery_at()
        except Unavailable:
            return AWAY_SECONDS
        if following is None:
            return LONGEST_WAIT_SECONDS
        return min(LONGEST_WAIT_SECONDS, max(SHORTEST_WAIT_SECONDS, following - self._clock.now()))

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._signal.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("delivery_untold: it comes again when its lease is over", exc_info=error)

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._signal.set()

    async def _wind_down(self) -> None:
        if self._sending:
            await asyncio.wait(self._sending, timeout=GRACE_SECONDS)
        for task in list(self._sending):
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def _take(self, limit: int) -> list[WebhookDelivery]:
        if limit <= 0:
            return []
        lease_seconds = self._policy.timeout_seconds + LEASE_GRACE_SECONDS
        return await self._store.lease_deliveries(
            limit=limit, now=self._clock.now(), lease_seconds=lease_seconds
        )

    async def _send(self, delivery: WebhookDelivery) -> None:
        try:
            try:
                tried = await self._tried(delivery)
            except Unavailable:
                raise
            except Exception:  # noqa: BLE001 - one that cannot be sent must not end the sending of all others
                _log.exception("delivery_broken: %s", delivery.id)
                tried = _Tried(error="it could not be made", next_at=self._next_at(delivery))
            await self._store.record_try(
                delivery.no,
                tries=delivery.tries,
                status=tried.status,
                error=tried.error,
                next_at=tried.next_at,
                now=self._clock.now(),
            )
            if tried.status == GONE:
                await self._disable(delivery.hook_id)
        except Unavailable:
            _log.warning("delivery_untold: %s comes again when its lease is over", delivery.id)

    async def _tried(self, delivery: WebhookDelivery) -> "_Tried":
        hook = await self._store.get_webhook(delivery.hook_id)
        if hook.disabled_at is not None:
            # Disabled while its event was being written down.
            return _Tried(error="the webhook was disabled")
        body = body_of(delivery, self._source)
        headers = headers_of(delivery, body, hook.secret, now=self._clock.now())
        try:
            answer = await self._outgoing.post(hook.url, body=body, headers=headers)
        except Reject as refused:
            return _Tried(error=str(refused))
        except Retry as failed:
            return _Tried(error=str(failed), next_at=self._next_at(delivery))
        status = answer.status
        if 200 <= status < 300:
            return _Tried(status=status)
        if status == GONE:
            return _Tried(status=status, error="the receiver is gone: the answer was 410")
        words = "redirects are not followed" if 300 <= status < 400 else "not accepted"
        at = self._next_at(delivery, _told_seconds(answer, self._clock.now()))
        return _Tried(status=status, error=f"{words}: the answer was {status}", next_at=at)

    async def _disable(self, hook_id: str) -> None:
        _log.warning("hook_disabled: %s answered 410", hook_id)
        reason = "the receiver answered 410 Gone"
        await self._store.disable_webhook(hook_id, reason=reason, now=self._clock.now())

    def _next_at(self, delivery: WebhookDelivery, told_seconds: float = 0.0) -> float | None:
        """When to try again; None: it was the last try."""
        if delivery.tries >= self._policy.max_tries:
            return None
        delay = DELAYS_SECONDS[min(delivery.tries, len(DELAYS_SECONDS)) - 1]
        delay *= 1 + JITTER * (self._fraction() - 0.5)
        return self._clock.now() + max(delay, min(told_seconds, LONGEST_DELAY_SECONDS))


class _Tried(Struct, frozen=True, kw_only=True):
    """How a try ended; without an error it was delivered, without `next_at` it was the last one."""

    status: int | None = None
    error: str = ""
    next_at: float | None = None


def _told_seconds(answer: Answer, now: float) -> float:
    """What Retry-After asks for, where it counts: seconds, or a date."""
    text = answer.retry_after.strip()
    if answer.status not in ASKS_FOR_TIME or not text:
        return 0.0
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return 0.0
