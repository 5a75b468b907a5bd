import re
from pathlib import Path

import pytest

from quire.model.errors import Misconfigured
from quire.settings import OCR_FALLBACKS, Secret, load

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def _ocr(environment, folder=Path("nowhere")):
    return load(environment, folder, fallbacks=OCR_FALLBACKS).settings.ocr


def test_the_variables_of_the_published_worker_stand_in_for_keys_that_are_not_set():
    found = _ocr(
        {
            "OCR_ENABLED_TIERS": "tesseract, easyocr,rapidocr",
            "OCR_ENABLE_EASYOCR": "false",
            "OCR_MIN_VALID_CHARS": "5",
            "OCR_MIN_CONFIDENCE": "0.4",
            "OCR_MAX_TEXT_BYTES": "1000",
            "OCR_VALIDATION_MODEL": "small",
        }
    )
    assert found.tiers == ("tesseract", "easyocr", "rapidocr")
    assert (found.enable_easyocr, found.enable_paddleocr) == (False, True)
    assert (found.min_valid_characters, found.min_confidence, found.max_text_bytes) == (5, 0.4, 1000)
    assert found.judge_model == "small"


def test_own_variables_win():
    found = _ocr({"OCR_MIN_VALID_CHARS": "5", "QUIRE_OCR_MIN_VALID_CHARACTERS": "8"})
    assert found.min_valid_characters == 8


def test_keys_of_models_are_secret():
    found = _ocr({"QUIRE_OCR_CLOUD_MODEL_KEY": "sk-1"})
    assert found.cloud_model_key == Secret("sk-1")
    assert "sk-1" not in repr(found)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"QUIRE_OCR_LOCAL_MODEL_URL": "http://127.0.0.1:1/v1"}, "ocr.local_model is not; name the model"),
        ({"QUIRE_OCR_JUDGE_MODEL_URL": "model.sock"}, "ocr.judge_model_url must be an http or https address"),
        ({"QUIRE_OCR_JUDGE_MODEL_URL": "http://me:pass@x/v1"}, "without user name and password"),
        ({"QUIRE_OCR_MIN_CONFIDENCE": "50"}, "ocr.min_confidence must be"),
        ({"QUIRE_OCR_LANGUAGE_": "en"}, "did you mean `QUIRE_OCR_LANGUAGE`"),
    ],
)
def test_contradictions_are_refused(environment, says, tmp_path):
    with pytest.raises(Misconfigured, match=re.escape(says)):
        load(environment, tmp_path)


def test_every_variable_that_stands_in_is_documented():
    page = DOCS.read_text("utf-8")
    named = {one for some in OCR_FALLBACKS.values() for one in some}
    assert {one for one in named if f"`{one}`" not in page} == set()
