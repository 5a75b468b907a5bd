"""Mends lines of recognised text: drops page numbers and headers, parts columns, undoes hyphenation.

Every function is linear in the text. Line breaks that end a thought stay; `text_recipe` decides which of
them do not.
"""

import re
from collections import Counter

from quire.steps.recipe.cooking_words import VERBS, part_of_heading
from quire.steps.recipe.ingredient import clean_line
from quire.steps.recipe.quantity import read_quantity

MAX_TEXT = 200_000
_MOST_LINES = 3000
_LONGEST_JOINED = 2000
_PAGE_NUMBER = re.compile(
    r"(?:[-–—\s]{0,4}(?:page|seite|p\.)?\s{0,2}\d{1,4}(?:\s?(?:of|/|von)\s?\d{1,4})?[-–—\s]{0,4})",
    re.IGNORECASE,
)
_COLUMN_GAP = re.compile(r"\s{4,}|\t+|\s\|\s")
_SPACES = re.compile(r"[^\S\n]+")
_KEPT_HYPHENS = frozenset("""
all self semi low high half full non medium bite well extra pre deep free thick thin skin bone one two
three four large small sugar fat oven
""".split())  # fmt: skip
_HYPHEN_END = re.compile(r"([^\W\d_]+)[-‐¬]$")
# What engines read instead of a bullet; a letter counts only before a number, or among other bullets.
_MISREAD_BULLET = re.compile(r"(?:[«»¢©®¤°]|[eo](?=\s\d))\s(?=\S)")
_LETTER_BULLET = re.compile(r"[eo]\s(?=\S)")
_BULLET = re.compile(r"[•*·]\s")
_LIST_AND_STEP = re.compile(r"(?<=[a-z)0-9])\s(?=(?:\d{1,2}\.\s)?([A-Z][a-zé]{1,12})\s[a-z])")


def mend_lines(text: str) -> list[str]:
    """The lines of a text; an empty string stands for a blank line."""
    lines: list[str] = []
    for raw in _part_columns(
        text[:MAX_TEXT]
        .replace("\r\n", "\n")
        .replace("\r", "\n")
        .replace("\f", "\n\n")
        .split("\n", _MOST_LINES)[:_MOST_LINES]
    ):
        line = _SPACES.sub(" ", raw).strip()
        if line and not re.search(r"\w", line):
            line = ""
        if line or (lines and lines[-1]):
            lines.append(line)
    return _join_hyphens(_drop_headers(_drop_page_numbers(_mend_bullets(lines))))


def _mend_bullets(lines: list[str]) -> list[str]:
    """Bullets where a list has them and they were read as other marks."""
    misread = sum(1 for line in lines if _MISREAD_BULLET.match(line))
    marked = misread + sum(1 for line in lines if _BULLET.match(line))
    if not misread or marked < 3:
        return lines
    lines = [
        _MISREAD_BULLET.sub("• ", line, count=1) if _MISREAD_BULLET.match(line) else line for line in lines
    ]
    return [_LETTER_BULLET.sub("• ", line, count=1) if _LETTER_BULLET.match(line) else line for line in lines]


def _part_columns(lines: list[str]) -> list[str]:
    """Where most lines have a wide gap, the page has two columns: the left one is read first."""
    split = [_COLUMN_GAP.split(line.strip(), maxsplit=1) for line in lines]
    with_gap = sum(1 for parts in split if len(parts) == 2 and parts[0] and parts[1])
    with_gap += (
        sum(1 for line in lines if line.strip() and len(line) - len(line.lstrip()) >= 16)
        if with_gap >= 3
        else 0
    )
    filled = sum(1 for line in lines if line.strip())
    if with_gap < 3 or with_gap * 10 < filled * 4:
        return lines
    first = next(place for place, parts in enumerate(split) if len(parts) == 2)
    last = max(place for place, parts in enumerate(split) if len(parts) == 2)
    while last + 1 < len(lines) and lines[last + 1].strip():
        last += 1  # one column is longer than the other
    region, left, right = range(first, last + 1), [], []
    for place in region:
        parts = split[place]
        indented = lines[place][:1].isspace() and len(parts) == 1
        if indented and len(lines[place]) - len(lines[place].lstrip()) >= 8:
            right.append(parts[0])
        else:
            left.append(parts[0])
            if len(parts) == 2:
                right.append(parts[1])
    return [*lines[:first], *left, "", *right, "", *lines[last + 1 :]]


def part_interleaved(line: str) -> tuple[str, str] | None:
    """An ingredient and a step that OCR has read as one line: `2 cups flour Preheat oven to 350°F.`"""
    if not read_quantity(clean_line(line)):
        return None
    for cut in _LIST_AND_STEP.finditer(line[:200]):
        if cut[1].casefold() in VERBS and cut.start() >= 4 and len(line[cut.end() :].split()) >= 4:
            return line[: cut.start()].strip(), line[cut.end() :].strip()
    return None


def _drop_page_numbers(lines: list[str]) -> list[str]:
    """Numbers alone at the edge of a page, and `Page 3 of 4` anywhere; a number between ingredients stays."""
    kept: list[str] = []
    for place, line in enumerate(lines):
        if line and _PAGE_NUMBER.fullmatch(line):
            alone = (
                place in {0, len(lines) - 1}
                or not lines[place - 1]
                or place + 1 == len(lines)
                or not lines[place + 1]
            )
            if alone or not line.strip().isdigit():
                continue
        kept.append(line)
    return kept


def _drop_headers(lines: list[str]) -> list[str]:
    """Running headers: the same short line again at the beginning of a later page."""
    counts = Counter(line for line in lines if 3 < len(line) <= 60 and not part_of_heading(line))
    seen: set[str] = set()
    kept: list[str] = []
    for place, line in enumerate(lines):
        repeated = (
            counts[line] > 1
            and line in seen
            and (place == 0 or not lines[place - 1])
            and not read_quantity(line)
        )
        seen.add(line)
        if not repeated:
            kept.append(line)
    return kept


def _join_hyphens(lines: list[str]) -> list[str]:
    joined: list[str] = []
    for line in lines:
        last = joined[-1] if joined else ""
        # A text that is one long chain of hyphens is no text: lines are bounded.
        cut = _HYPHEN_END.search(last[-60:]) if line[:1].islower() and len(last) < _LONGEST_JOINED else None
        if cut is None:
            joined.append(line)
        elif cut[1].casefold() in _KEPT_HYPHENS:
            joined[-1] = f"{joined[-1]}{line}"
        else:
            joined[-1] = f"{joined[-1][:-1]}{line}"
    return joined
