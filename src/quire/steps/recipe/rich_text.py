"""Text from strings that may hold HTML: tags removed, entities read, spaces made single.

Linear in the length; a string above the limit is cut.
"""

import html
import re

LONGEST = 100_000
_TAG = re.compile(r"<[^<>]{0,4000}>")
_LOOKS_LIKE_TAG = re.compile(r"<[a-zA-Z/!]")
_BLOCK = re.compile(
    r"</?(?:br|p|li|ul|ol|div|tr|table|h[1-6]|section|article|blockquote|dd|dt|dl)\b", re.IGNORECASE
)
_SPACES = re.compile(r"[^\S\n]+")
_ZERO_WIDTH = re.compile("[\u200b\u200c\u200d\u2060\ufeff\u00ad]")
_LEADING_NUMBER = re.compile(
    r"(?:step|schritt|étape|paso)?\s?#?(\d{1,2})\s?(?:[.):]|[-–]\s)\s?(?=\S)", re.IGNORECASE
)
_STEP_LABEL = re.compile(r"(?:step|schritt|étape|paso|passo)\s?#?\d{1,2}\s?[.:)]?\s*", re.IGNORECASE)


def read_line(value: str) -> str:
    """One line of plain text."""
    return " ".join(read_lines(value))


def read_lines(value: str) -> list[str]:
    """The lines of a string: by line breaks, and by the blocks of the HTML in it."""
    text = value[:LONGEST]
    for _ in range(3):
        if "&" not in text:
            break
        text = html.unescape(text)
    if "<" in text and _LOOKS_LIKE_TAG.search(text):
        text = _TAG.sub(_replace_tag, _without_scripts(text))
    text = _ZERO_WIDTH.sub("", text).replace("\r", "\n").replace("u0026#039;", "'")
    if "((" in text and "))" in text:
        text = text.replace("((", "(").replace("))", ")")
    return [line for line in (_SPACES.sub(" ", line).strip() for line in text.split("\n")) if line]


def drop_numbers(lines: list[str]) -> list[str]:
    """Without the numbers in front, if the lines are numbered, and without lines that are only `Step 3`."""
    kept = [
        line
        for line in lines
        if not _STEP_LABEL.fullmatch(line) and not re.fullmatch(r"\d{1,2}\s?[.):]?", line)
    ]
    numbered = [_LEADING_NUMBER.match(line) for line in kept]
    if kept and sum(1 for found in numbered if found) * 2 > len(kept):
        return [line[found.end() :] if found else line for line, found in zip(kept, numbered, strict=True)]
    return [
        line[found.end() :] if (found := _STEP_LABEL.match(line)) and found.end() < len(line) else line
        for line in kept
    ]


def split_numbered(text: str) -> list[str]:
    """`1. Mix. 2. Bake.` in one line, cut before each number; only if the numbers count up from 1."""
    places: list[int] = []
    for found in re.finditer(
        r"(?<!\S)(\d{1,2})\s?[.)]\s(?=\S)|(?<!\S)step (\d{1,2})\s?[.:)]?\s(?=\S)", text, re.IGNORECASE
    ):
        if int(found[1] or found[2]) == len(places) + 1:
            places.append(found.start())
    if len(places) < 2 or places[0] > 0:
        return [text]
    return [text[begin:end].strip() for begin, end in zip(places, [*places[1:], len(text)], strict=True)]


_SENTENCE = re.compile(r"(?<=[a-zäöüßéèàA-Z°)\d][.!?])\s+(?=[A-ZÄÖÜÉ(])")
_SHORTENED = re.compile(
    r"(?:\b(?:approx|tsp|tbsp|oz|lb|min|mins|hr|hrs|ca|no|e\.g|i\.e|ca|z\.b|evtl|bzw|pkg|in)\.)$",
    re.IGNORECASE,
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a paragraph, not cut behind abbreviations."""
    sentences: list[str] = []
    for part in _SENTENCE.split(text):
        if sentences and _SHORTENED.search(sentences[-1][-12:]):
            sentences[-1] = f"{sentences[-1]} {part}"
        elif part.strip():
            sentences.append(part.strip())
    return sentences


def _replace_tag(tag: re.Match[str]) -> str:
    return "\n" if _BLOCK.match(tag[0]) else ""


def _without_scripts(text: str) -> str:
    for name in ("script", "style"):
        lower = text.lower() if text.isascii() else text
        kept: list[str] = []
        place = 0
        while (begin := lower.find(f"<{name}", place)) >= 0:
            end = lower.find(f"</{name}", begin)
            behind = lower.find(">", end) + 1
            if end < 0 or behind == 0:
                break
            kept.append(text[place:begin])
            place = behind
        text = "".join([*kept, text[place:]])
    return text
