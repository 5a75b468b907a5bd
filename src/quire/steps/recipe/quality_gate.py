"""Decides whether recognised text is good enough to be read as a recipe.

A text must be long enough, must look like words, and must have two of four signs of a recipe: a confident
engine, kitchen words, an ingredient, a step. Deterministic, and linear in the length of the text.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from quire.steps.recipe.cooking_words import count_kitchen_words, ingredient_likeness, step_likeness

_TOKEN = re.compile(r"[^\W\d_]{1,40}")
_VOWELS = frozenset("aeiouyäöüéèêàâîïôûáíóúåæøœ")
_MOST_LOOKED_AT = 200_000
_MOST_LINES = 2000
_NEEDED_SIGNS = 2


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
    bounds = limits or QualityLimits()
    text = "\n".join(texts)[:_MOST_LOOKED_AT]
    lines = [line.strip() for line in text.splitlines() if line.strip()][:_MOST_LINES]
    return [
        *_check_size(lines, bounds),
        *_check_words(text, bounds),
        *_check_signs(lines, confidences, bounds),
    ]


def _check_size(lines: Sequence[str], limits: QualityLimits) -> list[str]:
    problems: list[str] = []
    characters = sum(len(line) for line in lines) + max(len(lines) - 1, 0)
    if characters < limits.min_characters:
        problems.append(f"{characters} characters, at least {limits.min_characters} are needed")
    if len(lines) < limits.min_lines:
        problems.append(f"{len(lines)} lines, at least {limits.min_lines} are needed")
    return problems


def _check_words(text: str, limits: QualityLimits) -> list[str]:
    """Whether the text looks like words. Digits and marks of quantities do not count against it."""
    marks = sum(
        1
        for letter in text
        if not letter.isspace() and not letter.isdigit() and letter not in "½¼¾⅓⅔⅛/.,-–()°:•*"
    )
    letters = sum(1 for letter in text if letter.isalpha())
    vowels = sum(1 for letter in text.casefold() if letter in _VOWELS)
    tokens = _TOKEN.findall(text.casefold())
    with_vowels = sum(1 for token in tokens if len(token) > 1 and not _VOWELS.isdisjoint(token))
    problems: list[str] = []
    if letters < limits.min_letter_share * marks or not letters:
        problems.append("too few letters among the signs")
    if letters and vowels < limits.min_vowel_share * letters:
        problems.append("too few vowels among the letters")
    if with_vowels < limits.min_vowel_tokens or len(tokens) < limits.min_tokens:
        problems.append("too few words")
    return problems


def _check_signs(lines: Sequence[str], confidences: Sequence[float], limits: QualityLimits) -> list[str]:
    mean = sum(confidences) / len(confidences) if confidences else 0.0
    signs = (
        mean >= limits.min_confidence,
        sum(1 for line in lines if count_kitchen_words(line)) >= 2,
        any(ingredient_likeness(line) >= 0.8 for line in lines),
        any(step_likeness(line) >= 0.8 for line in lines),
    )
    return [] if sum(signs) >= _NEEDED_SIGNS else ["it does not look like a recipe"]
