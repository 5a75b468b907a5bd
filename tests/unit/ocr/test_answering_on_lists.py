"""Answers on Redis lists, between a delivery that died after its answer and the next one."""

import pytest
import redis
from tests.servers.redis import restartable_server
from tests.situations.ocr_service import RECIPES, SayingReader, keep_pictures, reading_of, request_body

from quire.model.envelopes import MAX_ENVELOPE_BYTES, OCR_QUEUE
from quire.ocr.answering import AnsweringRules, OcrAnswerer, read_message
from quire.queues.redis_lists import RedisListQueues
from quire.system import SystemIds
from quire.testing.time import FakeClock

pytestmark = pytest.mark.service


@pytest.fixture
def url(redis_program):
    with restartable_server(redis_program, appendfsync="no") as server:
        yield server.url


@pytest.fixture
async def queues(url):
    opened = RedisListQueues(url, ids=SystemIds(), max_bytes=MAX_ENVELOPE_BYTES, rq_queues=(RECIPES,))
    yield opened
    await opened.close()


@pytest.mark.parametrize("reply_to", [RECIPES, "own.answers"])
async def test_an_answer_sent_before_a_crash_is_not_sent_again(tmp_path, url, queues, reply_to):
    clock = FakeClock()
    keep_pictures(tmp_path, a="Pancakes")
    reader = SayingReader()
    answerer = OcrAnswerer(
        queues,
        reading_of(tmp_path, reader),
        AnsweringRules(queue=OCR_QUEUE),
        clock=clock,
        fraction=lambda: 0.5,
    )

    async def deliver(worker):
        (leased,) = await queues.lease(OCR_QUEUE, limit=2, seconds=60, now=clock.now(), worker=worker)
        await answerer.handle(read_message(leased.body), leased)
        return leased

    with redis.Redis.from_url(url) as client:
        client.lpush(OCR_QUEUE, request_body("a", reply_to=reply_to))
        await deliver("dies")  # after the answer, before the request is removed
        clock.advance(61)
        leased = await deliver("next")
        await queues.acknowledge([leased], now=clock.now())
        listed = f"rq:queue:{reply_to}" if reply_to == RECIPES else reply_to
        assert client.llen(listed) == 1
        assert client.llen(OCR_QUEUE) == 0
    assert (len(reader.paths), leased.deliveries) == (2, 2)


async def test_a_retry_waits_in_redis_with_its_attempt(tmp_path, url, queues):
    clock = FakeClock()
    keep_pictures(tmp_path, crash="crash")
    answerer = OcrAnswerer(
        queues,
        reading_of(tmp_path, SayingReader()),
        AnsweringRules(queue=OCR_QUEUE, first_delay_seconds=10.0),
        clock=clock,
        fraction=lambda: 1.0,
    )
    with redis.Redis.from_url(url) as client:
        client.lpush(OCR_QUEUE, request_body("crash"))
        (leased,) = await queues.lease(OCR_QUEUE, limit=1, seconds=60, now=clock.now())
        await answerer.handle(read_message(leased.body), leased)
        await queues.acknowledge([leased], now=clock.now())
        assert client.llen(OCR_QUEUE) == 0
    assert await queues.next_due(OCR_QUEUE, now=clock.now()) == clock.now() + 10.0
    clock.advance(10.0)
    (again,) = await queues.lease(OCR_QUEUE, limit=1, seconds=60, now=clock.now())
    assert read_message(again.body).attempt == 2
