"""The order of the tiers, what ends it, and what follows when engines fail. The engines are stand-ins."""

import msgspec
import pytest
from tests.standins.webhook_receiver import Reply, receiver

from quire.model.errors import Misconfigured, Reject, Retry
from quire.model.page_text import PageText, Tier
from quire.steps.ocr.reader import PictureReader, ReadingOptions
from quire.tools.chat_model import ModelAddress
from quire.tools.pdfium import PageBitmap

WHITE = PageBitmap(memoryview(b"\xff" * 64 * 64), 64, 64, 1)
SOUND = "the quick brown fox jumps over the lazy dog"
NAMES = "Kovalczyk, Zbigniew\nOyelaran, Babatunde\nSvartholm, Ingeborg"


class Engine:
    """Gives one answer, or raises it."""

    def __init__(self, tier, answer, confidence, asked):
        self._tier, self._answer, self._confidence, self._asked = tier, answer, confidence, asked

    def read(self, drawn, dpi, languages):
        self._asked.append((str(self._tier), tuple(languages)))
        if isinstance(self._answer, Exception):
            raise self._answer
        return PageText(
            width=drawn.width,
            height=drawn.height,
            dpi=dpi,
            text=self._answer,
            confidence=self._confidence,
            tier=self._tier,
        )

    def close(self):
        self._asked.append((str(self._tier), "closed"))


def _reader(asked, *, options=None, **answers):
    """`answers` by tier: text and confidence, an error, or what an engine needs that is not there."""

    def opener(tier, answer):
        def open_engine(_options):
            if isinstance(answer, str):
                raise Misconfigured(answer)
            text, confidence = answer if isinstance(answer, tuple) else (answer, 0.0)
            return Engine(tier, text, confidence, asked)

        return open_engine

    openers = {tier: opener(tier, answers.get(str(tier), "not here")) for tier in Tier}
    return PictureReader(options or ReadingOptions(), openers=openers)


def test_the_first_sound_text_counts_and_later_engines_are_not_asked():
    asked = []
    with _reader(asked, easyocr=("zzz", 0.1), paddleocr=(SOUND, 0.99), llm_cloud=(SOUND, 0.5)) as reader:
        found = reader.read_bitmap(WHITE, 300)
    assert (found.text, found.tier, found.is_valid, found.dpi) == (SOUND, "paddleocr", True, 300)
    assert asked == [
        ("easyocr", ("en",)),
        ("paddleocr", ("en",)),
        ("easyocr", "closed"),
        ("paddleocr", "closed"),
    ]
    assert set(reader.find_missing()) == {Tier.TESSERACT}, "later tiers were not even opened"


def test_tiers_are_asked_in_the_order_chosen():
    asked = []
    options = ReadingOptions(tiers=("llm_cloud", "paddleocr"))
    with _reader(asked, options=options, paddleocr=(SOUND, 0.99), llm_cloud=("", 0.0)) as reader:
        assert reader.read_bitmap(WHITE, 0).tier == "paddleocr"
    assert [tier for tier, what in asked if what != "closed"] == ["llm_cloud", "paddleocr"]


def test_without_sound_text_the_best_doubtful_one_is_given_with_its_reason():
    with _reader([], easyocr=("xq", 0.3), paddleocr=("qwrt zxcv bnmp", 0.5)) as reader:
        found = reader.read_bitmap(WHITE, 0)
    assert (found.tier, found.is_valid) == ("paddleocr", False)
    assert found.reason == "the engine is not sure of it: confidence 0.50"


def test_text_that_could_be_sound_is_valid_in_the_end_and_goes_to_no_model():
    asked = []
    with _reader(asked, easyocr=(NAMES, 0.9), llm_cloud=(SOUND, 0.5)) as reader:
        found = reader.read_bitmap(WHITE, 0)
    assert (found.text, found.tier, found.is_valid, found.reason) == (NAMES, "easyocr", True, "")
    assert asked[0] == ("easyocr", ("en",))
    assert "llm_cloud" not in {tier for tier, _ in asked}


def test_the_language_of_the_picture_takes_the_place_of_the_usual_one():
    asked = []
    with _reader(asked, paddleocr=("", 0.0)) as reader:
        found = reader.read_bitmap(WHITE, 0, "deu+fr-FR")
    assert asked[0] == ("paddleocr", ("de", "fr"))
    assert (found.language, found.confidence) == ("de", 0)


def test_an_engine_that_fails_is_followed_by_the_next():
    with _reader([], tesseract=RuntimeError("out of its mind"), paddleocr=(SOUND, 0.99)) as reader:
        assert reader.read_bitmap(WHITE, 0).tier == "paddleocr"


def test_when_all_that_are_there_fail_the_picture_may_be_tried_again():
    busy = Retry("busy", code="ocr_engine_error", delay_seconds=7)
    reader = _reader([], tesseract=ValueError("odd"), llm_local=busy)
    with pytest.raises(Retry, match="tesseract failed: ValueError; busy") as failure:
        reader.read_bitmap(WHITE, 0)
    assert failure.value.code == "ocr_engine_error"


def test_when_all_refuse_the_picture_it_is_final():
    refusal = Reject("status 400", code="ocr_engine_error")
    with _reader([], llm_local=refusal) as reader, pytest.raises(Reject) as failure:
        reader.read_bitmap(WHITE, 0)
    assert failure.value.code == "ocr_engine_error"


def test_without_any_engine_it_is_said_what_each_needs():
    reader = _reader([], tesseract="pip install tesserocr")
    with pytest.raises(Misconfigured, match="tesseract: pip install tesserocr; easyocr: not here"):
        reader.read_bitmap(WHITE, 0)


def test_memory_that_is_short_is_no_fault_of_the_engine():
    reader = _reader([], tesseract=MemoryError(), paddleocr=(SOUND, 0.99))
    with pytest.raises(MemoryError):
        reader.read_bitmap(WHITE, 0)


def test_an_unknown_tier_is_refused_at_once():
    with pytest.raises(Misconfigured, match="unknown OCR tier 'tesserakt'; the tiers are tesseract, easyocr"):
        PictureReader(ReadingOptions(tiers=("tesserakt",)))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('{"is_valid": false, "confidence": 0.9, "reason": "it is\\na joke"}', (False, "it is a joke")),
        ('```json\n{"is_valid": true, "confidence": 0.9, "reason": ""}\n```', (True, "")),
        ("I think that it is fine.", (True, "")),
        ('{"is_valid": "perhaps"}', (True, "")),
    ],
    ids=["refused", "accepted", "no JSON", "wrong type"],
)
def test_a_light_model_may_refuse_text_and_its_errors_change_nothing(answer, expected):
    body = msgspec.json.encode({"choices": [{"message": {"content": answer}}]})
    with receiver(Reply(200, body=body)) as server:
        judge = ModelAddress(url=server.url("/v1"), model="lightweight", seconds=5)
        options = ReadingOptions(judge_model=judge)
        with _reader([], options=options, paddleocr=(SOUND * 30, 0.99), easyocr=("", 0.0)) as reader:
            found = reader.read_bitmap(WHITE, 0)
    assert (found.is_valid, found.reason) == expected
    asked = msgspec.json.decode(server.received[0].body)
    assert len(server.received) == 1, "text that the rules refuse is not shown to the model"
    assert (asked["max_tokens"], asked["temperature"]) == (200, 0.2)
    assert asked["response_format"] == {"type": "json_object"}
    assert (SOUND * 30)[:500] in asked["messages"][1]["content"]
    assert len(asked["messages"][1]["content"]) < 560


def test_a_model_cannot_make_noise_valid():
    body = msgspec.json.encode({"choices": [{"message": {"content": '{"is_valid": true}'}}]})
    with receiver(Reply(200, body=body)) as server:
        options = ReadingOptions(judge_model=ModelAddress(url=server.url("/v1"), model="m", seconds=5))
        with _reader([], options=options, paddleocr=("qwrt zxcv bnmp", 0.5)) as reader:
            assert not reader.read_bitmap(WHITE, 0).is_valid
    assert server.received == []
