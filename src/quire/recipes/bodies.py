"""Recipes as people and apps send them, read leniently and checked field by field."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from quire.model.errors import Reject
from quire.model.recipe import FieldProblem, Ingredient, RecipeDraft, RecipeSource

MAX_TITLE = 500
MAX_TEXT = 20_000
MAX_LINES = 500
_PLACE = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_INDEX = re.compile(r"\[(\d*|\.\.\.)\]")


class InvalidRecipe(Reject):
    """`problems` name the fields."""

    code = "validation_error"

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        super().__init__("; ".join(f"{one.field}: {one.message}" for one in problems))
        self.problems = tuple(problems)


class IngredientBody(Struct, frozen=True, kw_only=True):
    """By its parts, or as the line that a page had (`text`)."""

    name: str | None = None
    text: str | None = None
    quantity: str | float | int | None = None
    quantity_display: str | None = None
    unit: str | None = None
    notes: str | None = None


class StepBody(Struct, frozen=True, kw_only=True):
    text: str


class RecipeBody(Struct, frozen=True, kw_only=True):
    title: str
    description: str | None = None
    ingredients: tuple[IngredientBody | str, ...] = ()
    steps: tuple[StepBody | str, ...] = ()
    prep_time_minutes: int | None = None
    cook_time_minutes: int | None = None
    total_time_minutes: int | None = None
    servings: str | int | float | None = None
    tags: tuple[str, ...] = ()
    source: RecipeSource | None = None
    source_url: str | None = None
    image_url: str | None = None
    parse_job_id: str | None = None


def read_recipe(body: object, *, source_type: str = "manual") -> tuple[RecipeDraft, str | None]:
    """The recipe, and the id of the import that it comes from. Raises InvalidRecipe."""
    said = convert_body(body, RecipeBody)
    draft = RecipeDraft(
        title=said.title.strip(),
        description=said.description,
        ingredients=tuple(_to_ingredient(one) for one in said.ingredients),
        steps=tuple((one if isinstance(one, str) else one.text).strip() for one in said.steps),
        prep_time_minutes=said.prep_time_minutes,
        cook_time_minutes=said.cook_time_minutes,
        total_time_minutes=said.total_time_minutes,
        servings=None if said.servings is None else _to_text(said.servings),
        tags=said.tags,
        source=said.source
        or RecipeSource(type=source_type, source_url=said.source_url, image_url=said.image_url),
    )
    if problems := _find_problems(draft):
        raise InvalidRecipe(problems)
    return draft, said.parse_job_id


def convert_body(body: object, kind: type[Any]) -> Any:
    """Raises InvalidRecipe that names the field."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise InvalidRecipe([_to_problem(str(error))]) from error


def _find_problems(draft: RecipeDraft) -> list[FieldProblem]:
    found = []
    if not draft.title:
        found.append(FieldProblem(field="title", message="must not be empty"))
    found += [
        FieldProblem(field=f"ingredients.{number}.name", message="must not be empty")
        for number, one in enumerate(draft.ingredients)
        if not one.name
    ]
    found += [
        FieldProblem(field=f"steps.{number}", message="must not be empty")
        for number, one in enumerate(draft.steps)
        if not one
    ]
    if len(draft.title) > MAX_TITLE:
        found.append(FieldProblem(field="title", message=f"has more than {MAX_TITLE} characters"))
    found += [
        FieldProblem(field=name, message=f"has more than {MAX_LINES} entries")
        for name in ("ingredients", "steps", "tags")
        if len(getattr(draft, name)) > MAX_LINES
    ]
    found += [
        FieldProblem(field=f"steps.{number}", message=f"has more than {MAX_TEXT} characters")
        for number, one in enumerate(draft.steps)
        if len(one) > MAX_TEXT
    ]
    found += [
        FieldProblem(field=name, message="must not be negative")
        for name in ("prep_time_minutes", "cook_time_minutes", "total_time_minutes")
        if (getattr(draft, name) or 0) < 0
    ]
    return found[:100]


def _to_ingredient(said: IngredientBody | str) -> Ingredient:
    if isinstance(said, str):
        return Ingredient(name=said.strip())
    quantity = said.quantity if said.quantity is not None else said.quantity_display
    return Ingredient(
        name=(said.name or said.text or "").strip(),
        quantity=None if quantity is None else _to_text(quantity),
        unit=said.unit,
        notes=said.notes,
    )


def _to_text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _to_problem(text: str) -> FieldProblem:
    """`Expected `str`, got `int` - at `$.ingredients[0].name``, as a field and a message."""
    place = _PLACE.search(text)
    if place is None:
        missing = re.search(r"missing required field `(\w+)`", text)
        return FieldProblem(field=missing[1] if missing else "body", message=text)
    path = _INDEX.sub(lambda found: f".{found[1]}", place["path"]).strip(".")
    missing = re.search(r"missing required field `(\w+)`", text)
    field = ".".join(filter(None, (path, missing[1] if missing else "")))
    return FieldProblem(field=field or "body", message=text[: place.start()])
