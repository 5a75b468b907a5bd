"""Jobs sent over HTTP: accepted, answered, asked for by their owner; and pictures that are read at once."""

import asyncio

import msgspec
import pytest
from tests.situations.ocr_service import SayingReader, keep_pictures, reading_of, refs_of

from quire.model.envelope_reading import read_ocr_request, reply_address
from quire.model.envelope_writing import (
    build_completion,
    build_failed_completion,
    build_image_text,
    encode_envelope,
)
from quire.model.envelopes import OCR_QUEUE
from quire.model.errors import Missing, Reject, Retry
from quire.model.page_text import Tier
from quire.ocr.blob_states import BlobJobStates
from quire.ocr.image_jobs import InlineImage, read_images
from quire.ocr.port import PictureWish
from quire.ocr.service import (
    COMPLETED,
    FAILED,
    PENDING,
    STATE_SECONDS,
    OcrService,
    OcrServiceRules,
    read_answer,
)
from quire.ocr.stored_pictures import StoredPictures
from quire.system import SystemClock, SystemIds
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.memory_queues import MemoryQueues
from quire.testing.time import FakeClock


class Case:
    def __init__(self, root, **rules):
        keep_pictures(root, a="Pancakes")
        self.clock = FakeClock()
        self.queues, self.blobs = MemoryQueues(), MemoryBlobs()
        self.states = BlobJobStates(self.blobs, self.clock)
        self.reader = SayingReader()
        self.stored = StoredPictures(self.blobs)
        self.reading = reading_of(root, self.reader, stored=self.stored)
        self.service = OcrService(
            self.queues,
            self.states,
            self.stored,
            self.reading,
            OcrServiceRules(queue=OCR_QUEUE, **rules),
            providers=lambda: {"tesseract": True},
            clock=self.clock,
            ids=SystemIds(),
        )

    async def submit(self, *images, owner="me"):
        return await self.service.submit(images or refs_of("a"), language="de", owner=owner, request_id="r-1")

    async def requests(self):
        found = await self.queues.peek(OCR_QUEUE, limit=10, now=self.clock.now())
        return [read_ocr_request(one.body) for one in found]

    async def answer(self, request, text="Pancakes", **changes):
        result = build_image_text(0, text, language="de", confidence=0.8, is_valid=True, tier=Tier.TESSERACT)
        made = build_completion(reply_address(request), [result], job_id="c-1", now=self.clock.now())
        body = encode_envelope(msgspec.structs.replace(made, **changes))
        await self.service.take_answer(read_answer(body), None)

    async def keys(self):
        return [one.key async for one in self.blobs.list("ocr/")]


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


async def test_a_job_becomes_a_proper_request_with_an_answer_to_us(case):
    job = await case.submit()
    (request,) = await case.requests()
    assert (request.job_id, request.workflow_id, request.reply_to) == (
        job.job_id,
        job.job_id,
        "quire.ocr.answers",
    )
    assert (request.payload.image_refs, request.payload.options.language) == (refs_of("a"), "de")
    assert request.trace.request_id == "r-1"
    assert (await case.service.find(job.job_id, owner="me")).status == PENDING


async def test_the_answer_completes_the_job(case):
    job = await case.submit()
    await case.answer((await case.requests())[0])
    found = await case.service.find(job.job_id, owner="me")
    assert (found.status, found.results[0].ocr_text, found.error) == (COMPLETED, "Pancakes", None)


async def test_a_failed_answer_fails_the_job_with_its_code(case):
    job = await case.submit()
    (request,) = await case.requests()
    made = build_failed_completion(
        reply_address(request), code="image_not_found", message="gone", job_id="c", now=0.0
    )
    await case.service.take_answer(read_answer(encode_envelope(made)), None)
    found = await case.service.find(job.job_id, owner="me")
    assert (found.status, found.error.code) == (FAILED, "image_not_found")


async def test_second_answers_and_answers_to_nobody_change_nothing(case):
    job = await case.submit()
    (request,) = await case.requests()
    await case.answer(msgspec.structs.replace(request, job_id="someone-else"))
    await case.answer(request, workflow_id="another")
    assert (await case.service.find(job.job_id, owner="me")).status == PENDING
    await case.answer(request, "first")
    await case.answer(request, "second")
    assert (await case.service.find(job.job_id, owner="me")).results[0].ocr_text == "first"


async def test_a_job_is_shown_to_its_owner_for_a_day(case):
    job = await case.submit()
    for job_id, owner in (
        (job.job_id, "you"),
        (job.job_id, ""),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "me"),
        ("../x", "me"),
    ):
        with pytest.raises(Missing):
            await case.service.find(job_id, owner=owner)
    case.clock.advance(STATE_SECONDS + 1)
    with pytest.raises(Missing):
        await case.service.find(job.job_id, owner="me")
    assert await case.states.sweep() == 1


async def test_pictures_that_came_along_are_stored_and_read_by_reference(case):
    await case.submit(InlineImage(data=b"Pancakes", index=0), InlineImage(data=b"two eggs", index=1))
    (request,) = await case.requests()
    assert {one.kind for one in request.payload.image_refs} == {"db"}
    found = await read_images(case.reading, request.payload.image_refs, PictureWish())
    assert [one.text.ocr_text for one in found] == ["Pancakes", "two eggs"]
    await case.answer(request)
    assert not any(key.startswith("ocr/incoming/") for key in await case.keys())


async def test_names_of_stored_pictures_lead_nowhere_else(case):
    await case.blobs.put("cas/secret", b"secret")
    for value in (
        "quire-ocr:../../cas/secret",
        "quire-ocr:",
        "quire-ocr:01ARZ3NDEKTSV4RRFFQ69G5FAV/0",
        "cas/secret",
    ):
        with pytest.raises(Missing):
            await case.stored.read(value, max_bytes=100)


async def test_pictures_of_lost_jobs_are_deleted_after_a_day(case):
    fresh = SystemIds().ulid()
    for job_id in (fresh, "01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        await case.stored.put(job_id, 0, b"picture")
    assert await case.stored.sweep(now=SystemClock().now()) == 1
    assert await case.keys() == [f"ocr/incoming/{fresh}/0"]


async def test_a_stored_picture_over_the_limit_is_not_read(case):
    value = await case.stored.put(SystemIds().ulid(), 0, b"x" * 101)
    with pytest.raises(Reject) as caught:
        await case.stored.read(value, max_bytes=100)
    assert caught.value.code == "too_large"


async def test_a_job_has_one_to_eight_pictures(case):
    for number in (0, 9):
        with pytest.raises(Reject):
            await case.service.submit(refs_of(*["a"] * number), language="en", owner="", request_id=None)


async def test_pictures_are_read_at_once_for_who_waits(case):
    found = [one.text for one in await case.service.read_now(refs_of("a", "none"), PictureWish())]
    assert [(one.index, one.ocr_text, one.error and one.error.code) for one in found] == [
        (0, "Pancakes", None), (1, "", "image_not_found"),
    ]  # fmt: skip


async def test_an_engine_can_be_chosen_if_it_is_there(case):
    found = await case.service.read_now(refs_of("a"), PictureWish(tiers=("tesseract",)))
    assert found[0].is_valid
    for tier in ("easyocr", "no such engine"):
        with pytest.raises(Reject) as caught:
            await case.service.read_now(refs_of("a"), PictureWish(tiers=(tier,)))
        assert caught.value.code == "bad_ocr_request"


async def test_too_many_at_once_are_sent_away_with_a_delay(tmp_path):
    case = Case(tmp_path, images_at_once=2, callers_at_once=1)
    held, going = asyncio.Event(), asyncio.Event()

    async def hold(*_, **__):
        held.set()
        await going.wait()
        raise Reject("no", code="unsupported_media")

    case.reader.read = hold
    first = asyncio.ensure_future(case.service.read_now(refs_of("a", "a"), PictureWish()))
    await held.wait()
    with pytest.raises(Retry) as caught:
        await case.service.read_now(refs_of("a"), PictureWish())
    assert (caught.value.code, caught.value.delay_seconds > 0) == ("too_busy", True)
    going.set()
    assert len(await first) == 2
    async with case.service.admitting():
        with pytest.raises(Retry):
            async with case.service.admitting():
                raise AssertionError
    async with case.service.admitting():
        pass


def test_what_is_no_answer_is_rejected():
    for body in (b"", b"{}", b'{"job_type": "ocr.extract_text.requested"}'):
        with pytest.raises(Reject):
            read_answer(body)


async def test_the_queue_and_the_engines_can_be_looked_at(case):
    await case.submit()
    assert (await case.service.count_queued()).waiting == 1
    assert await case.service.list_providers() == {"tesseract": True}
