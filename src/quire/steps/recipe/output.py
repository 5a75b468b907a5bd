"""Recipe drafts for people and programs: plain text, JSON, schema.org JSON-LD."""

import json

import msgspec

from quire.model.recipe import RecipeDraft
from quire.steps.recipe.ingredient import write_ingredient


def write_text(draft: RecipeDraft) -> str:
    """The recipe as plain text, from which `structure_text` reads it again."""
    lines = [draft.title, ""]
    if draft.description:
        lines += [draft.description, ""]
    labels = [
        *([f"Serves: {draft.servings}"] if draft.servings else []),
        *(
            f"{name}: {minutes} min"
            for name, minutes in (
                ("Prep time", draft.prep_time_minutes),
                ("Cook time", draft.cook_time_minutes),
                ("Total time", draft.total_time_minutes),
            )
            if minutes
        ),
    ]
    if labels:
        lines += [*labels, ""]
    lines += ["Ingredients", *(f"- {write_ingredient(ingredient)}" for ingredient in draft.ingredients), ""]
    lines += ["Directions", *(f"{number}. {step}" for number, step in enumerate(draft.steps, 1))]
    if draft.source.source_url:
        lines += ["", f"Source: {draft.source.source_url}"]
    return "\n".join(lines) + "\n"


def write_json(draft: RecipeDraft) -> str:
    """The draft as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(draft), indent=2).decode() + "\n"


def write_json_ld(draft: RecipeDraft) -> str:
    """The recipe as schema.org JSON-LD, from which `parse_client_page` reads the same draft.

    Safe to stand inside of a script tag: `<` is written as an escape.
    """
    recipe: dict[str, object] = {
        "@context": "https://schema.org",
        "@type": "Recipe",
        "name": draft.title,
        "description": draft.description,
        "image": draft.source.image_url,
        "url": draft.source.source_url,
        "keywords": ", ".join(draft.tags),
        "prepTime": _duration(draft.prep_time_minutes),
        "cookTime": _duration(draft.cook_time_minutes),
        "totalTime": _duration(draft.total_time_minutes),
        "recipeYield": draft.servings,
        "recipeIngredient": [write_ingredient(ingredient) for ingredient in draft.ingredients],
        "recipeInstructions": [{"@type": "HowToStep", "text": step} for step in draft.steps],
    }
    kept = {name: value for name, value in recipe.items() if value}
    return json.dumps(kept, indent=2, ensure_ascii=False).replace("<", "\\u003c") + "\n"


def _duration(minutes: int | None) -> str | None:
    if not minutes:
        return None
    hours, rest = divmod(minutes, 60)
    return "PT" + (f"{hours}H" if hours else "") + (f"{rest}M" if rest or not hours else "")
