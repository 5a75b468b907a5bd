"""Reads a schema.org Recipe, whatever it was written in, into lines and numbers.

Expects what JSON gives: dicts, lists, strings, numbers. Every field may have any shape; what cannot be read
is left out, and nothing raises. Depth and number of nodes are bounded.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias
from urllib.parse import urljoin, urlsplit

from quire.steps.recipe.duration import parse_minutes
from quire.steps.recipe.found_recipe import FoundRecipe
from quire.steps.recipe.ingredient import clean_line
from quire.steps.recipe.ingredient_list import split_ingredients
from quire.steps.recipe.instructions import find_steps
from quire.steps.recipe.rich_text import read_line, read_lines

Node: TypeAlias = Mapping[str, object]

_MOST_NODES = 50_000
_MOST_DEPTH = 60
_LONGEST_TITLE = 300
_LONGEST_DESCRIPTION = 5000
_LONGEST_TAG = 80


def find_nodes(document: object) -> Iterator[Node]:
    """Every object of a document, outer ones first."""
    waiting: list[tuple[object, int]] = [(document, 0)]
    seen = 0
    while waiting and seen < _MOST_NODES:
        value, depth = waiting.pop()
        seen += 1
        if isinstance(value, dict):
            yield value
            inner: list[object] = list(value.values())
        elif isinstance(value, list):
            inner = value
        else:
            continue
        if depth < _MOST_DEPTH:
            waiting.extend((item, depth + 1) for item in reversed(inner) if isinstance(item, dict | list))


def list_numbered(value: object) -> object:
    """`{"0": …, "2": …}`, which some servers write for a list with gaps, as the list."""
    if isinstance(value, dict) and value and all(key.isdigit() for key in value):
        return list(value.values())
    return value


def has_type(node: Node, wanted: str) -> bool:
    """Whether `@type` is or holds the wanted type, under any prefix."""
    types = node.get("@type", node.get("type"))
    return any(
        isinstance(name, str)
        and name.rstrip("/").replace("#", "/").replace(":", "/").rsplit("/", 1)[-1].casefold() == wanted
        for name in (types if isinstance(types, list) else [types])
    )


def is_recipe(node: Node) -> bool:
    """Whether the node is a recipe by its type, or holds what only recipes hold."""
    return has_type(node, "recipe") or ("recipeIngredient" in node and "recipeInstructions" in node)


def read_recipe(node: Node, *, base_url: str = "", by_id: Mapping[str, Node] | None = None) -> FoundRecipe:
    """Read the fields. `by_id` resolves references to other nodes of the page."""
    known = by_id or {}
    total = _first_of(node, "totalTime", "performTime") if "totalTime" in node else node.get("duration")
    ingredients = list_numbered(
        _first_of(node, "recipeIngredient", "ingredients", "recipeIngredients", "ingredient")
    )
    steps = list_numbered(
        _first_of(node, "recipeInstructions", "RecipeInstructions", "instructions", "step", "steps")
    )
    return FoundRecipe(
        title=_text(_first_of(node, "name", "headline", "Name"))[:_LONGEST_TITLE],
        description=_text(node.get("description"))[:_LONGEST_DESCRIPTION],
        url=_link(_first_of(node, "url", "mainEntityOfPage", "@id"), base_url),
        image_url=find_image(_first_of(node, "image", "photo", "thumbnailUrl"), base_url, known),
        tags=_tags(node),
        servings=_servings(_first_of(node, "recipeYield", "yield", "RecipeYield", "recipeServings")),
        prep_minutes=_minutes(node.get("prepTime")),
        cook_minutes=_minutes(_first_of(node, "cookTime", "performTime")),
        total_minutes=_minutes(total),
        ingredients=tuple(_ingredient_lines(ingredients)),
        steps=tuple(find_steps(steps, known)),
    )


def find_image(value: object, base_url: str, by_id: Mapping[str, Node]) -> str:
    """The address of the first usable picture."""
    for _ in range(6):
        if isinstance(value, list):
            value = next((item for item in value if item), None)
        elif isinstance(value, dict):
            reference = value.get("@id")
            resolved = by_id.get(reference) if isinstance(reference, str) else None
            found = value.get("url") or value.get("contentUrl") or value.get("@value")
            if not found and resolved is not None and resolved is not value:
                found = resolved.get("url") or resolved.get("contentUrl")
            value = found or reference
        else:
            break
    return _link(value, base_url)


def _first_of(node: Node, *names: str) -> object:
    for name in names:
        value = node.get(name)
        if value not in (None, "", [], {}):
            return value
    return None


def _text(value: object) -> str:
    for _ in range(4):
        if isinstance(value, list):
            value = next((item for item in value if item), "")
        elif isinstance(value, dict):
            value = value.get("@value") or value.get("name") or value.get("text") or ""
        else:
            break
    return read_line(value) if isinstance(value, str) else str(value) if _is_number(value) else ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _link(value: object, base_url: str) -> str:
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, dict):
        value = value.get("@id") or value.get("url")
    if not isinstance(value, str) or not value.strip() or len(value) > 4000:
        return ""
    try:
        link = urljoin(base_url, value.strip())
        return link if urlsplit(link).scheme in {"http", "https"} and urlsplit(link).hostname else ""
    except ValueError:
        return ""


def _minutes(value: object) -> int | None:
    if isinstance(value, list):
        value = next((item for item in value if item), None)
    if isinstance(value, dict):
        value = value.get("maxValue") or value.get("value") or value.get("@value") or value.get("duration")
    if _is_number(value):
        value = str(value).removesuffix(".0")
    return parse_minutes(read_line(value)) if isinstance(value, str) else None


def _servings(value: object) -> str:
    if isinstance(value, list):
        texts = [text for text in (_servings(item) for item in value[:10]) if text]
        return next((text for text in texts if not text.isdigit()), texts[0] if texts else "")
    if isinstance(value, dict):
        unit = value.get("unitText")
        number = value.get("value") or value.get("@value")
        parts = [_servings(number), unit if isinstance(unit, str) else ""]
        return " ".join(part for part in parts if part) or _text(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return _text(value)[:200]


def _tags(node: Node) -> tuple[str, ...]:
    tags: dict[str, str] = {}
    for field in ("keywords", "recipeCategory", "recipeCuisine"):
        for value in _each(node.get(field)):
            for part in _text(value).replace(";", ",").split(","):
                tag = part.strip().strip("#").strip()
                if tag and len(tag) <= _LONGEST_TAG:
                    tags.setdefault(tag.casefold(), tag)
    return tuple(tags.values())


def _each(value: object) -> list[object]:
    return value[:100] if isinstance(value, list) else [] if value is None else [value]


def _ingredient_lines(value: object, depth: int = 0) -> Iterator[str]:
    if depth > 6:
        return
    if isinstance(value, str):
        yield from split_ingredients(read_lines(value))
    elif isinstance(value, dict):
        inner = value.get("itemListElement") or value.get("ingredients") or value.get("recipeIngredient")
        if isinstance(inner, list):
            name = _text(value.get("name"))
            if name:
                yield name if name.endswith(":") else f"{name}:"
            yield from _ingredient_lines(inner, depth + 1)
        else:
            line = _ingredient_of(value)
            if line:
                yield line
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, str) and len(value) > 1:
                line = clean_line(read_line(item))
                if line:
                    yield line
            else:
                yield from _ingredient_lines(item, depth + 1)


def _ingredient_of(value: Node) -> str:
    text = value.get("text") or value.get("@value")
    if isinstance(text, str) and text.strip():
        return clean_line(read_line(text))
    item = value.get("item")
    if isinstance(item, dict):
        return _ingredient_of(item)
    amount = _first_of(value, "value", "amount", "quantity", "requiredQuantity")
    unit = _first_of(value, "unitText", "unit", "unitCode")
    parts = (_servings(amount), _text(unit), _text(_first_of(value, "name", "ingredient", "item")))
    return clean_line(" ".join(part for part in parts if part))
