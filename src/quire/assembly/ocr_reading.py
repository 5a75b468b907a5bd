"""From settings to the options with which pictures are read."""

from quire.model.errors import Misconfigured
from quire.model.page_text import Tier
from quire.settings import OcrSettings, Secret
from quire.steps.ocr.engines import choose_tiers
from quire.steps.ocr.options import ReadingOptions
from quire.tools.chat_model import ModelAddress
from quire.tools.refusals import MEGAPIXEL


def build_reading_options(ocr: OcrSettings) -> ReadingOptions:
    """Raises Misconfigured for an unknown tier, and when none is left. They may hold keys of models: not for
    what is stored, such as the options of steps.
    """
    disabled = {
        Tier.EASYOCR: not ocr.enable_easyocr,
        Tier.PADDLEOCR: not ocr.enable_paddleocr,
        Tier.APPLE_VISION: not ocr.enable_apple_vision,
        Tier.LLM_LOCAL: not ocr.enable_llm_local,
        Tier.LLM_CLOUD: not ocr.enable_llm_cloud,
    }
    chosen = choose_tiers(ReadingOptions(tiers=ocr.tiers))
    tiers = tuple(str(tier) for tier in chosen if not disabled.get(tier))
    if not tiers:
        raise Misconfigured(
            "ocr.tiers names only tiers that are switched off; enable one", code="wrong_option"
        )
    return ReadingOptions(
        tiers=tiers,
        language=ocr.language,
        tessdata=ocr.tessdata,
        min_valid_characters=ocr.min_valid_characters,
        min_confidence=ocr.min_confidence or None,
        max_pixels=ocr.max_megapixels * MEGAPIXEL,
        seconds=ocr.seconds,
        local_model=_address(ocr.local_model_url, ocr.local_model, ocr.local_model_key, ocr.model_seconds),
        cloud_model=_address(ocr.cloud_model_url, ocr.cloud_model, ocr.cloud_model_key, ocr.model_seconds),
        judge_model=_address(ocr.judge_model_url, ocr.judge_model, ocr.judge_model_key, ocr.model_seconds),
    )


def _address(url: str, model: str, key: Secret, seconds: float) -> ModelAddress | None:
    return ModelAddress(url=url, model=model, key=key.reveal(), seconds=seconds) if url else None
