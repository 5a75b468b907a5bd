"""Finds ingredients and steps among the lines of a page: by headings, class names, the look of lists.

Several places may look like a list of ingredients (a table of contents, a teaser of another recipe); the
best pair of list and steps wins. Cost is linear in the number of lines, for a bounded number of headings.
"""

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from quire.steps.recipe.cooking_words import Part, ingredient_likeness, part_of_heading, step_likeness
from quire.steps.recipe.ingredient import clean_line
from quire.steps.recipe.rich_text import drop_numbers
from quire.steps.recipe.tree_text import PSEUDO_HEADING, PageLine

_MOST_HEADINGS = 40
_LONGEST_PART = 400
_HEADING_BONUS = 2.0
_HINT_BONUS = 2.0
_FOR_A_PART = re.compile(r"\w\s+(?:for|to|für|pour|per|para)\s+\w", re.IGNORECASE)
_PROSE = re.compile(
    r"(?:as|this|the|these|those|you|i|we|if|it|here|there|my|for|when|make|feel|note)\b", re.IGNORECASE
)
_COLUMNS = frozenset(
    "amount quantity qty unit units measure measurement ingredient ingredients item menge zutat".split()
)


class PagePart(Struct, frozen=True):
    """Lines of one part. `first` and `last` are places in the page; `groups` are headings inside."""

    first: int
    last: int
    entries: tuple[str, ...]
    groups: frozenset[str] = frozenset()
    score: float = 0.0


def find_parts(lines: Sequence[PageLine]) -> tuple[PagePart | None, PagePart | None]:
    """The best ingredients, and the best steps for them."""
    headings = [(place, part) for place, line in enumerate(lines) if (part := _heading_part(line))]
    lists = [place for place, part in headings if part is Part.INGREDIENTS][:_MOST_HEADINGS]
    ways = [place for place, part in headings if part is Part.STEPS][:_MOST_HEADINGS]
    ingredients = [*(_ingredients_at(lines, place) for place in lists), *_hinted(lines, "ingredients")]
    steps = [*(_steps_at(lines, place) for place in ways), *_hinted(lines, "steps")]
    found = [part for part in ingredients if part is not None and part.entries]
    if not found:
        found = _list_like(lines)
    if not found:
        alone = [part for part in steps if part is not None and part.entries]
        return None, max(alone, key=lambda part: (part.score, -part.first), default=None)
    best = max(found, key=lambda part: (part.score, -part.first))
    further = [part for part in steps if part is not None and part.entries and not _overlap(part, best)]
    if not further:
        further = _steps_after(lines, best.last)
    return best, max(
        further, key=lambda part: (part.score + (part.first > best.first), -part.first), default=None
    )


def _heading_part(line: PageLine) -> Part | None:
    if line.item and line.level == 0:
        return None
    return part_of_heading(line.text)


def _section(lines: Sequence[PageLine], place: int, own: Part) -> list[tuple[int, PageLine]]:
    """The lines below a heading, up to the heading of another part."""
    heading = lines[place]
    section: list[tuple[int, PageLine]] = []
    for number in range(place + 1, min(len(lines), place + _LONGEST_PART)):
        line = lines[number]
        part = _heading_part(line)
        if part is own and not (part is Part.STEPS and line.level == 0):
            # `Ingredients for the sauce` goes on with the list; a second `Ingredients` begins another one.
            if section and not _FOR_A_PART.search(line.text):
                break
            if section:
                section.append((number, line))
            continue
        if part is not None and (part is not Part.OTHER or line.level or not section or " " in line.text):
            break
        if 0 < line.level < PSEUDO_HEADING and section:
            above = 0 < heading.level < PSEUDO_HEADING
            if above and line.level < heading.level:
                break
            if above and line.level == heading.level and not _goes_on(lines, number, own):
                break
        section.append((number, line))
    return section


def _goes_on(lines: Sequence[PageLine], number: int, own: Part) -> bool:
    """Whether a heading of the same level only names a group: what follows is of the same kind."""
    following = [line for line in lines[number + 1 : number + 9] if not line.level][:3]
    likeness = ingredient_likeness if own is Part.INGREDIENTS else step_likeness
    return bool(following) and sum(likeness(line.text) >= 0.7 for line in following) * 2 > len(following)


def _ingredients_at(lines: Sequence[PageLine], place: int) -> PagePart | None:
    part = _make_ingredients(_section(lines, place, Part.INGREDIENTS))
    return _scored(part, ingredient_likeness, _HEADING_BONUS) if part else None


def _steps_at(lines: Sequence[PageLine], place: int) -> PagePart | None:
    part = _make_steps(_section(lines, place, Part.STEPS))
    return _scored(part, step_likeness, _HEADING_BONUS) if part else None


def _make_ingredients(section: list[tuple[int, PageLine]]) -> PagePart | None:
    listed = sum(1 for _, line in section if line.item) >= 2
    entries: list[tuple[int, str]] = []
    groups: set[str] = set()
    seen_item = False
    for position, (number, line) in enumerate(section):
        behind = section[position + 1][1] if position + 1 < len(section) else None
        if line.level:
            if _is_column_head(line.text):
                continue
            if (
                behind is not None
                and not behind.level
                and (behind.item or ingredient_likeness(behind.text) >= 0.5)
            ):
                groups.add(line.text)
                entries.append((number, line.text))
            continue
        if listed and not line.item:
            if (
                behind is not None
                and behind.item
                and len(line.text.split()) <= 6
                and not line.text.endswith(".")
            ):
                groups.add(line.text)
                entries.append((number, line.text))
            elif seen_item and (behind is None or not behind.item):
                break
            continue
        if not listed and len(line.text.split()) > 12:
            if seen_item and step_likeness(line.text) >= 1.0:
                break
            if _PROSE.match(line.text):
                continue
        seen_item = True
        entries.append((number, line.text))
    return _part(entries, groups, numbered=False)


def _is_column_head(text: str) -> bool:
    return all(word.casefold().strip(":.") in _COLUMNS for word in text.split())


def _make_steps(section: list[tuple[int, PageLine]]) -> PagePart | None:
    items = [position for position, (_, line) in enumerate(section) if line.item]
    listed = len(items) >= 2
    entries: list[tuple[int, str]] = []
    groups: set[str] = set()
    for position, (number, line) in enumerate(section):
        if listed and position > items[-1]:
            break
        if listed and not line.item and not line.level and step_likeness(line.text) < 0.7:
            continue
        if line.level:
            behind = section[position + 1][1] if position + 1 < len(section) else None
            if behind is None or behind.level:
                continue
            groups.add(line.text)
        entries.append((number, line.text))
    return _part(entries, groups)


def _hinted(lines: Sequence[PageLine], hint: str) -> list[PagePart | None]:
    """The runs of lines whose classes name the part."""
    parts: list[PagePart | None] = []
    run: list[tuple[int, PageLine]] = []
    own = Part.INGREDIENTS if hint == "ingredients" else Part.STEPS
    for number, line in enumerate([*lines, PageLine("")]):
        if line.hint == hint and number < len(lines):
            if _heading_part(line) is None:
                run.append((number, line))
            continue
        # One line of another kind (a heading, a picture's caption) does not end the run.
        if (
            run
            and number - run[-1][0] <= 2
            and number < len(lines)
            and line.hint in {"", "notes"}
            and _heading_part(line) is None
        ):
            continue
        if len(run) >= 2:
            part = _make_ingredients(run) if own is Part.INGREDIENTS else _make_steps(run)
            likeness = ingredient_likeness if own is Part.INGREDIENTS else step_likeness
            parts.append(_scored(part, likeness, _HINT_BONUS) if part else None)
        run = []
    return parts[:_MOST_HEADINGS]


def _list_like(lines: Sequence[PageLine]) -> list[PagePart]:
    """Lists of at least three items, most of which look like ingredients; and such runs of short lines."""
    parts: list[PagePart] = []
    run: list[tuple[int, str]] = []
    list_number = 0
    for number, line in enumerate([*lines, PageLine("", item=-1)]):
        fits = ingredient_likeness(line.text) >= 0.7 or (
            line.item > 0 and ingredient_likeness(line.text) >= 0.5
        )
        if fits and line.level == 0 and (not run or line.item == list_number):
            run.append((number, line.text))
            list_number = line.item
            continue
        counted = sum(ingredient_likeness(text) >= 0.7 for _, text in run)
        if len(run) >= 3 and counted * 2 >= len(run):
            part = _part(run, set(), numbered=False)
            if part:
                parts.append(_scored(part, ingredient_likeness, 0.0))
        run = [(number, line.text)] if fits and line.level == 0 else []
        list_number = line.item
    return parts


def _steps_after(lines: Sequence[PageLine], last: int) -> list[PagePart]:
    """Without a heading: the run of step-like lines behind the ingredients."""
    entries: list[tuple[int, str]] = []
    for number in range(last + 1, min(len(lines), last + _LONGEST_PART)):
        line = lines[number]
        if _heading_part(line) is not None and entries:
            break
        if step_likeness(line.text) >= 0.5 and not (line.level and len(line.text.split()) < 4):
            entries.append((number, line.text))
        elif len(entries) >= 2 and (line.level or step_likeness(line.text) < 0.3) and not line.item:
            break
        elif line.item and entries:
            entries.append((number, line.text))
    part = _part(entries, set())
    return [_scored(part, step_likeness, 0.0)] if part else []


def _part(entries: list[tuple[int, str]], groups: set[str], *, numbered: bool = True) -> PagePart | None:
    if not entries:
        return None
    texts = [clean_line(text) for _, text in entries]
    texts = drop_numbers(texts) if numbered else texts
    return PagePart(entries[0][0], entries[-1][0], tuple(texts), frozenset(map(clean_line, groups)))


def _scored(part: PagePart, likeness: Callable[[str], float], bonus: float) -> PagePart:
    values = [likeness(text) for text in part.entries]
    score = sum(values) - sum(0.5 for value in values if value < 0.3) + (bonus if len(values) >= 2 else 0.0)
    return PagePart(part.first, part.last, part.entries, part.groups, score)


def _overlap(one: PagePart, other: PagePart) -> bool:
    return one.first <= other.last and other.first <= one.last
