import pytest

from quire.assembly.ocr_reading import build_reading_options
from quire.model.errors import Misconfigured
from quire.settings import OcrSettings, Secret
from quire.steps.ocr.engines import probe_tiers
from quire.tools.chat_model import ModelAddress


def test_by_default_all_tiers_are_asked_in_their_order_and_no_model():
    found = build_reading_options(OcrSettings())
    assert found.tiers == ("tesseract", "easyocr", "paddleocr", "apple_vision", "llm_local", "llm_cloud")
    assert (found.language, found.max_pixels, found.min_confidence) == ("eng", 100_000_000, None)
    assert found.local_model is found.cloud_model is found.judge_model is None


def test_tiers_can_be_chosen_and_switched_off():
    chosen = OcrSettings(tiers=("rapidocr", "tesseract", "easyocr"), enable_easyocr=False)
    assert build_reading_options(chosen).tiers == ("paddleocr", "tesseract")


def test_without_a_tier_nothing_starts():
    with pytest.raises(Misconfigured, match="switched off"):
        build_reading_options(OcrSettings(tiers=("easyocr",), enable_easyocr=False))
    with pytest.raises(Misconfigured, match="unknown OCR tier 'tesseract5'"):
        build_reading_options(OcrSettings(tiers=("tesseract5",)))


def test_a_model_is_known_by_its_address():
    settings = OcrSettings(
        cloud_model_url="https://models.example.org/v1",
        cloud_model="seer",
        cloud_model_key=Secret("sk-1"),
        model_seconds=9,
    )
    found = build_reading_options(settings)
    assert found.cloud_model == ModelAddress(
        url="https://models.example.org/v1", model="seer", key="sk-1", seconds=9
    )
    assert "sk-1" not in repr(found)


def test_each_tier_says_whether_it_is_there_or_what_it_needs():
    settings = OcrSettings(local_model_url="http://127.0.0.1:1/v1", local_model="seer")
    states = {state.tier: state for state in probe_tiers(build_reading_options(settings))}
    assert states["tesseract"].is_available
    assert states["tesseract"].engine.startswith("Tesseract 5")
    assert states["paddleocr"].engine.startswith("RapidOCR 3")
    assert (states["llm_local"].engine, states["llm_local"].is_available) == ("seer", True)
    assert "pip install easyocr" in states["easyocr"].needs
    assert "macOS" in states["apple_vision"].needs
    assert "ocr.cloud_model_url" in states["llm_cloud"].needs


def test_tesseract_without_data_says_where_it_looked(tmp_path):
    (state,) = probe_tiers(build_reading_options(OcrSettings(tiers=("tesseract",), tessdata=str(tmp_path))))
    assert not state.is_available
    assert str(tmp_path) in state.needs
