"""What a draft lacks is named with the path of the field."""

from msgspec import structs

from quire.model.recipe import Ingredient, RecipeDraft, RecipeSource
from quire.steps.recipe.validation import describe_problems, validate_draft

DRAFT = RecipeDraft(
    title="Toast",
    ingredients=tuple(Ingredient(name=name) for name in ("bread", "butter", "salt")),
    steps=("Toast it.", "Butter it."),
    total_time_minutes=5,
    source=RecipeSource(type="text"),
)


def fields(draft: RecipeDraft) -> list[str]:
    return [problem.field for problem in validate_draft(draft)]


def test_a_whole_draft_has_no_problems():
    assert validate_draft(DRAFT) == ()


def test_every_lack_has_its_path():
    draft = RecipeDraft(
        title=" T ", ingredients=(Ingredient(name=" "),), steps=("",), source=RecipeSource(type="text")
    )

    assert fields(draft) == ["title", "ingredients", "ingredients.0.name", "steps", "steps.0"]


def test_times_must_be_sane():
    draft = structs.replace(DRAFT, prep_time_minutes=-1, cook_time_minutes=10**9, total_time_minutes=0)

    assert fields(draft) == ["prep_time_minutes", "cook_time_minutes"]


def test_nothing_may_be_endless():
    long = "x" * 20_000
    draft = structs.replace(
        DRAFT,
        title=long,
        description=long,
        servings=long,
        steps=("a",) * 301,
        tags=("",),
        ingredients=(Ingredient(name=long),) * 301,
    )
    found = fields(draft)

    assert {
        "title",
        "description",
        "servings",
        "steps",
        "ingredients",
        "tags.0",
        "ingredients.0.name",
    } <= set(found)


def test_problems_are_told_in_one_line():
    problems = validate_draft(RecipeDraft(title="", source=RecipeSource(type="text")))

    assert describe_problems(problems).startswith("title: at least 3 characters are needed")
    assert describe_problems(problems * 2).endswith("and 3 more")
