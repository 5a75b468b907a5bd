"""From the plain text of a card or page to a recipe draft, by rules.

The parts are found by their headings; a card without them is taken apart by the look of its lines.
"""

import re
from collections.abc import Sequence

from quire.model.errors import Reject
from quire.model.recipe import RecipeDraft, RecipeErrorCode, RecipeSource
from quire.steps.recipe.cooking_words import Part, ingredient_likeness, part_of_heading, step_likeness
from quire.steps.recipe.found_recipe import FoundRecipe, make_draft
from quire.steps.recipe.ingredient import is_heading
from quire.steps.recipe.labels import read_labels
from quire.steps.recipe.quality_gate import QualityLimits, check_quality
from quire.steps.recipe.quantity import read_quantity
from quire.steps.recipe.text_blocks import join_ingredients, join_steps, part_mixed
from quire.steps.recipe.text_lines import mend_lines
from quire.steps.recipe.validation import describe_problems, validate_draft

_BOTH = re.compile(r"\W*ingredients?\W+(?:directions?|instructions?|method|preparation)\W*", re.IGNORECASE)
_INLINE_HEADING = re.compile(
    r"(ingredients|directions|instructions|method|zutaten|zubereitung|notes?|tips?)\s?:\s+(?=\S)",
    re.IGNORECASE,
)
_GROUP = re.compile(r"for the [\w ]{2,40}:?", re.IGNORECASE)
_TITLE_LOOKED_AT = 8
_LONGEST_TITLE = 120


def structure_text(text: str, *, source: RecipeSource, title_hint: str = "") -> RecipeDraft:
    """Find title, ingredients, steps, times and servings.

    Raises Reject (`text_structuring_failed`) if the text has neither ingredients nor steps.
    """
    found = _find(_split_headings(mend_lines(text)), title_hint.strip())
    if not found.ingredients or not found.steps:
        lacking = "ingredients" if not found.ingredients else "steps"
        message = f"no {lacking} were found in the text. Send a sharper picture, or type the recipe in."
        raise Reject(message, code=RecipeErrorCode.TEXT_STRUCTURING_FAILED)
    return make_draft(found, source)


def read_ocr_texts(
    texts: Sequence[str],
    confidences: Sequence[float],
    *,
    source: RecipeSource,
    title_hint: str = "",
    limits: QualityLimits | None = None,
) -> RecipeDraft:
    """Check, join, structure and validate the texts of pictures, which are in order.

    Raises Reject with the code of the contract: `ocr_no_results`, `ocr_no_text`, `quality_gate_failed`,
    `text_structuring_failed` or `draft_validation_failed`.
    """
    if not texts:
        raise Reject("no picture was read. Send the pictures again.", code=RecipeErrorCode.OCR_NO_RESULTS)
    joined = "\n\n".join(text.strip() for text in texts if text.strip())
    if not joined:
        message = "no text was found in the pictures. Send sharper pictures, with the whole page in view."
        raise Reject(message, code=RecipeErrorCode.OCR_NO_TEXT)
    problems = check_quality(texts, confidences, limits)
    if problems:
        message = f"the text of the pictures is too poor: {'; '.join(problems)}. Send sharper pictures."
        raise Reject(message, code=RecipeErrorCode.QUALITY_GATE_FAILED)
    draft = structure_text(joined, source=source, title_hint=title_hint)
    lacks = validate_draft(draft)
    if lacks:
        message = f"the recipe is not complete: {describe_problems(lacks)}. Send the missing part as well."
        raise Reject(message, code=RecipeErrorCode.DRAFT_VALIDATION_FAILED)
    return draft


def _split_headings(lines: list[str]) -> list[str]:
    """`Directions: Mix all.` in two lines."""
    split: list[str] = []
    for line in lines:
        found = _INLINE_HEADING.match(line)
        if found:
            split.extend((found[1], line[found.end() :]))
        else:
            split.append(line)
    return split


def _find(lines: list[str], title_hint: str) -> FoundRecipe:
    places = [(place, part) for place, line in enumerate(lines) if line and (part := _part_at(lines, place))]
    first = places[0][0] if places else len(lines)
    body: dict[Part, list[str]] = {part: [] for part in Part}
    for (place, part), (end, _) in zip(places, [*places[1:], (len(lines), Part.OTHER)], strict=False):
        body[part].extend([*([""] if body[part] else []), *lines[place + 1 : end]])
    head = lines[:first]
    if _BOTH.fullmatch(lines[first] if first < len(lines) else ""):
        body[Part.INGREDIENTS], body[Part.STEPS] = part_mixed(lines[first + 1 :])
    title, above = _take_title(head, title_hint)
    labels = read_labels(above)
    above = [line for place, line in enumerate(above) if place not in labels.used]
    ingredient_lines, step_lines = body[Part.INGREDIENTS], body[Part.STEPS]
    description: list[str] = []
    if places and ingredient_lines and step_lines:
        description = [line for line in above if line]
    elif ingredient_lines:
        # The steps have no heading: they begin where lines stop to look like ingredients.
        ingredient_lines, step_lines = _cut_steps(ingredient_lines)
        description = [line for line in above if line]
    else:
        listed, rest = _cut_description(above)
        description = listed
        ingredient_lines, mixed = part_mixed(rest)
        step_lines = [*mixed, *([""] if mixed and step_lines else []), *step_lines]
    inner = read_labels([*ingredient_lines, *step_lines])
    ingredient_lines = [line for line in ingredient_lines if not _is_label(line)]
    return FoundRecipe(
        title=title,
        description=" ".join(description)[:5000],
        servings=labels.servings or inner.servings,
        prep_minutes=labels.prep or inner.prep,
        cook_minutes=labels.cook or inner.cook,
        total_minutes=labels.total or inner.total,
        ingredients=tuple(join_ingredients(ingredient_lines)),
        groups=frozenset(_groups(ingredient_lines)),
        steps=tuple(
            step for step in join_steps([line for line in step_lines if not _is_label(line)]) if step
        ),
        notes=tuple(line for line in body[Part.NOTES] if line),
    )


def _part_at(lines: Sequence[str], place: int) -> Part | None:
    """The part whose heading the line is. A last line, or one that is followed by its like, is no heading."""
    line = lines[place]
    if _BOTH.fullmatch(line):
        return Part.INGREDIENTS
    part = part_of_heading(line) if not line[:1].islower() or len(line.split()) <= 2 else None
    if part is Part.OTHER and (" " not in line.strip() or place < 3):
        return None
    return part if part is not None and (place + 1 < len(lines) or part is Part.OTHER) else None


def _take_title(head: list[str], hint: str) -> tuple[str, list[str]]:
    """The first prominent line, and the lines without it. The hint wins where the text has no title."""
    looked_at = [(place, line) for place, line in enumerate(head) if line][:_TITLE_LOOKED_AT]
    for place, line in looked_at:
        if not _may_be_title(line):
            continue
        title, end = line, place + 1
        if end < len(head) and _goes_on(title, head[end]):
            title, end = f"{title} {head[end]}", end + 1
        return title.strip(" *_#-:"), [*head[:place], *head[end:]]
    return hint, head


def _goes_on(title: str, line: str) -> bool:
    """Whether the next line belongs to the title."""
    if not line or not _may_be_title(line) or len(title) + len(line) > 60:
        return False
    return title.endswith(("-", "&", " and", " with", " of", ",")) or (title.isupper() and line.isupper())


def _may_be_title(line: str) -> bool:
    letters = sum(letter.isalpha() for letter in line)
    if letters < 3 or len(line) > _LONGEST_TITLE or letters * 2 < len(line):
        return False
    if read_labels([line]).used or read_quantity(line) or part_of_heading(line):
        return False
    return not (line.endswith(".") and len(line.split()) > 6)


def _is_label(line: str) -> bool:
    """Whether the line is a label and its value, and no part of a sentence."""
    if not line or len(line) > 50 or line[:1].islower() or re.match(r"\d+[.)]", line):
        return False
    return bool(read_labels([line]).used) and step_likeness(line) < 0.7 and ingredient_likeness(line) < 0.8


def _cut_steps(lines: list[str]) -> tuple[list[str], list[str]]:
    """Cut where lines begin to look like steps, if those below do as well."""
    for place, line in enumerate(lines):
        if place < 2 or not line or step_likeness(line) < 0.7 or ingredient_likeness(line) >= 0.7:
            continue
        behind = [other for other in lines[place:] if other][:4]
        if sum(step_likeness(other) >= 0.5 or other[:1].islower() for other in behind) * 2 >= len(behind):
            return lines[:place], lines[place:]
    return part_mixed(lines)


def _cut_description(lines: list[str]) -> tuple[list[str], list[str]]:
    """Prose above the first ingredient-like line."""
    for place, line in enumerate(lines):
        if line and ingredient_likeness(line) >= 0.7:
            start = place - 1 if place and _GROUP.fullmatch(lines[place - 1]) else place
            return [text for text in lines[:start] if text], lines[start:]
    return [], lines


def _groups(lines: Sequence[str]) -> list[str]:
    """Headings inside of the list of ingredients: with a colon, or between a blank line and a quantity."""
    groups: list[str] = []
    counted = sum(1 for line in lines if line and read_quantity(line.lstrip("-•* ")))
    for place, line in enumerate(lines):
        if not line or read_quantity(line):
            continue
        behind = next((other for other in lines[place + 1 :] if other), "")
        alone = place == 0 or not lines[place - 1]
        by_look = (
            alone
            and counted >= 3
            and len(line.split()) <= 4
            and bool(read_quantity(behind.lstrip("-•* ")))
            and line[:1].isupper()
            and place + 1 < len(lines)
            and bool(lines[place + 1])
        )
        if is_heading(line) or (by_look and (place > 0 or line.isupper())):
            groups.append(line)
    return groups
