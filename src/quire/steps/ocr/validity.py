"""Whether a text that an engine has read is sound: by rules, the same for the same text.

The engine's own confidence alone does not tell: engines are sure of letters that they see in a script they do
not know, or in a pattern. So the words count too: ordinary words of a language, or at least words that could
be some. Numbers need more confidence, because nothing else speaks for them.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple
from unicodedata import normalize

from quire.model.page_text import PageText, Tier
from quire.steps.ocr.options import ReadingOptions
from quire.tools import languages

Soundness = Literal["sound", "unsure", "unsound"]

# Below the first, an engine guesses; from the second on, it need not know the words.
_LIMITS = {
    Tier.TESSERACT: (0.6, 0.8),
    Tier.EASYOCR: (0.5, 0.85),
    Tier.PADDLEOCR: (0.8, 0.96),
    Tier.APPLE_VISION: (0.4, 0.9),
}
_ORDINARY = 0.6  # of the letters, in words that a language has
_SOME_ORDINARY = 0.35
_CERTAIN_LANGUAGE = 0.6
_LIKELY_LANGUAGE = 0.2
_SURE_NUMBERS = 0.8
_MOST_JUDGED = 20_000  # characters

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_NUMBER = re.compile(r"[^\w\s]*\d[\d.,:/%+\-\u2013\u00b0'\u2019]*[^\W\d_]{0,3}[^\w\s]*")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")  # kana and Chinese characters
# RapidOCR writes some letters of these, and leaves out the accented ones.
_HALF_KNOWN = re.compile("[\u0370-\u03ff\u0400-\u052f]")
_MOST_HALF_KNOWN = 0.3  # of the letters
_VOWELS = frozenset("aeiouyæøœ")
_INNER_CAPITAL = re.compile(r"[^\W\d_A-ZÀ-Þ][A-ZÀ-Þ]")


class Verdict(NamedTuple):
    """`unsure`: sound enough unless another engine reads it better. `reason` says why it is not sound."""

    soundness: Soundness
    reason: str = ""
    language: str = ""


def judge_text(found: PageText, wanted: Sequence[str], options: ReadingOptions) -> Verdict:
    """Judge a normalised text. `wanted` are the languages it was expected in, by their short names; those
    that the engine has read with are in `found.language`, empty for an engine that has no choice.
    """
    text = found.text[:_MOST_JUDGED]
    letters, digits = sum(map(str.isalpha, text)), sum(map(str.isdigit, text))
    if len(text) < options.min_valid_characters or letters + digits < options.min_valid_characters:
        return Verdict("unsound", "too short or empty")
    lowest, high = _LIMITS.get(Tier(found.tier), (0.0, 1.0))
    if options.min_confidence is not None:
        lowest = options.min_confidence
    if found.confidence < lowest:
        return Verdict("unsound", f"the engine is not sure of it: confidence {found.confidence:.2f}")
    if found.tier == Tier.PADDLEOCR and len(_HALF_KNOWN.findall(text)) > _MOST_HALF_KNOWN * letters:
        return Verdict("unsound", "letters of a script that the engine does not know")
    if digits > letters:
        return _judge_numbers(text, found.confidence)
    known = languages.parse_languages(found.language)
    return _judge_words(text, wanted, known, certain=found.confidence >= high)


def _judge_numbers(text: str, confidence: float) -> Verdict:
    tokens = text.split()
    numbers = sum(bool(_NUMBER.fullmatch(token)) for token in tokens)
    if confidence < _SURE_NUMBERS or 2 * numbers < len(tokens):
        return Verdict("unsound", "digits and signs that make no table of numbers")
    return Verdict("sound")


def _judge_words(text: str, wanted: Sequence[str], known: Sequence[str], *, certain: bool) -> Verdict:
    detected = languages.detect_languages(text)
    first = detected[0].name if detected and detected[0].score >= _CERTAIN_LANGUAGE else ""
    if len(_UNSPACED.findall(text)) > 0.5 * sum(map(str.isalpha, text)):
        return Verdict("sound", language=first) if certain and first else _unknown_words()
    likely = [one.name for one in detected if one.score >= _LIKELY_LANGUAGE]
    among = list(dict.fromkeys([*wanted, *likely, "en"]))
    words = [word.lower().replace("\u2019", "'") for word in _WORD.findall(text)]
    expected = _share(words, [one for one in among if one in known] if known else among)
    if expected >= _ORDINARY and (not first or not known or first in known or not certain):
        return Verdict("sound", language=first)
    share = _share(words, among)
    # In a language that the engine has no data of: another may read its accents better.
    if share >= _ORDINARY or (first and share >= _SOME_ORDINARY):
        return Verdict("unsure", language=first)
    if first and not languages.has_word_list(first) and certain:
        return Verdict("unsure", language=first)
    if certain and _could_be_words(words, text):
        return Verdict("unsure", language=first)
    return _unknown_words()


def _unknown_words() -> Verdict:
    return Verdict("unsound", "hardly any of its words are of a language")


def _share(words: Sequence[str], among: Sequence[str]) -> float:
    """How many of the letters are in ordinary words. Two letters make a word in nearly any list."""
    letters = sum(map(len, words))
    known = sum(len(word) for word in words if len(word) > 1 and languages.is_known(word, among))
    ones = sum(word in {"a", "i", "o", "à", "y"} for word in words)
    return (known + ones) / letters if letters else 0.0


def _could_be_words(words: Sequence[str], text: str) -> bool:
    """Names and words of rare languages: with vowels in each, long enough, no capitals within."""
    long = [word for word in words if len(word) >= 3]
    letters = sum(map(len, words))
    if not long or sum(map(len, long)) < 0.7 * letters:
        return False
    vowels = [sum(letter in _VOWELS for letter in normalize("NFD", word)) for word in words]
    with_vowels = sum(count > 0 for count, word in zip(vowels, words, strict=True) if len(word) >= 3)
    odd = len(_INNER_CAPITAL.findall(text))
    return with_vowels >= 0.8 * len(long) and 0.2 <= sum(vowels) / letters <= 0.65 and odd <= 0.1 * len(words)
