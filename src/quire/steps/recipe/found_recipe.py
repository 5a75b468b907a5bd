"""What a reader of pages or texts has found, and how it becomes a draft and a parsed recipe."""

import re

from msgspec import Struct, structs

from quire.model.recipe import Ingredient, ParsedIngredient, ParsedRecipe, RecipeDraft, RecipeSource
from quire.steps.recipe.ingredient import is_heading, parse_ingredient

_MOST_INGREDIENTS = 300
_MOST_STEPS = 300
_MOST_TAGS = 40
_NUMBER = re.compile(r"\d{1,4}")
_DOZEN = re.compile(r"\bdozen\b", re.IGNORECASE)
_VARIES = re.compile(r"var(?:y|ies)", re.IGNORECASE)


class FoundRecipe(Struct, frozen=True, kw_only=True):
    """Lines as they stand on the page. `groups` are lines of `ingredients` that are headings for certain."""

    title: str = ""
    description: str = ""
    url: str = ""
    image_url: str = ""
    tags: tuple[str, ...] = ()
    servings: str = ""
    prep_minutes: int | None = None
    cook_minutes: int | None = None
    total_minutes: int | None = None
    ingredients: tuple[str, ...] = ()
    groups: frozenset[str] = frozenset()
    steps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return bool(self.title and self.ingredients and self.steps)


def complete(found: FoundRecipe, other: FoundRecipe) -> FoundRecipe:
    """Fill what the first lacks from the second."""
    changes = {
        field: getattr(other, field)
        for field in FoundRecipe.__struct_fields__
        if not getattr(found, field) and getattr(other, field) and field != "groups"
    }
    if "ingredients" in changes:
        changes["groups"] = other.groups
    return structs.replace(found, **changes)


def total_of(found: FoundRecipe) -> int | None:
    if found.total_minutes:
        return found.total_minutes
    parts = [minutes for minutes in (found.prep_minutes, found.cook_minutes) if minutes]
    return sum(parts) if parts else None


def make_parsed(found: FoundRecipe, source_url: str | None) -> ParsedRecipe:
    return ParsedRecipe(
        title=found.title,
        description=found.description or None,
        source_url=source_url or None,
        image_url=found.image_url or None,
        tags=found.tags[:_MOST_TAGS],
        servings=count_servings(found.servings),
        estimated_time_minutes=total_of(found),
        ingredients=tuple(
            _parsed(line) for line in found.ingredients[:_MOST_INGREDIENTS] if line not in found.groups
        ),
        steps=found.steps[:_MOST_STEPS],
        notes=found.notes,
    )


def make_draft(found: FoundRecipe, source: RecipeSource) -> RecipeDraft:
    return RecipeDraft(
        title=found.title,
        description=found.description or None,
        ingredients=tuple(group_ingredients(found.ingredients[:_MOST_INGREDIENTS], found.groups)),
        steps=found.steps[:_MOST_STEPS],
        prep_time_minutes=found.prep_minutes,
        cook_time_minutes=found.cook_minutes,
        total_time_minutes=total_of(found),
        servings=found.servings or None,
        tags=found.tags[:_MOST_TAGS],
        source=source,
    )


def group_ingredients(lines: tuple[str, ...], groups: frozenset[str] = frozenset()) -> list[Ingredient]:
    """The ingredients of the lines. A heading becomes a note of each ingredient below it."""
    ingredients: list[Ingredient] = []
    group = ""
    for line in lines:
        if line in groups or (line.rstrip().endswith(":") and is_heading(line)):
            group = line.strip().rstrip(":").strip()
            continue
        ingredient = parse_ingredient(line)
        if group:
            notes = ", ".join(note for note in (ingredient.notes, group) if note)
            ingredient = structs.replace(ingredient, notes=notes)
        ingredients.append(ingredient)
    if not ingredients:
        ingredients = [parse_ingredient(line) for line in lines]
    return ingredients


def count_servings(text: str) -> int | None:
    """The number of servings as an integer: the first number, times twelve for dozens."""
    number = _NUMBER.search(text)
    if number is None or _VARIES.search(text):
        return None
    count = int(number[0]) * (12 if _DOZEN.search(text) else 1)
    return count if 1 <= count <= 1000 else None


def _parsed(line: str) -> ParsedIngredient:
    parts = parse_ingredient(line)
    return ParsedIngredient(text=line, quantity_display=parts.quantity, unit=parts.unit)
