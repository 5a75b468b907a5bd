"""Where envelopes travel follows from the settings, and nothing connects before it is used."""

import pytest
from msgspec import structs

from quire.assembly.components import open_components
from quire.assembly.envelope_queues import max_envelope_bytes, open_envelope_queues, travels_on_lists
from quire.assembly.redis_lists import elsewhere
from quire.model.envelope_reading import read_ocr_completed
from quire.model.envelope_writing import build_completion, build_image_text, encode_envelope
from quire.model.envelopes import OCR_QUEUE, RECIPE_QUEUE, ReplyAddress
from quire.model.errors import Misconfigured, Unavailable
from quire.model.page_text import Tier
from quire.queues.port import Message
from quire.queues.redis_lists import RedisListQueues
from quire.queues.sqlite import SqliteQueues
from quire.settings import RedisSettings, Secret, Settings, load
from quire.settings.envelopes import EnvelopeSettings
from quire.system import SystemIds

AWAY = RedisSettings(url=Secret("redis://127.0.0.1:1/0"))
HELLO = [Message(id="m", body=b"{}")]


def settings_of(tmp_path, transport="auto", redis=RedisSettings()):  # noqa: B008 - frozen
    return Settings(home=tmp_path, redis=redis, envelopes=EnvelopeSettings(transport=transport))


@pytest.mark.parametrize(
    ("transport", "redis", "expected"),
    [
        ("auto", RedisSettings(), False),
        ("auto", AWAY, True),
        ("lists", AWAY, True),
        ("queues", AWAY, False),
        ("queues", RedisSettings(), False),
    ],
)
def test_lists_are_used_when_there_is_a_redis(tmp_path, transport, redis, expected):
    settings = settings_of(tmp_path, transport, redis)
    assert travels_on_lists(settings) is expected
    assert elsewhere(settings)(OCR_QUEUE) is expected
    assert elsewhere(settings)("quire-tasks") is False


def test_lists_without_a_redis_are_refused(tmp_path):
    with pytest.raises(Misconfigured, match=r"redis\.url is not set"):
        load({"QUIRE_ENVELOPES_TRANSPORT": "lists"}, tmp_path)


async def test_a_process_starts_while_redis_is_away(tmp_path):
    settings = settings_of(tmp_path, redis=AWAY)
    async with open_envelope_queues(settings, SystemIds()) as queues:
        assert isinstance(queues, RedisListQueues)
        with pytest.raises(Unavailable):
            await queues.send(OCR_QUEUE, HELLO, now=0)
    async with open_components(settings) as components:
        await components.queues.send("plain", HELLO, now=0)
        assert await components.queues.names() == ["plain"]
        with pytest.raises(Unavailable):
            await components.queues.send(OCR_QUEUE, HELLO, now=0)


async def test_a_malformed_address_is_refused_without_being_shown(tmp_path):
    settings = settings_of(tmp_path, redis=RedisSettings(url=Secret("redis://:secret@host:port/0")))
    with pytest.raises(Misconfigured) as caught:
        async with open_envelope_queues(settings, SystemIds()):
            pass
    assert "secret" not in str(caught.value)


async def test_on_own_queues_the_open_ones_are_used(tmp_path):
    settings = settings_of(tmp_path)
    async with (
        open_components(settings) as components,
        open_envelope_queues(settings, components.ids, queues=components.queues) as queues,
    ):
        assert queues is components.queues
    async with open_envelope_queues(settings, SystemIds()) as queues:
        assert isinstance(queues, SqliteQueues)


async def test_on_own_queues_the_longest_texts_are_cut_to_what_a_message_may_hold(tmp_path):
    settings = settings_of(tmp_path)
    to = ReplyAddress(reply_to=RECIPE_QUEUE, job_id="j", workflow_id="w", source="s", indices=tuple(range(8)))
    texts = [
        build_image_text(i, "ä" * 25_000, language="de", confidence=1, is_valid=True, tier=Tier.EASYOCR)
        for i in range(8)
    ]
    completed = build_completion(to, texts, job_id="fresh", now=0)
    async with open_envelope_queues(settings, SystemIds()) as queues:
        body = encode_envelope(completed, max_bytes=max_envelope_bytes(settings))
        await queues.send(RECIPE_QUEUE, [Message(id="fresh", body=body)], now=0)
        (leased,) = await queues.lease(RECIPE_QUEUE, limit=1, seconds=9, now=0)
    read = read_ocr_completed(leased.body)
    assert len(read.payload.results) == 8
    assert all(one.truncated and one.meta.text_len > 6_000 for one in read.payload.results)
    assert structs.replace(read, payload=completed.payload) == completed


@pytest.mark.service
async def test_each_name_has_its_form_on_lists(tmp_path, redis_server):
    from redis.asyncio import Redis

    url = redis_server.removesuffix("/0") + "/9"
    settings = settings_of(tmp_path, redis=RedisSettings(url=Secret(url)))
    async with Redis.from_url(url) as client:
        await client.flushdb()
        async with open_components(settings) as components:
            for name in (OCR_QUEUE, RECIPE_QUEUE, "jarvis.other", "plain"):
                await components.queues.send(name, HELLO, now=components.clock.now())
            assert await components.queues.names() == [OCR_QUEUE, RECIPE_QUEUE, "plain"]
        kinds = {
            name: await client.type(name) for name in (OCR_QUEUE, f"rq:queue:{RECIPE_QUEUE}", "jarvis.other")
        }
        assert set(kinds.values()) == {b"list"}
        assert await client.exists("plain", RECIPE_QUEUE) == 0
