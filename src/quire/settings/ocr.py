"""Reading pictures: which engines, which languages, which limits."""

from typing import Annotated

from quire.settings.basics import Secret, about
from quire.settings.ocr_service import OCR_SERVICE_FALLBACKS, OcrServiceSettings

# Settings that are not set elsewhere come from the first of these variables that is set: those of the
# published OCR worker.
OCR_FALLBACKS: dict[str, tuple[str, ...]] = {
    **OCR_SERVICE_FALLBACKS,
    "ocr.tiers": ("OCR_ENABLED_TIERS",),
    "ocr.enable_easyocr": ("OCR_ENABLE_EASYOCR",),
    "ocr.enable_paddleocr": ("OCR_ENABLE_PADDLEOCR", "OCR_ENABLE_RAPIDOCR"),
    "ocr.enable_apple_vision": ("OCR_ENABLE_APPLE_VISION",),
    "ocr.enable_llm_local": ("OCR_ENABLE_LLM_LOCAL", "OCR_ENABLE_LLM_PROXY_VISION"),
    "ocr.enable_llm_cloud": ("OCR_ENABLE_LLM_CLOUD", "OCR_ENABLE_LLM_PROXY_CLOUD"),
    "ocr.min_valid_characters": ("OCR_MIN_VALID_CHARS",),
    "ocr.min_confidence": ("OCR_MIN_CONFIDENCE",),
    "ocr.max_text_bytes": ("OCR_MAX_TEXT_BYTES",),
    "ocr.judge_model": ("OCR_VALIDATION_MODEL",),
}


OCR_OUTPUTS = ("txt", "hocr", "alto", "pdf")


class OcrSettings(OcrServiceSettings, frozen=True, kw_only=True):
    """A model is asked only where its URL is set."""

    tiers: Annotated[
        tuple[str, ...], about("engines in the order in which they are asked; not set: all that are there")
    ] = ()
    enable_easyocr: Annotated[bool, about("ask tier easyocr, if it is there")] = True
    enable_paddleocr: Annotated[bool, about("ask tier paddleocr (RapidOCR), if it is there")] = True
    enable_apple_vision: Annotated[bool, about("ask tier apple_vision, if it is there")] = True
    enable_llm_local: Annotated[bool, about("ask tier llm_local, if it has an address")] = True
    enable_llm_cloud: Annotated[bool, about("ask tier llm_cloud, if it has an address")] = True
    language: Annotated[
        str, about("languages of pictures that name none, such as eng, de or eng+deu", min_length=1)
    ] = "eng"
    tessdata: Annotated[
        str, about("folder with the language data of Tesseract; empty: where packages put them")
    ] = ""
    min_valid_characters: Annotated[int, about("shorter text is not valid", ge=0, le=100_000)] = 3
    min_confidence: Annotated[
        float, about("least confidence of an engine in valid text; 0 is the limit of each engine", ge=0, le=1)
    ] = 0.0
    max_megapixels: Annotated[
        int, about("largest picture that is read, in millions of pixels", ge=1, le=10_000)
    ] = 100
    max_text_bytes: Annotated[
        int, about("text of one picture in an answer, in bytes of UTF-8", ge=100, le=1 << 26)
    ] = 51_200
    seconds: Annotated[float, about("longest reading of one picture by Tesseract", gt=0, le=3600)] = 120.0
    model_seconds: Annotated[float, about("longest wait for the answer of a model", gt=0, le=3600)] = 60.0
    outputs: Annotated[
        tuple[str, ...], about("what the pipeline ocr writes: txt, hocr, alto, pdf (searchable)")
    ] = OCR_OUTPUTS
    pdfa: Annotated[bool, about("searchable PDFs of the pipeline ocr are PDF/A-2b")] = False
    picture_quality: Annotated[
        int,
        about(
            "pictures that are no JPEGs become JPEGs of this quality in PDFs; 0: they lose nothing",
            ge=0,
            le=100,
        ),
    ] = 0
    force: Annotated[bool, about("the pipeline ocr reads pages of PDFs that have text, too")] = False
    max_pages: Annotated[int, about("most pages of a document in the pipeline ocr", ge=1, le=65_000)] = 10_000
    page_seconds: Annotated[
        float, about("longest reading of a page by all engines, in the pipeline ocr", gt=0, le=86_400)
    ] = 300.0
    memory_mb: Annotated[int, about("memory one worker of the pipeline ocr may use", ge=256, le=1 << 20)] = (
        2048
    )
    max_attempts: Annotated[int, about("tries for each part of a document", ge=1, le=100)] = 3
    local_model_url: Annotated[
        str, about("OpenAI-compatible address of tier llm_local, up to /v1; empty: none")
    ] = ""
    local_model: Annotated[str, about("name of the model behind llm_local")] = ""
    local_model_key: Annotated[Secret, about("key of llm_local; never shown")] = Secret()
    cloud_model_url: Annotated[
        str, about("OpenAI-compatible address of tier llm_cloud, up to /v1; empty: none")
    ] = ""
    cloud_model: Annotated[str, about("name of the model behind llm_cloud")] = ""
    cloud_model_key: Annotated[Secret, about("key of llm_cloud; never shown")] = Secret()
    judge_model_url: Annotated[
        str, about("OpenAI-compatible address of a light model that may refuse text; empty: rules alone")
    ] = ""
    judge_model: Annotated[str, about("name of the model that may refuse text")] = "lightweight"
    judge_model_key: Annotated[Secret, about("key of the model that may refuse text; never shown")] = Secret()
