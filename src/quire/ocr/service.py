"""Use cases of the OCR service for callers over HTTP: read pictures now, or send a job and ask for it later.

Promises: a job that was accepted has its pictures and its state stored, and its request is in the queue; its
answer is noted once it is there, and asked for by its owner alone; how much is read at once is bounded, and
what comes beyond is refused with a delay. Must not know: HTTP, and how messages travel.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec
from msgspec import Struct, structs

from quire.model.clock import Clock, timestamp
from quire.model.envelope_reading import failure_code, read_ocr_completed
from quire.model.envelope_writing import build_ocr_request, encode_envelope
from quire.model.envelopes import (
    MAX_ENVELOPE_BYTES,
    MAX_IMAGES,
    BadEnvelope,
    ImageRef,
    ImageText,
    MessageError,
    OcrCompleted,
)
from quire.model.errors import Missing, Reject, Retry
from quire.model.ids import Ids
from quire.ocr.image_jobs import ImageReading, ImageResult, InlineImage, read_images
from quire.ocr.port import JobStates, PictureWish
from quire.ocr.stored_pictures import StoredPictures
from quire.queues.port import LeasedMessage, Message, QueueDepth, QueueStore

STATE_SECONDS = 86_400.0
REPLY_QUEUE = "quire.ocr.answers"
MAX_BATCH_IMAGES = 100
BUSY_SECONDS = 2.0
SOURCE = "quire"
PENDING, COMPLETED, FAILED = "pending", "completed", "failed"


class OcrJob(Struct, frozen=True, kw_only=True):
    """A job as it is stored. `owner` is who may ask for it; `stored` pictures came with the request."""

    job_id: str
    status: str
    created_at: str
    owner: str = ""
    updated_at: str | None = None
    language: str = "en"
    stored: int = 0
    results: tuple[ImageText, ...] = ()
    error: MessageError | None = None


class OcrServiceRules(Struct, frozen=True, kw_only=True):
    """`queue` takes the requests. `images_at_once` are read or wait to be read for callers who wait."""

    queue: str
    reply_queue: str = REPLY_QUEUE
    images_at_once: int = 2 * MAX_BATCH_IMAGES
    callers_at_once: int = 8
    max_bytes: int = MAX_ENVELOPE_BYTES


class OcrService:
    def __init__(
        self,
        queues: QueueStore,
        states: JobStates,
        stored: StoredPictures,
        reading: ImageReading,
        rules: OcrServiceRules,
        *,
        providers: Callable[[], Mapping[str, bool]],
        clock: Clock,
        ids: Ids,
    ) -> None:
        """`providers` says which engines are there."""
        self._queues = queues
        self._states = states
        self._stored = stored
        self._reading = reading
        self._rules = rules
        self._providers = providers
        self._clock = clock
        self._ids = ids
        self._reading_now = 0
        self._callers = 0

    @property
    def rules(self) -> OcrServiceRules:
        return self._rules

    async def list_providers(self) -> Mapping[str, bool]:
        return await asyncio.to_thread(self._providers)

    async def count_queued(self) -> QueueDepth:
        return await self._queues.depth(self._rules.queue, now=self._clock.now())

    async def submit(
        self, images: Sequence[ImageRef | InlineImage], *, language: str, owner: str, request_id: str | None
    ) -> OcrJob:
        """Store the pictures and the state, then send the request. Raises what stores and queue raise; then
        the caller tries again, and nothing is left that costs more than a day's room.
        """
        if not 1 <= len(images) <= MAX_IMAGES:
            raise Reject(f"a job has 1 to {MAX_IMAGES} pictures", code="bad_ocr_request")
        job_id, now = self._ids.ulid(), self._clock.now()
        refs = [await self._refer(job_id, image) for image in images]
        job = OcrJob(
            job_id=job_id,
            status=PENDING,
            created_at=timestamp(now),
            owner=owner,
            language=language,
            stored=len(images) if any(isinstance(image, InlineImage) for image in images) else 0,
        )
        await self._save(job)
        envelope = build_ocr_request(
            job_id=job_id,
            source=SOURCE,
            reply_to=self._rules.reply_queue,
            image_refs=refs,
            now=now,
            language=language,
            request_id=request_id,
        )
        body = encode_envelope(envelope, max_bytes=self._rules.max_bytes)
        await self._queues.send(self._rules.queue, [Message(id=job_id, body=body)], now=now)
        return job

    async def find(self, job_id: str, *, owner: str) -> OcrJob:
        """Raises Missing, also for the job of another owner."""
        job = await self._load(job_id)
        if job is None or job.owner != owner:
            raise Missing("Job not found", code="unknown_job")
        return job

    @asynccontextmanager
    async def admitting(self) -> AsyncIterator[None]:
        """For the whole request of a caller who waits, whose pictures are in memory. Raises Retry `too_busy`
        when there are too many.
        """
        if self._callers >= self._rules.callers_at_once:
            raise _too_busy()
        self._callers += 1
        try:
            yield
        finally:
            self._callers -= 1

    async def read_now(
        self, images: Sequence[ImageRef | InlineImage], wish: PictureWish
    ) -> list[ImageResult]:
        """The results, in the order of their indices. Raises Reject `bad_ocr_request` for an engine that is
        not there, Retry `too_busy` when too many wait already.
        """
        await self._check_tiers(wish.tiers)
        if self._reading_now and self._reading_now + len(images) > self._rules.images_at_once:
            raise _too_busy()
        self._reading_now += len(images)
        try:
            return await read_images(self._reading, images, wish)
        finally:
            self._reading_now -= len(images)

    async def _check_tiers(self, tiers: Sequence[str]) -> None:
        there = await self.list_providers() if tiers else {}
        missing = [tier for tier in tiers if not there.get(tier)]
        if missing:
            raise Reject(
                f"the engine {missing[0][:40]!r} is not there; choose `auto`, or one of GET /v1/providers",
                code="bad_ocr_request",
            )

    async def take_answer(self, answer: OcrCompleted, _: LeasedMessage) -> None:
        """Note the answer to one of our requests; one to a job that nobody knows, or the second one to a job,
        is dropped. The handler of a consumer.
        """
        job_id = answer.trace.parent_job_id or ""
        job = await self._load(job_id)
        if job is None or job.status != PENDING or answer.workflow_id != job_id:
            return
        code = failure_code(answer)
        is_success = answer.payload.status == "success"
        error = None if is_success else answer.payload.error or MessageError(code=code)
        await self._save(
            structs.replace(
                job,
                status=COMPLETED if is_success else FAILED,
                updated_at=timestamp(self._clock.now()),
                results=answer.payload.results,
                error=error,
            )
        )
        await self._stored.forget(job_id, job.stored)

    async def sweep(self) -> int:
        """Delete stored pictures that no job has taken within a day."""
        return await self._stored.sweep(now=self._clock.now())

    async def _refer(self, job_id: str, image: ImageRef | InlineImage) -> ImageRef:
        if isinstance(image, ImageRef):
            return image
        value = await self._stored.put(job_id, image.index, image.data)
        return ImageRef(kind="db", value=value, index=image.index)

    async def _save(self, job: OcrJob) -> None:
        await self._states.save(job.job_id, msgspec.json.encode(job), seconds=STATE_SECONDS)

    async def _load(self, job_id: str) -> OcrJob | None:
        if len(job_id) != len("01ARZ3NDEKTSV4RRFFQ69G5FAV") or not job_id.isalnum() or not job_id.isascii():
            return None
        state = await self._states.load(job_id)
        return None if state is None else msgspec.json.decode(state, type=OcrJob)


def _too_busy() -> Retry:
    return Retry(
        "This server reads as many pictures as it can; come again after Retry-After",
        code="too_busy",
        delay_seconds=BUSY_SECONDS,
    )


def read_answer(body: bytes) -> OcrCompleted:
    """For a consumer. Raises Reject for what is no completion: it becomes a dead letter."""
    try:
        return read_ocr_completed(body)
    except BadEnvelope as problem:
        raise Reject(str(problem), code=problem.code) from problem
