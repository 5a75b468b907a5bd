"""Answers to requests: one for each, and what becomes of requests that cannot be answered."""

import json

import pytest
from msgspec import structs
from tests.situations.ocr_service import RECIPES, SayingReader, keep_pictures, reading_of, request_body

from quire.consumers.consumer import Consumer
from quire.model.envelope_reading import read_ocr_completed, read_ocr_request
from quire.model.envelopes import OCR_QUEUE
from quire.model.errors import Reject
from quire.model.queues import QueuePolicy
from quire.ocr.answering import AnsweringRules, OcrAnswerer, OcrEventKind, read_message
from quire.queues.port import LeasedMessage, Message
from quire.system import LoopSignal
from quire.testing.memory_queues import MemoryQueues
from quire.testing.time import CountingIds, FakeClock


class Service:
    """An answerer with queues in memory."""

    def __init__(self, root, *, reader=None, cancelled=()):
        keep_pictures(root, a="Pancakes", b="two eggs", crash="crash", pdf="broken", doubt="doubtful x")
        self.clock = FakeClock()
        self.queues = MemoryQueues()
        self.reader = reader or SayingReader()
        self.cancelled = set(cancelled)
        self.events = []
        self.answerer = OcrAnswerer(
            self.queues,
            reading_of(root, self.reader),
            AnsweringRules(queue=OCR_QUEUE),
            clock=self.clock,
            fraction=lambda: 0.5,
            is_cancelled=self.is_cancelled,
            report=self.events.append,
        )

    async def is_cancelled(self, workflow_id):
        return workflow_id in self.cancelled

    async def send(self, body, name="m1"):
        await self.queues.send(OCR_QUEUE, [Message(id=name, body=body)], now=self.clock.now())

    async def run(self):
        """Until nothing is left that is due."""
        consumer = Consumer(
            self.queues,
            QueuePolicy(name=OCR_QUEUE, max_batch_size=1, concurrency=2),
            self.answerer.handle,
            decode=read_message,
            clock=self.clock,
            ids=CountingIds(),
            signal=LoopSignal(),
        )
        await consumer.run(until_empty=True)

    async def handle(self, body, *, name="m1", deliveries=1):
        leased = LeasedMessage(queue=OCR_QUEUE, id=name, body=body, deliveries=deliveries, token="t")
        await self.answerer.handle(read_message(body), leased)

    async def answers(self, queue=RECIPES):
        found = await self.queues.peek(queue, limit=100, now=self.clock.now())
        return [read_ocr_completed(one.body) for one in found]

    async def dead(self):
        return await self.queues.list_dead_letters(OCR_QUEUE, limit=10)

    async def waiting(self):
        found = await self.queues.peek(OCR_QUEUE, limit=10, now=self.clock.now())
        return [(read_ocr_request(one.body), one.due_at - self.clock.now()) for one in found]

    @property
    def kinds(self):
        return [one.kind for one in self.events]


@pytest.fixture
def service(tmp_path):
    return Service(tmp_path)


def changed(body, **fields):
    return json.dumps(json.loads(body) | fields).encode()


async def test_a_request_is_answered_where_it_says(service):
    await service.send(request_body("a", "b"))
    await service.run()
    (answer,) = await service.answers()
    assert (answer.workflow_id, answer.trace.parent_job_id, answer.target) == (
        "job-1", "job-1", "jarvis-recipes-server",
    )  # fmt: skip
    assert (answer.payload.status, answer.payload.error, answer.attempt) == ("success", None, 1)
    assert answer.job_id != "job-1"
    assert [one.ocr_text for one in answer.payload.results] == ["Pancakes", "two eggs"]
    assert (await service.queues.depth(OCR_QUEUE, now=service.clock.now())).waiting == 0
    (event,) = service.events
    assert (event.kind, event.images, event.valid, event.job_id) == (OcrEventKind.ANSWERED, 2, 2, "job-1")


async def test_any_list_may_be_the_one_for_answers(service):
    await service.send(request_body("a", reply_to="own.answers"))
    await service.run()
    assert len(await service.answers("own.answers")) == 1


async def test_one_valid_picture_is_a_success_and_none_a_failure(service):
    await service.handle(request_body("none", "a", "doubt", job_id="one"))
    await service.handle(request_body("none", "pdf", "doubt", job_id="none"))
    some, none = await service.answers()
    assert some.payload.status == "success"
    assert none.payload.status == "failed"
    assert [one.error.code for one in none.payload.results] == [
        "image_not_found", "unsupported_media", "ocr_no_valid_output",
    ]  # fmt: skip
    assert none.payload.error.code == "image_not_found"


async def test_eight_pictures_are_answered_by_eight_results(service):
    await service.handle(request_body(*["a", "none"] * 4))
    (answer,) = await service.answers()
    assert [one.index for one in answer.payload.results] == list(range(8))


async def test_a_passing_fault_of_the_whole_job_is_tried_again_without_an_answer(tmp_path):
    service = Service(tmp_path, reader=SayingReader(heals=1))
    await service.handle(request_body("crash"))
    assert await service.answers() == []
    ((again, delay),) = await service.waiting()
    assert again.attempt == 2
    assert delay > 0
    assert again == structs.replace(read_ocr_request(request_body("crash")), attempt=2)
    service.clock.advance(delay)
    await service.run()
    (answer,) = await service.answers()
    assert (answer.payload.status, answer.attempt) == ("success", 1)
    assert service.kinds == [OcrEventKind.RETRIED, OcrEventKind.ANSWERED]


async def test_the_last_attempt_answers_with_the_failure(service):
    body = request_body("crash", "none")
    for attempt in (1, 2, 3):
        await service.handle(changed(body, attempt=attempt))
    (answer,) = await service.answers()
    assert answer.payload.status == "failed"
    assert answer.payload.error.code == "ocr_engine_error"
    assert [one.index for one in answer.payload.results] == [0, 1]
    assert service.kinds == [OcrEventKind.RETRIED, OcrEventKind.RETRIED, OcrEventKind.ANSWERED]


async def test_a_passing_fault_beside_a_valid_text_is_not_tried_again(service):
    await service.handle(request_body("crash", "a"))
    (answer,) = await service.answers()
    assert answer.payload.status == "success"
    assert answer.payload.results[0].error.code == "ocr_engine_error"


async def test_a_request_that_is_delivered_again_is_answered_once(service):
    body = request_body("a")
    await service.handle(body)
    await service.handle(body, deliveries=2)
    # The sender's own second push of the same envelope, and the next attempt, sent before a crash.
    await service.handle(body, name="m2")
    await service.handle(changed(body, attempt=2), name="m3")
    assert len(await service.answers()) == 1


async def test_a_new_request_of_the_same_job_is_answered_again(service):
    await service.handle(request_body("a"))
    await service.handle(changed(request_body("a"), created_at="2026-01-10T12:00:00.123456"))
    assert len(await service.answers()) == 2


async def test_a_retry_is_sent_once(service):
    await service.handle(request_body("crash"))
    await service.handle(request_body("crash"), deliveries=2)
    assert len(await service.waiting()) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"schema_version": 2},
        {"attempt": 0},
        {"job_type": "ocr.something"},
        {"payload": {"image_refs": []}},
        {"payload": {"image_refs": [{"kind": "ftp", "value": "x", "index": 0}]}},
        {"payload": {"image_refs": [{"kind": "s3", "value": "x", "index": 0}] * 2}},
        {"payload": {"image_refs": [{"kind": "s3", "value": "x", "index": n} for n in range(9)]}},
        {"payload": {"image_refs": [{"kind": "s3", "value": "x", "index": 0}], "image_count": 2}},
        {"created_at": "yesterday"},
    ],
)
async def test_a_bad_request_is_answered_as_such(service, fields):
    await service.send(changed(request_body("a"), **fields))
    await service.run()
    (answer,) = await service.answers()
    assert (answer.payload.status, answer.payload.error.code) == ("failed", "bad_request")
    assert answer.payload.results
    assert service.reader.paths == []
    assert await service.dead() == []


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        changed(request_body("a"), reply_to=None),
        changed(request_body("a"), reply_to=""),
        changed(request_body("a"), workflow_id=None),
        changed(request_body("a"), trace=None),
        changed(request_body("a"), reply_to=OCR_QUEUE),
        changed(request_body("a"), reply_to=OCR_QUEUE, attempt=0),
    ],
)
async def test_what_cannot_be_answered_becomes_a_dead_letter(service, body):
    await service.send(body)
    await service.run()
    (letter,) = await service.dead()
    assert letter.body == body
    assert letter.error_class == "bad_request"


async def test_a_request_on_which_workers_died_is_answered_with_internal_error_and_buried(service):
    await service.send(request_body("a", "b"))
    for _ in range(3):  # three workers took it, and were never heard of again
        (leased,) = await service.queues.lease(OCR_QUEUE, limit=1, seconds=60, now=service.clock.now())
        service.clock.advance(61)
    assert leased.deliveries == 3
    await service.run()
    (answer,) = await service.answers()
    assert (answer.payload.status, answer.payload.error.code) == ("failed", "internal_error")
    assert [one.index for one in answer.payload.results] == [0, 1]
    assert (answer.workflow_id, answer.trace.parent_job_id) == ("job-1", "job-1")
    assert service.reader.paths == []
    (letter,) = await service.dead()
    assert (letter.body, letter.error_class) == (request_body("a", "b"), "too_many_deliveries")
    assert service.kinds == [OcrEventKind.GIVEN_UP]


async def test_an_answer_that_was_sent_before_the_burial_is_sent_once(service):
    for _ in range(2):
        with pytest.raises(Reject, match="its sender was told"):
            await service.handle(request_body("a"), deliveries=4)
    assert len(await service.answers()) == 1


async def test_a_replayed_dead_letter_gets_another_answer(service):
    await service.send(request_body("a"))
    for _ in range(3):
        await service.queues.lease(OCR_QUEUE, limit=1, seconds=60, now=service.clock.now())
        service.clock.advance(61)
    await service.run()
    assert await service.queues.replay(OCR_QUEUE, now=service.clock.now(), limit=1) == 1
    await service.run()
    assert [one.payload.status for one in await service.answers()] == ["failed", "success"]


async def test_nobody_waits_for_a_cancelled_workflow_on_which_workers_died(tmp_path):
    service = Service(tmp_path, cancelled={"job-1"})
    await service.handle(request_body("a"), deliveries=4)
    assert await service.answers() == []
    assert service.kinds == [OcrEventKind.CANCELLED]


async def test_a_cancelled_workflow_costs_nothing(tmp_path):
    service = Service(tmp_path, cancelled={"job-1"})
    await service.handle(request_body("a"))
    assert service.reader.paths == []
    assert await service.answers() == []
    assert service.kinds == [OcrEventKind.CANCELLED]
