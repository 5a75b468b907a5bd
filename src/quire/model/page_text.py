"""The text that an OCR engine has read from one picture: words with their places, and how far to trust them.

Coordinates are pixels of the upright picture, from its top left corner. A text that is not `is_valid` is
doubtful: it is shown as such and never passes as content.
"""

from enum import StrEnum

from msgspec import Struct


class Tier(StrEnum):
    """Kinds of OCR engines, in the order in which they are asked."""

    TESSERACT = "tesseract"
    EASYOCR = "easyocr"
    PADDLEOCR = "paddleocr"
    APPLE_VISION = "apple_vision"
    LLM_LOCAL = "llm_local"
    LLM_CLOUD = "llm_cloud"


class Box(Struct, frozen=True, array_like=True, gc=False):
    """`right` and `bottom` lie just outside."""

    left: int
    top: int
    right: int
    bottom: int


class TextWord(Struct, frozen=True, array_like=True):
    """`confidence` is the engine's own, from 0 to 1."""

    text: str
    box: Box
    confidence: float


class TextLine(Struct, frozen=True, array_like=True):
    """The baseline is y = `baseline` + `slope` · (x - box.left), downwards. `ascent` is the height of tall
    letters above it, 0 where the engine does not tell.
    """

    words: tuple[TextWord, ...]
    box: Box
    baseline: float
    slope: float = 0.0
    ascent: float = 0.0


class TextParagraph(Struct, frozen=True, array_like=True):
    lines: tuple[TextLine, ...]
    box: Box


class PageText(Struct, frozen=True, kw_only=True):
    """What one tier has read.

    width, height: of the upright picture, in pixels
    rotation:      degrees clockwise, a multiple of 90, by which the picture was turned to be upright
    paragraphs:    in reading order; empty for engines that give no places
    text:          normalised, paragraphs separated by an empty line
    language:      as asked for, or as recognised
    confidence:    from 0 to 1; 0 where there is no text
    reason:        why the text is not valid
    """

    width: int
    height: int
    dpi: int = 0
    rotation: int = 0
    paragraphs: tuple[TextParagraph, ...] = ()
    text: str = ""
    language: str = ""
    confidence: float = 0.0
    tier: str = ""
    engine: str = ""
    is_valid: bool = False
    reason: str = ""
