"""Sends deliveries to webhooks, each until it is accepted or given up.

Promises: each delivery is sent at least once, in no order. A try whose result was not recorded, because the
process died, is made again when its lease runs out. A slow receiver delays its own deliveries alone, and no
receiver can ask for a delay of more than a day.
"""

import asyncio
import logging
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Protocol

from msgspec import Struct

from quire.events.messages import build_body, build_headers
from quire.events.port import WebhookDelivery, WebhookStore
from quire.model.clock import Clock
from quire.model.errors import Reject, Retry, Unavailable
from quire.model.redelivery import RedeliveryPolicy
from quire.model.signal import Signal
from quire.tools.outgoing_client import PostResponse

_log = logging.getLogger("quire.webhooks")

# After the first, second … try; the tenth is the last one, three and a half days after the first.
DELAYS_SECONDS = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
LONGEST_DELAY_SECONDS = 86_400.0
JITTER = 0.2  # so that a receiver that was away does not get all deliveries at once
LEASE_GRACE_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 1.0  # deliveries that this process writes itself wake nobody
SHORTEST_WAIT_SECONDS = 0.05  # what is due may be leased by another process
AWAY_SECONDS = 5.0
GRACE_SECONDS = 5.0
GONE = 410
ASKS_FOR_TIME = frozenset({429, 503})


class HttpPost(Protocol):
    async def post(self, url: str, *, body: bytes, headers: dict[str, str]) -> PostResponse: ...


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
        """`source` names the sender in each event: the server's public URL, or any other name of it."""
        self._store = store
        self._outgoing = outgoing
        self._clock = clock
        self._signal = signal
        self._fraction = fraction
        self._source = source
        self._policy = policy
        self._redelivery = RedeliveryPolicy(
            max_tries=policy.max_tries,
            delays_seconds=DELAYS_SECONDS,
            jitter=JITTER,
            longest_requested_seconds=LONGEST_DELAY_SECONDS,
        )
        self._sending: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """Call when a delivery may be due."""
        self._signal.set()

    async def send_due(self) -> int:
        """Send at most `at_once` of the deliveries that are due; returns how many, when all have ended."""
        leased = await self._lease(self._policy.at_once)
        await asyncio.gather(*(self._send(one) for one in leased))
        return len(leased)

    async def run(self, stop: asyncio.Event) -> None:
        """Send until `stop`; deliveries under way then get a few seconds. Waits out a lost database."""
        stopping = asyncio.ensure_future(self._wake_at(stop))
        try:
            while not stop.is_set():
                await self._signal.wait(await self._start_due())
        finally:
            stopping.cancel()
            await self._finish()

    async def _start_due(self) -> float:
        """Start to send what is due; returns how many seconds to wait for more."""
        try:
            for one in await self._lease(self._policy.at_once - len(self._sending)):
                task = asyncio.ensure_future(self._send(one))
                self._sending.add(task)
                task.add_done_callback(self._on_sent)
            if len(self._sending) >= self._policy.at_once:
                return LONGEST_WAIT_SECONDS
            next_at = await self._store.next_delivery_at()
        except Unavailable:
            return AWAY_SECONDS
        if next_at is None:
            return LONGEST_WAIT_SECONDS
        return min(LONGEST_WAIT_SECONDS, max(SHORTEST_WAIT_SECONDS, next_at - self._clock.now()))

    def _on_sent(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._signal.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("delivery_not_recorded: it is sent again when its lease runs out", exc_info=error)

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._signal.set()

    async def _finish(self) -> None:
        if self._sending:
            await asyncio.wait(self._sending, timeout=GRACE_SECONDS)
        for task in list(self._sending):
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def _lease(self, limit: int) -> list[WebhookDelivery]:
        if limit <= 0:
            return []
        lease_seconds = self._policy.timeout_seconds + LEASE_GRACE_SECONDS
        return await self._store.lease_deliveries(
            limit=limit, now=self._clock.now(), lease_seconds=lease_seconds
        )

    async def _send(self, delivery: WebhookDelivery) -> None:
        try:
            try:
                result = await self._try(delivery)
            except Unavailable:
                raise
            except Exception:  # noqa: BLE001 - one that cannot be sent must not end the sending of all others
                _log.exception("delivery_broken: %s", delivery.id)
                result = _Result(error="the request could not be built", next_at=self._next_at(delivery))
            await self._store.record_try(
                delivery.no,
                tries=delivery.tries,
                status=result.status,
                error=result.error,
                next_at=result.next_at,
                now=self._clock.now(),
            )
            if result.status == GONE:
                await self._disable(delivery.hook_id)
        except Unavailable:
            _log.warning("delivery_not_recorded: %s is sent again when its lease runs out", delivery.id)

    async def _try(self, delivery: WebhookDelivery) -> "_Result":
        hook = await self._store.get_webhook(delivery.hook_id)
        if hook.disabled_at is not None:
            # Disabled while its event was being written.
            return _Result(error="the webhook was disabled")
        body = build_body(delivery, self._source)
        headers = build_headers(delivery, body, hook.secret, now=self._clock.now())
        try:
            answer = await self._outgoing.post(hook.url, body=body, headers=headers)
        except Reject as refused:
            return _Result(error=str(refused))
        except Retry as failed:
            return _Result(error=str(failed), next_at=self._next_at(delivery))
        status = answer.status
        if 200 <= status < 300:
            return _Result(status=status)
        if status == GONE:
            return _Result(status=status, error="the receiver is gone: it answered 410")
        why = "redirects are not followed" if 300 <= status < 400 else "not accepted"
        at = self._next_at(delivery, _requested_seconds(answer, self._clock.now()))
        return _Result(status=status, error=f"{why}: the receiver answered {status}", next_at=at)

    async def _disable(self, hook_id: str) -> None:
        _log.warning("hook_disabled: %s answered 410", hook_id)
        reason = "the receiver answered 410 Gone"
        await self._store.disable_webhook(hook_id, reason=reason, now=self._clock.now())

    def _next_at(self, delivery: WebhookDelivery, requested_seconds: float = 0.0) -> float | None:
        """The moment of the next try; None: give up."""
        delay_seconds = self._redelivery.next_delay_seconds(
            delivery.tries, self._fraction(), requested_seconds=requested_seconds
        )
        return None if delay_seconds is None else self._clock.now() + delay_seconds


class _Result(Struct, frozen=True, kw_only=True):
    """How a try ended. No error: delivered. An error without `next_at`: given up."""

    status: int | None = None
    error: str = ""
    next_at: float | None = None


def _requested_seconds(answer: PostResponse, now: float) -> float:
    """The delay in Retry-After, where it counts: seconds, or a date."""
    text = answer.retry_after.strip()
    if answer.status not in ASKS_FOR_TIME or not text:
        return 0.0
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return 0.0
