"""Says what a recipe draft lacks, field by field, in the paths of the API's 422 answers."""

from collections.abc import Iterator, Sequence

from quire.model.recipe import FieldProblem, RecipeDraft

MIN_TITLE = 3
MIN_INGREDIENTS = 3
MIN_STEPS = 2
MAX_TITLE = 300
MAX_ENTRIES = 300
MAX_TEXT = 10_000
MAX_MINUTES = 30 * 24 * 60
_SHOWN = 3


def validate_draft(draft: RecipeDraft) -> tuple[FieldProblem, ...]:
    """List the problems; empty if the draft is complete. Paths are like `ingredients.0.name`."""
    return tuple(_problems(draft))


def describe_problems(problems: Sequence[FieldProblem]) -> str:
    """The first problems in one line."""
    shown = ", ".join(f"{problem.field}: {problem.message}" for problem in problems[:_SHOWN])
    further = len(problems) - _SHOWN
    return f"{shown} and {further} more" if further > 0 else shown


def _problems(draft: RecipeDraft) -> Iterator[FieldProblem]:
    title = draft.title.strip()
    if len(title) < MIN_TITLE:
        yield _problem("title", f"at least {MIN_TITLE} characters are needed")
    if len(title) > MAX_TITLE:
        yield _problem("title", f"at most {MAX_TITLE} characters are allowed")
    yield from _check_ingredients(draft)
    yield from _check_steps(draft)
    for field in ("prep_time_minutes", "cook_time_minutes", "total_time_minutes"):
        minutes = getattr(draft, field)
        if minutes is not None and not 0 <= minutes <= MAX_MINUTES:
            yield _problem(field, f"must be between 0 and {MAX_MINUTES} minutes")
    if draft.description is not None and len(draft.description) > MAX_TEXT:
        yield _problem("description", f"at most {MAX_TEXT} characters are allowed")
    if draft.servings is not None and len(draft.servings) > MAX_TITLE:
        yield _problem("servings", f"at most {MAX_TITLE} characters are allowed")
    for place, tag in enumerate(draft.tags):
        if not tag.strip():
            yield _problem(f"tags.{place}", "must not be empty")


def _check_ingredients(draft: RecipeDraft) -> Iterator[FieldProblem]:
    if len(draft.ingredients) < MIN_INGREDIENTS:
        yield _problem("ingredients", f"at least {MIN_INGREDIENTS} are needed")
    if len(draft.ingredients) > MAX_ENTRIES:
        yield _problem("ingredients", f"at most {MAX_ENTRIES} are allowed")
    for place, ingredient in enumerate(draft.ingredients[:MAX_ENTRIES]):
        if not ingredient.name.strip():
            yield _problem(f"ingredients.{place}.name", "must not be empty")
        for field in ("name", "quantity", "unit", "notes"):
            value = getattr(ingredient, field)
            if value is not None and len(value) > MAX_TEXT:
                yield _problem(f"ingredients.{place}.{field}", f"at most {MAX_TEXT} characters are allowed")


def _check_steps(draft: RecipeDraft) -> Iterator[FieldProblem]:
    if len(draft.steps) < MIN_STEPS:
        yield _problem("steps", f"at least {MIN_STEPS} are needed")
    if len(draft.steps) > MAX_ENTRIES:
        yield _problem("steps", f"at most {MAX_ENTRIES} are allowed")
    for place, step in enumerate(draft.steps[:MAX_ENTRIES]):
        if not step.strip():
            yield _problem(f"steps.{place}", "must not be empty")
        elif len(step) > MAX_TEXT:
            yield _problem(f"steps.{place}", f"at most {MAX_TEXT} characters are allowed")


def _problem(field: str, message: str) -> FieldProblem:
    return FieldProblem(field=field, message=message)
