"""Answers requests for OCR: the pictures are read, and one completion goes to the queue the sender has named.

Promises: the completion is sent before the request is acknowledged, and a request that is delivered again
sends the same message once more, which the queue takes as one; a message that is no request is answered with
`bad_request` when it says where to, and becomes a dead letter otherwise; a passing fault of the whole job
sends the request again, one attempt later, and answers only in the end; a request on which workers died
again and again is answered with `internal_error` and then becomes a dead letter. Must not know: how messages
travel.
"""

import hashlib
import uuid
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import NoReturn

from msgspec import Struct, structs

from quire.model.backoff import backoff_seconds
from quire.model.clock import Clock
from quire.model.envelope_reading import read_ocr_request, reply_address
from quire.model.envelope_writing import build_completion, build_failed_completion, encode_envelope
from quire.model.envelopes import MAX_ENVELOPE_BYTES, BadEnvelope, OcrCompleted, OcrErrorCode, OcrRequest
from quire.model.errors import Reject
from quire.ocr.image_jobs import ImageReading, ImageResult, read_images
from quire.ocr.port import PictureWish
from quire.queues.port import LeasedMessage, Message, MessageQueues

MAX_ATTEMPTS = 3
# Whether the work of a workflow was called off.
IsCancelled = Callable[[str], Awaitable[bool]]


async def never_cancelled(_: str) -> bool:
    return False


class OcrEventKind(StrEnum):
    """How a message ended."""

    ANSWERED = "answered"
    RETRIED = "retried"
    REFUSED = "refused"  # answered with bad_request
    CANCELLED = "cancelled"
    GIVEN_UP = "given_up"  # answered with internal_error, and now a dead letter


class OcrEvent(Struct, frozen=True, kw_only=True):
    """What a worker reports of a job. `images` were asked for, `valid` have text."""

    kind: OcrEventKind
    job_id: str
    reply_to: str = ""
    images: int = 0
    valid: int = 0
    attempt: int = 1
    seconds: float = 0.0
    error: str = ""


class AnsweringRules(Struct, frozen=True, kw_only=True):
    """`queue` is the one requests come from. Delays double from the first to the longest. A request that is
    delivered more often than `max_deliveries` is given up: the consumer must deliver it once more than that.
    """

    queue: str
    max_attempts: int = MAX_ATTEMPTS
    max_deliveries: int = 3
    first_delay_seconds: float = 5.0
    longest_delay_seconds: float = 120.0
    max_bytes: int = MAX_ENVELOPE_BYTES


class OcrAnswerer:
    """`handle` is the handler of a consumer, `read_message` decodes for it."""

    def __init__(
        self,
        queues: MessageQueues,
        reading: ImageReading,
        rules: AnsweringRules,
        *,
        clock: Clock,
        fraction: Callable[[], float],
        is_cancelled: IsCancelled = never_cancelled,
        report: Callable[[OcrEvent], None] = lambda _: None,
    ) -> None:
        self._queues = queues
        self._reading = reading
        self._rules = rules
        self._clock = clock
        self._fraction = fraction
        self._is_cancelled = is_cancelled
        self._report = report

    async def handle(self, message: "OcrRequest | BadEnvelope", leased: LeasedMessage) -> None:
        """Raises Reject for what becomes a dead letter, Unavailable when a queue is away."""
        if isinstance(message, BadEnvelope):
            await self._refuse(message, leased)
            return
        self._check_reply(message.reply_to)
        began = self._clock.monotonic()
        if await self._is_cancelled(message.workflow_id):
            self._tell(OcrEventKind.CANCELLED, message, (), began)
            return
        if leased.deliveries > self._rules.max_deliveries:
            await self._give_up(message, leased.deliveries - 1)
        results = await read_images(
            self._reading, message.payload.image_refs, PictureWish(language=message.payload.options.language)
        )
        if _may_get_better(results) and message.attempt < self._rules.max_attempts:
            await self._send_again(message)
            self._tell(OcrEventKind.RETRIED, message, results, began)
            return
        if await self._is_cancelled(message.workflow_id):
            self._tell(OcrEventKind.CANCELLED, message, results, began)
            return
        completion = build_completion(
            reply_address(message),
            [one.text for one in results],
            job_id=request_id(message),
            now=self._clock.now(),
        )
        await self._send(message.reply_to, completion)
        self._tell(OcrEventKind.ANSWERED, message, results, began)

    async def _refuse(self, problem: BadEnvelope, leased: LeasedMessage) -> None:
        to = problem.reply
        if to is None:
            raise problem
        self._check_reply(to.reply_to)
        completion = build_failed_completion(
            to,
            code=OcrErrorCode.BAD_REQUEST,
            message=str(problem),
            job_id=_derive_id(leased.queue, hashlib.sha256(leased.body).hexdigest()),
            now=self._clock.now(),
        )
        await self._send(to.reply_to, completion)
        self._report(
            OcrEvent(
                kind=OcrEventKind.REFUSED,
                job_id=to.job_id,
                reply_to=to.reply_to,
                images=len(to.indices),
                error=str(problem),
            )
        )

    async def _give_up(self, request: OcrRequest, deliveries: int) -> NoReturn:
        """Nobody shall wait for an answer that no worker lives to give. The answer has an id of its own: one
        that is made later, when the dead letter is replayed, must not be taken for the same.
        """
        reason = f"delivered {deliveries} times, and each time the worker died, hung or failed unexpectedly"
        completion = build_failed_completion(
            reply_address(request),
            code=OcrErrorCode.INTERNAL_ERROR,
            message=reason,
            job_id=_derive_id(request_id(request), "given up"),
            now=self._clock.now(),
        )
        await self._send(request.reply_to, completion)
        self._report(
            OcrEvent(
                kind=OcrEventKind.GIVEN_UP,
                job_id=request.job_id,
                reply_to=request.reply_to,
                images=len(request.payload.image_refs),
                attempt=request.attempt,
                error=reason,
            )
        )
        raise Reject(
            f"{reason}; its sender was told; look into its history, then replay or discard it",
            code="too_many_deliveries",
        )

    def _check_reply(self, reply_to: str) -> None:
        """An answer on the queue of requests would come back here."""
        if reply_to == self._rules.queue:
            raise Reject("reply_to is the queue of the requests themselves", code="bad_request")

    async def _send(self, queue: str, completion: OcrCompleted) -> None:
        body = encode_envelope(completion, max_bytes=self._rules.max_bytes)
        await self._queues.send(queue, [Message(id=completion.job_id, body=body)], now=self._clock.now())

    async def _send_again(self, request: OcrRequest) -> None:
        later = structs.replace(request, attempt=request.attempt + 1)
        delay = backoff_seconds(
            request.attempt,
            first=self._rules.first_delay_seconds,
            longest=self._rules.longest_delay_seconds,
            fraction=self._fraction(),
        )
        body = encode_envelope(later, max_bytes=self._rules.max_bytes)
        message = Message(id=_derive_id(request_id(request), str(later.attempt)), body=body)
        await self._queues.send(self._rules.queue, [message], now=self._clock.now(), delay_seconds=delay)

    def _tell(
        self, kind: OcrEventKind, request: OcrRequest, results: "tuple[()] | list[ImageResult]", began: float
    ) -> None:
        failed = next((one.text.error for one in results if one.text.error is not None), None)
        self._report(
            OcrEvent(
                kind=kind,
                job_id=request.job_id,
                reply_to=request.reply_to,
                images=len(request.payload.image_refs),
                valid=sum(one.is_valid for one in results),
                attempt=request.attempt,
                seconds=round(self._clock.monotonic() - began, 3),
                error="" if failed is None else f"{failed.code}: {failed.message}",
            )
        )


def read_message(body: bytes) -> OcrRequest | BadEnvelope:
    """The request, or why it is none: whoever sent it may have to be told."""
    try:
        return read_ocr_request(body)
    except BadEnvelope as problem:
        return problem


def request_id(request: OcrRequest) -> str:
    """The id of the answer to a request: the same for every delivery and every attempt of it, so that a queue
    recognises an answer that was sent before its request was acknowledged. The sender's own second try with
    the same envelope is the same request.
    """
    return _derive_id(request.source, request.workflow_id, request.job_id, request.created_at)


def _derive_id(*parts: str) -> str:
    told = hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).digest()
    return str(uuid.UUID(bytes=told[:16], version=5))


def _may_get_better(results: list[ImageResult]) -> bool:
    """No picture has text, and the fault of one may pass."""
    return not any(one.is_valid for one in results) and any(one.is_passing for one in results)
