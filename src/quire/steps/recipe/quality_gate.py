"""Decides whether recognised text is good enough to be read as a recipe."""

from collections.abc import Sequence

from msgspec import Struct


class QualityLimits(Struct, frozen=True, kw_only=True):
    """min_confidence is on the scale from 0 to 1."""

    min_characters: int = 80
    min_lines: int = 4
    min_letter_share: float = 0.65
    min_vowel_share: float = 0.30
    min_vowel_tokens: int = 8
    min_tokens: int = 12
    min_confidence: float = 0.5


def check_quality(
    texts: Sequence[str], confidences: Sequence[float], limits: QualityLimits | None = None
) -> list[str]:
    """List what is wrong with the text; empty if it passes. `confidences` belong to `texts`."""
    raise NotImplementedError
