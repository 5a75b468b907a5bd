"""Splits an ingredient line into quantity, unit, name and notes, and puts the parts together again.

No word of a line is lost: what is neither quantity nor unit nor name is in the notes. Rules, not a model:
0.1 ms a line, and the same answer everywhere.
"""

import re

from quire.model.recipe import Ingredient
from quire.steps.recipe.ingredient_notes import join_notes, split_notes
from quire.steps.recipe.quantity import Quantity, read_quantity, repair_misread, times_at
from quire.steps.recipe.units import (
    AMBIGUOUS,
    CONNECTORS,
    CONTAINERS,
    MEASURES,
    SIZED,
    STAND_ALONE,
    count_unit_words,
    is_unit,
    unit_key,
)

_LONGEST_LINE = 2000
_SPACES = re.compile(r"[\s\u00a0\u200b\u200c\u200d\ufeff\u2060]+")
_BULLET = re.compile(r"(?:[-–—•*·▢□◦‣☐✓✔►▪●○■»>+]\s{0,2}|\[[ xX]?\]\s?){1,3}(?=\S)")
_NUMBER_AND_UNIT = re.compile(r"([\d./⁄,½¼¾⅓⅔⅛]+)[-‐‑\s]?([A-Za-zµ]{1,12})\.?(?=[\s,)/(]|$)")
_SIZE = re.compile(
    r"\d{1,4}(?:[.,/]\d{1,3})?[-\s]?(?:oz|ounces?|g|gr|kg|ml|lbs?|pounds?|grams?|cl|l|quart|inch)\b\.?"
)
_UNKNOWN_SHARE = re.compile(r"%(?=\s(?:cups?|tbsps?|tsps?|tablespoons?|teaspoons?|lbs?|oz|pounds?)\b)")
_SECOND = re.compile(r"\s?(?:/|\||plus\s|\+|and\s|or\s)\s?(?=[\d½¼¾⅓⅔⅛])", re.IGNORECASE)
_OR_LESS = re.compile(r"\s?(or (?:less|more|so)|or to taste)\b", re.IGNORECASE)
_AND_A_HALF = re.compile(r"\s?and (?:a half|a quarter|half)\b", re.IGNORECASE)
_OF_A = re.compile(r"of (?:an? |the )?(?=\w)", re.IGNORECASE)
_HEADING_START = re.compile(
    r"(?:for|für|pour|per|para)\s(?:the |a |den |die |das |la |le |les |l['’]|il |el )?[\w' -]{2,40}:?",
    re.IGNORECASE,
)


def parse_ingredient(line: str) -> Ingredient:
    """Split a line. Never raises, and every word of the line is in one of the parts."""
    text = clean_line(line)
    if not text or len(text) > _LONGEST_LINE:
        return Ingredient(name=text)
    text = repair_misread(text)
    unclear = _UNKNOWN_SHARE.match(text)
    notes: list[str] = []
    if unclear:  # ½, ¼ and ¾ are all misread as %, so the quantity is not known
        notes.append("quantity unclear: %")
        text = text[unclear.end() :].strip()
    quantity = None if unclear else read_quantity(text)
    if quantity is None:
        return _without_quantity(text, notes)
    if quantity.about:
        notes.append("about" if quantity.about in {"~", "≈"} else quantity.about)
    return _with_quantity(text, quantity, notes)


def write_ingredient(ingredient: Ingredient) -> str:
    """Put the parts into one line, from which `parse_ingredient` reads them again."""
    if ingredient.unit and not ingredient.quantity:
        line = f"{ingredient.unit} of {ingredient.name}"
    else:
        line = " ".join(part for part in (ingredient.quantity, ingredient.unit, ingredient.name) if part)
    return f"{line}, {ingredient.notes}" if ingredient.notes else line


def is_heading(line: str) -> bool:
    """Whether the line names a part of the list (`For the sauce:`) instead of an ingredient."""
    text = clean_line(line)
    if not text or len(text) > 60 or len(text.split()) > 8 or read_quantity(text.rstrip(":")):
        return False
    return text.endswith(":") or _HEADING_START.fullmatch(text) is not None


def clean_line(line: str) -> str:
    """The line without bullets, and with single spaces."""
    text = _SPACES.sub(" ", line).strip()
    bullet = _BULLET.match(text)
    return text[bullet.end() :] if bullet else text


def _without_quantity(text: str, notes: list[str]) -> Ingredient:
    words = text.split(" ", 3)
    unit = None
    if notes:  # an unclear quantity stood before the unit
        count = count_unit_words(words)
        unit, text = " ".join(words[:count]) or None, " ".join(words[count:])
    elif len(words) > 2 and _stands_alone(words[0]) and words[1].casefold() in CONNECTORS:
        unit, text = words[0], text.split(" ", 2)[2]
    elif (
        len(words) > 3 and words[0].casefold() in SIZED and _stands_alone(words[1]) and words[2] in CONNECTORS
    ):
        unit, text = f"{words[0]} {words[1]}", words[3]
    return _finish(None, unit, text, notes)


def _stands_alone(word: str) -> bool:
    """Whether the word is a unit without a number: `Pinch of salt`, `cup of sugar`."""
    return unit_key(word) in STAND_ALONE or (
        is_unit(word) and unit_key(word) not in AMBIGUOUS and len(word) > 2
    )


def _with_quantity(text: str, quantity: Quantity, notes: list[str]) -> Ingredient:
    shown, rest = quantity.text, text[quantity.end :]
    size_place = times_at(text, quantity.end)
    if size_place is not None and (size := _SIZE.match(text, size_place)):
        behind = text[size.end() :].strip()
        if unit_key(behind.split(" ", 1)[0]) in CONTAINERS:
            shown, rest = text[: size.end()].strip(), text[size.end() :]
        else:
            inner = read_quantity(text, size_place)
            if inner is not None:
                shown, rest = text[: inner.end].strip(), text[inner.end :]
        shown = shown.removeprefix(quantity.about).strip()
    elif quantity.text.isdigit() or quantity.in_words:
        rest, size_note = _take_size(rest)
        notes.extend(size.rstrip(".") for size in size_note)
    unit, rest = _take_unit(rest, behind_words=quantity.in_words)
    if quantity.in_words and shown.casefold() in {"a", "an"} and unit is None and not _counts(rest):
        return _finish(None, None, f"{shown} {rest}", notes)
    if unit is not None:
        less = _OR_LESS.match(rest)
        if less:
            notes.append(less[1])
            rest = rest[less.end() :]
        half = _AND_A_HALF.match(rest)
        if half:
            shown = f"{'one' if shown.casefold() in {'a', 'an'} else shown} {half[0].strip()}"
            rest = rest[half.end() :]
        rest = _take_second_measure(rest, notes)
        container, _, behind = rest.strip().partition(" ")
        if unit_key(container) in CONTAINERS and unit_key(unit) in MEASURES and behind:
            notes.append(container.rstrip("."))
            rest = behind
    return _finish(shown, unit, _drop_connector(rest, unit), notes)


def _take_size(rest: str) -> tuple[str, list[str]]:
    """`(14 oz) can` and `14-oz can`: the size of the container goes into the notes."""
    stripped = rest.lstrip()
    inside = stripped
    if stripped.startswith("("):
        end = stripped.find(")", 0, 60)
        if end < 0 or not stripped[1:2].isdigit():
            return rest, []
        inside, behind = stripped[1:end].strip(), stripped[end + 1 :].strip()
    else:
        size = _SIZE.match(stripped)
        if size is None or rest[:1] not in {" ", "-"}:
            return rest, []
        inside, behind = size[0].strip(), stripped[size.end() :].strip()
    if is_unit(behind.split(" ", 1)[0]) and unit_key(behind.split(" ", 1)[0]) not in AMBIGUOUS:
        return f" {behind}", [inside]
    return rest, []


def _take_unit(rest: str, *, behind_words: bool) -> tuple[str | None, str]:
    attached = bool(rest) and not rest[0].isspace()
    stripped = rest.lstrip(" -‐‑") if not behind_words else rest.lstrip()
    words = stripped.split(" ", 4)
    # `500g/1lb` and `cup(240 ml)` have no space behind the unit.
    head = re.match(r"([^\s/(),|]{1,24})(?=[/(,|])", stripped)
    if head:
        words = [head[1], *stripped[head.end() :].split(" ", 3)]
    if len(words) > 2 and words[0].casefold() in {"a", "an"} and is_unit(words[1]):
        words = words[1:]
        stripped = stripped.split(" ", 1)[1]
    if behind_words and len(words) > 2 and words[0] == "of" and words[1] in {"a", "an"}:
        count = count_unit_words(words[2:])
        if count:
            used = words[: 2 + count]
            return " ".join(used[2:]), " ".join(words[2 + count :])
    count = count_unit_words(words)
    if not count:
        return None, rest if attached and not stripped[:1].isalpha() else stripped
    unit = " ".join(words[:count])
    behind = stripped[len(unit) :].lstrip() if stripped.startswith(unit) else " ".join(words[count:])
    key = unit_key(words[0])
    if key in AMBIGUOUS and behind_words:
        return None, stripped
    if not behind.strip(" .,;:()"):
        # `2 cloves`: the word is the name. A measure alone (`200 g`) is a unit without a name.
        return None, stripped
    return unit.rstrip(",."), behind if not unit.endswith(",") else f", {behind}"


def _take_second_measure(rest: str, notes: list[str]) -> str:
    """`/ 240 ml`, `plus 2 tbsp`: a further measure goes into the notes."""
    joint = _SECOND.match(rest)
    if joint is None:
        return rest
    measure = _NUMBER_AND_UNIT.match(rest, joint.end()) or re.compile(
        r"([\d./⁄,½¼¾⅓⅔⅛]+(?: \d/\d)?) ([A-Za-z]{1,12})\.?(?=[\s,)/(]|$)"
    ).match(rest, joint.end())
    if measure is None or (unit_key(measure[2]) not in MEASURES and measure[2] not in {"T", "t"}):
        return rest
    notes.append(rest[: measure.end()].strip(" /|"))
    return rest[measure.end() :]


def _drop_connector(rest: str, unit: str | None) -> str:
    text = rest.strip()
    first, _, behind = text.partition(" ")
    if unit is None:
        half = _OF_A.match(text)
        return text[half.end() :] if half else text
    if behind and first.casefold() in CONNECTORS:
        return behind
    return text[2:] if first[:2].casefold() in {"d'", "d’"} and len(first) > 2 else text


def _counts(rest: str) -> bool:
    """Whether `a` is a number here: `a white onion`, but not `a little oil`."""
    return not re.match(
        r"\s?(?:little|bit|lot|good|nice|mix|mixture|combination|handful)\b", rest, re.IGNORECASE
    )


def _finish(quantity: str | None, unit: str | None, text: str, notes: list[str]) -> Ingredient:
    name, further = split_notes(text, canned=unit is not None and unit_key(unit) in CONTAINERS)
    notes = [*notes, *further]
    if not name:
        if notes and not quantity and not unit:
            name, notes = notes[0], notes[1:]
        elif unit:
            name, unit = unit, None
        elif notes:
            name, notes = notes[-1], notes[:-1]
        else:
            name, quantity = quantity or text, None
    return Ingredient(name=name, quantity=quantity, unit=unit, notes=join_notes(notes))
