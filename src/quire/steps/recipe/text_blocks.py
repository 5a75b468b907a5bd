"""Ingredients and steps out of the lines of a text: which lines belong together, and which to what."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from quire.steps.recipe.cooking_words import ingredient_likeness, step_likeness
from quire.steps.recipe.ingredient import clean_line, is_heading
from quire.steps.recipe.quantity import read_quantity
from quire.steps.recipe.rich_text import drop_numbers, split_sentences
from quire.steps.recipe.text_lines import part_interleaved
from quire.steps.recipe.units import STAND_ALONE, is_unit, unit_key

_LONGEST_INGREDIENT = 600
_BULLET = re.compile(r"\s*(?:[-–•*·▢□◦‣+]|[oe©°]\s(?=\d))\s?")
_NUMBERED = re.compile(r"\s*(?:step\s?)?(\d{1,2})\s?[.)]\s?(?=\S)", re.IGNORECASE)
_GOES_ON = re.compile(
    r"(?:,|\b(?:and|or|of|with|to|the|a|an|in|for|into|such as|plus|from|at|on|until|about))$", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"[.!?:)]['\"”’]?$")
_CONTINUES = re.compile(
    r"(?:and|or|to|for|with|at|in|on|plus|such|like|from|until|into|of|the|about|depending"
    r"|preferably|if|but|\()\b|\(",
    re.IGNORECASE,
)


def join_ingredients(lines: Sequence[str]) -> list[str]:
    """One line for each ingredient: wrapped lines belong to the one before."""
    joined: list[str] = []
    bulleted = sum(1 for line in lines if _BULLET.match(line)) * 2 > sum(1 for line in lines if line)
    width = max((len(line) for line in lines), default=0)
    # Where ingredients begin in lower case, that is no sign of a wrapped line.
    usual = sum(1 for line in lines if line[:1].isupper() or read_quantity(line)) * 2 >= sum(
        1 for line in lines if line
    ) and not _begins_in_lower_case(lines, width)
    blank = True
    for line in lines:
        if not line:
            blank = True
            continue
        if (
            joined
            and not blank
            and len(joined[-1]) < _LONGEST_INGREDIENT
            and _goes_on(joined[-1], line, bulleted=bulleted, width=width if usual else 0)
        ):
            joined[-1] = f"{joined[-1]} {line.strip()}"
        else:
            joined.append(line)
        blank = False
    return [line for line in (clean_line(line) for line in joined) if line]


def join_steps(lines: Sequence[str]) -> list[str]:
    """One text for each step: by numbers, bullets, blank lines, or the ends of paragraphs."""
    filled = [line for line in lines if line]
    numbers = [int(found[1]) for line in filled if (found := _NUMBERED.match(line))]
    if len(numbers) >= 2 and numbers[0] <= 2:
        return _join_at(lines, lambda line: _NUMBERED.match(line) is not None)
    if sum(1 for line in filled if _BULLET.match(line)) >= 2:
        return _join_at(lines, lambda line: _BULLET.match(line) is not None)
    paragraphs = _join_paragraphs(lines)
    if len(paragraphs) == 1:
        return split_sentences(paragraphs[0])
    return drop_numbers(paragraphs)


def part_mixed(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Ingredients and steps of a card without headings, or with both columns run together."""
    first_step = _first_number(lines)
    if first_step:
        return list(lines[:first_step]), list(lines[first_step:])
    ingredients: list[str] = []
    steps: list[str] = []
    last = ""
    for line in lines:
        if not line:
            if last:
                (ingredients if last == "i" else steps).append("")
            continue
        parted = part_interleaved(line)
        if parted is not None:
            ingredients.append(parted[0])
            steps.append(parted[1])
            last = "s"
            continue
        ingredient, step = ingredient_likeness(line), step_likeness(line)
        if _NUMBERED.match(line) and step >= 0.3:
            last = "s"
        elif steps and line[:1].islower() and last == "s" and ingredient < 0.7:
            pass
        elif ingredient >= 0.7 and step < 0.9:
            last = "i"
        elif step >= 0.7 or (last == "s" and ingredient < 0.5):
            last = "s"
        elif ingredient >= 0.5 and (not steps or step < 0.3):
            last = "i" if not steps or ingredient >= 0.7 else last or "i"
        else:
            last = "s" if step >= ingredient and (ingredients or step >= 0.5) else "i"
        (ingredients if last == "i" else steps).append(line)
    return ingredients, steps


def _first_number(lines: Sequence[str]) -> int:
    """Where numbered steps begin, if all ingredients stand above them; 0 if that cannot be told."""
    places = [
        (place, int(found[1]))
        for place, line in enumerate(lines)
        if (found := _NUMBERED.match(line)) and not read_quantity(line)
    ]
    begin = next((place for place, number in places if number == 1), 0)
    if begin < 2 or not any(place > begin and number == 2 for place, number in places):
        return 0
    below = [line for line in lines[begin:] if line]
    counted = sum(1 for line in below if ingredient_likeness(line) >= 0.8 and not _NUMBERED.match(line))
    return begin if counted * 3 < len(below) else 0


def _begins_in_lower_case(lines: Sequence[str], width: int) -> bool:
    """Whether a line in lower case stands behind one that it would have fitted on: it was not wrapped."""
    return any(
        before
        and line[:1].islower()
        and not before.rstrip().endswith((",", ":", "-"))
        and before.count("(") <= before.count(")")
        and not _GOES_ON.search(before)
        and not _CONTINUES.match(line)
        and not is_unit(line.split(" ", 1)[0])
        and len(before) + 1 + len(line.split(" ", 1)[0]) <= width * 0.6
        for before, line in pairwise(lines)
    )


def _goes_on(before: str, line: str, *, bulleted: bool, width: int) -> bool:
    if before.count("(") > before.count(")"):
        return True
    if _BULLET.match(line) or is_heading(line) or before.rstrip().endswith(":"):
        return False
    if (bulleted and _BULLET.match(before)) or _GOES_ON.search(before):
        return True
    text = clean_line(line)
    first = text.split(" ", 1)[0]
    if read_quantity(text) or unit_key(first) in STAND_ALONE:
        return False
    if _CONTINUES.match(text) and not text[:1].isupper():
        return True
    # Ingredients often begin in lower case; only a full line is likely to be wrapped.
    return width > 0 and text[:1].islower() and len(before) >= max(24, width * 0.75) and not is_unit(first)


def _join_at(lines: Sequence[str], begins: Callable[[str], bool]) -> list[str]:
    parts: list[list[str]] = []
    for line in lines:
        if line and (not parts or begins(line)):
            parts.append([line])
        elif line:
            parts[-1].append(line)
    joined = (" ".join(part) for part in parts)
    return [
        clean_line(_NUMBERED.sub("", line, count=1) if _NUMBERED.match(line) else line) for line in joined
    ]


def _join_paragraphs(lines: Sequence[str]) -> list[str]:
    """Paragraphs by blank lines; without those, a short line that ends a sentence ends a paragraph."""
    width = max((len(line) for line in lines), default=0)
    inner = list(lines)
    while inner and not inner[-1]:
        inner.pop()
    blanks = sum(1 for line in inner if not line)
    by_blank = blanks > 0
    paragraphs: list[list[str]] = []
    ended = True
    for line in inner:
        if not line:
            # A page may end in the middle of a sentence; many blank lines part steps.
            ended = ended or blanks >= 3 or not paragraphs or bool(_SENTENCE_END.search(paragraphs[-1][-1]))
            continue
        if (
            ended
            and (blanks >= 3 or not (paragraphs and line[:1].islower()))
            and not _is_cut(paragraphs, line)
        ):
            paragraphs.append([line])
        else:
            paragraphs[-1].append(line)
        short = len(line) < width * 0.8
        ended = not by_blank and (bool(_SENTENCE_END.search(line)) and short)
        if not by_blank and short and width < 60 and not line.endswith(",") and step_likeness(line) >= 0.7:
            ended = True
    return [" ".join(paragraph) for paragraph in paragraphs]


def _is_cut(paragraphs: Sequence[Sequence[str]], line: str) -> bool:
    """Whether a sentence that began with a capital goes on in lower case: engines see blank lines in it."""
    if not paragraphs or not line[:1].islower():
        return False
    before = " ".join(paragraphs[-1])
    return before[:1].isupper() and not before.rstrip().endswith((".", "!", "?", ":", ";"))
