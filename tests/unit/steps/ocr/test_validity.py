"""Rules for sound text, with texts and confidences as engines have really given them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.model.page_text import PageText, Tier
from quire.steps.ocr.options import ReadingOptions
from quire.steps.ocr.validity import judge_text


def _judge(text, confidence, tier="tesseract", wanted=("en",), **options):
    engine_languages = "eng" if tier == "tesseract" else ""
    page = PageText(
        width=100, height=100, text=text, confidence=confidence, tier=tier, language=engine_languages
    )
    return judge_text(page, wanted, ReadingOptions(**options))


@pytest.mark.parametrize(
    ("text", "confidence", "tier"),
    [
        ("Pancakes\n2 eggs\n\n1 cup flour\nFry.", 0.84, "tesseract"),
        ("THE TIME MACHINE\nH. G. WELLS", 0.91, "tesseract"),
        ("Menu", 0.92, "tesseract"),
        ("1,204.50 88.20 17\n310.00 12.75 4\n12.5% 30.1% 0.99", 0.91, "tesseract"),
        ("De kat krabt de krullen van de trap en de hond blaft daar de hele nacht", 1.0, "paddleocr"),
        ("the quick brown fox jumps over the lazy dog", 0.5, "llm_local"),
    ],
)
def test_words_and_numbers_are_sound(text, confidence, tier):
    assert _judge(text, confidence, tier).soundness == "sound"


@pytest.mark.parametrize(
    ("text", "confidence", "tier", "reason"),
    [
        ("", 0.95, "tesseract", "too short or empty"),
        ("@.", 0.95, "tesseract", "too short or empty"),
        ("-. | , \u00b0 ~", 0.96, "paddleocr", "too short or empty"),
        ("uanobio} aq 1SN 1ea} ey} ybnoys | Unoireyaq wbikep 1yl woiy", 0.29, "tesseract", "not sure of it"),
        ("ILIU X4UIO ULUGU IUXLX LIUU UUI ICUI IUAL UUIO CLXAIU", 0.83, "paddleocr", "of a language"),
        ("SERYES ANEN HOW TO DO IT ROUNDMEAL MACARONI ifunny.ce", 0.92, "paddleocr", "of a language"),
        ("4390 3000303060 0ds9ds mo30lY03emo 08 03b3LBMM0 Mm", 0.85, "tesseract", "no table of numbers"),
        ("1 7 1 . | 1 1 / 1 ~", 0.7, "tesseract", "no table of numbers"),
        ("I cannot rxqz plwk vbnt grfd mnbv qwrt zxcv", 0.5, "llm_cloud", "of a language"),
    ],
)
def test_noise_and_foreign_scripts_are_not(text, confidence, tier, reason):
    verdict = _judge(text, confidence, tier)
    assert verdict.soundness == "unsound"
    assert reason in verdict.reason


@pytest.mark.parametrize(
    "text",
    [
        "Kovalczyk, Zbigniew\nOyelaran, Babatunde\nSvartholm, Ingeborg\nXhelili, Fatmir",
        "Gallia est omnis divisa in partes tres quarum unam incolunt Belgae aliam Aquitani",
        "Kalbfleisch in Streifen schneiden und in heisser Butter kurz anbraten",
    ],
    ids=["names", "Latin", "German"],
)
def test_words_that_the_engine_has_no_list_of_are_left_to_the_next_one(text):
    assert _judge(text, 0.91).soundness == "unsure"


def test_the_language_is_told():
    text = "De kat krabt de krullen van de trap en de hond blaft daar de hele nacht tegen"
    assert _judge(text, 1.0, "paddleocr").language == "nl"


def test_limits_can_be_set():
    assert _judge("the old house", 0.7).soundness == "sound"
    assert _judge("the old house", 0.7, min_confidence=0.8).soundness == "unsound"
    assert _judge("the old house", 0.4, min_confidence=0.3).soundness == "sound"
    assert _judge("Menu", 0.9, min_valid_characters=5).soundness == "unsound"


@settings(max_examples=50)
@given(st.text(max_size=300), st.floats(0, 1), st.sampled_from([str(tier) for tier in Tier]))
def test_any_text_gets_a_verdict_and_what_is_not_sound_a_reason(text, confidence, tier):
    verdict = _judge(text, confidence, tier)
    assert (verdict.soundness == "unsound") == bool(verdict.reason)
    assert verdict == _judge(text, confidence, tier)


def test_greek_with_letters_left_out_is_not_sound_from_an_engine_that_knows_no_greek():
    text = "Greek alphabet: Kαλημρα κόσμε, τι κνει σεα; λλνι ατα αντ σην πόλη."  # noqa: RUF001 - Greek

    assert _judge(text, 0.9, "paddleocr").soundness == "unsound"
    assert _judge("The angles α and β of the triangle are equal", 0.97, "paddleocr").soundness == "sound"  # noqa: RUF001 - Greek
