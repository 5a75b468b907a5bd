"""Recipes in the attributes of tags: microdata, RDFa, and the microformats hRecipe and h-recipe.

Gives the same objects as JSON-LD, for `read_recipe`. Nested items, `itemref`, and pages whose items ended
too early are read; each element is visited once.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from quire.steps.recipe.rich_text import read_line
from quire.steps.recipe.tree_text import block_lines, inline_text
from quire.tools.html_tree import HtmlElement

_SCOPE = re.compile(r"(?:schema\.org|data-vocabulary\.org)/#?(\w+)", re.IGNORECASE)
_OTHER_NAMES = {
    "recipeIngredient": "recipeingredient recipeingredients ingredients ingredient p-ingredient",
    "recipeInstructions": "recipeinstructions instructions instruction e-instructions",
    "recipeYield": "recipeyield yield p-yield",
    "prepTime": "preptime",
    "cookTime": "cooktime",
    "totalTime": "totaltime duration dt-duration",
    "name": "fn p-name",
    "image": "photo u-photo",
    "description": "summary p-summary",
    "recipeCategory": "recipecategory",
    "recipeCuisine": "recipecuisine",
    "itemListElement": "itemlistelement",
    "keywords": "p-category",
}
_NAMES = {other: name for name, others in _OTHER_NAMES.items() for other in others.split()}
_MICROFORMAT = frozenset("""
fn ingredient instructions yield duration preptime cooktime photo summary p-name p-ingredient
e-instructions p-yield dt-duration u-photo p-summary p-category
""".split())  # fmt: skip
_MOST_RECIPES = 60
_MOST_PROPERTIES = 1000
_MOST_LEVELS = 20


def read_attributes(root: HtmlElement) -> list[dict[str, object]]:
    """The recipes of the page, and a last one of loose properties if the items hold no ingredients."""
    scopes = list(
        islice((element for element in root.iter("*") if _type_of(element) == "recipe"), _MOST_RECIPES)
    )
    by_id = {element.get("id"): element for element in root.xpath("//*[@id]")} if scopes else {}
    recipes = [item for item in (_read_item(scope, by_id, set()) for scope in scopes) if item]
    if not any("recipeIngredient" in recipe for recipe in recipes):
        loose: dict[str, object] = {"@type": "Recipe"}
        for element in root.xpath("//*[@itemprop or @property]")[:_MOST_PROPERTIES]:
            for name in _properties(element):
                if name in {"recipeIngredient", "recipeInstructions"}:
                    _add(loose, name, _value(element, name))
        if recipes and len(loose) > 1:
            recipes[0] = {**loose, **recipes[0]}
        elif "recipeIngredient" in loose and "recipeInstructions" in loose:
            recipes.append(loose)
    return recipes


def _type_of(element: HtmlElement) -> str:
    """The type of the item that begins at the element, in lower case."""
    scope = element.get("itemtype")
    if scope is not None:
        found = _SCOPE.search(scope[:500])
        return found[1].casefold() if found else "other"
    if element.get("itemscope") is not None:
        return "other"
    kind = element.get("typeof")
    if kind is not None:
        return kind.split()[0].replace("/", ":").rsplit(":", 1)[-1].casefold() if kind.split() else "other"
    classes = (element.get("class") or "").split()
    return "recipe" if "hrecipe" in classes or "h-recipe" in classes else ""


def _properties(element: HtmlElement) -> list[str]:
    given = element.get("itemprop") or element.get("property") or ""
    names = [name.replace("/", ":").rsplit(":", 1)[-1] for name in given[:300].split()]
    return [_NAMES.get(name.casefold(), name) for name in names]


def _class_properties(element: HtmlElement) -> list[str]:
    classes = (element.get("class") or "")[:500].split()
    return [_NAMES[name.casefold()] for name in classes if name.casefold() in _MICROFORMAT]


def _read_item(
    scope: HtmlElement, by_id: Mapping[str, HtmlElement], read: set[object], levels: int = _MOST_LEVELS
) -> dict[str, object]:
    """`read` are the items and, by their ids, the referred elements that this recipe has already: references
    may go in circles. `levels` of items may be inside.
    """
    read.add(scope)
    kind = _type_of(scope)
    item: dict[str, object] = {
        "@type": {"recipe": "Recipe", "howtostep": "HowToStep", "howtosection": "HowToSection"}.get(
            kind, kind
        )
    }
    by_class = scope.get("itemtype") is None and scope.get("typeof") is None
    starts = [scope]
    names = (scope.get("itemref") or "")[:500].split()[:20]
    for name in names:
        if name in by_id and name not in read:
            read.add(name)
            starts.append(by_id[name])
    for start in starts:
        for element in _elements(start, own=start is not scope):
            names = _class_properties(element) if by_class else _properties(element)
            if not names:
                continue
            kind = _type_of(element) if not by_class else ""
            if kind and element in read:
                continue
            for name in names:
                value: object = (
                    _read_item(element, by_id, read, levels - 1)
                    if levels
                    and kind
                    in {
                        "howtostep",
                        "howtosection",
                        "itemlist",
                        "imageobject",
                        "nutritioninformation",
                        "propertyvalue",
                        "listitem",
                    }
                    else _value(element, name)
                )
                if isinstance(value, dict) and len(value) < 2:
                    value = _value(element, name)
                _add(item, name, value)
    return item if len(item) > 1 else {}


def _elements(start: HtmlElement, *, own: bool) -> Iterator[HtmlElement]:
    """The elements of an item in order, without the inside of nested items."""
    waiting: list[HtmlElement] = [start] if own else list(reversed(start))
    while waiting:
        element = waiting.pop()
        if not isinstance(element.tag, str):
            continue
        yield element
        nested = _type_of(element)
        has_property = element.get("itemprop") or element.get("property")
        if nested and (has_property or nested == "recipe"):
            continue
        waiting.extend(reversed(element))


def _value(element: HtmlElement, name: str) -> object:
    tag = element.tag.casefold()
    content = element.get("content")
    if content is not None and (tag == "meta" or content.strip()):
        return content
    if name == "image":
        inner = element if tag == "img" else next(element.iter("img"), None)
        if inner is not None:
            return inner.get("src") or inner.get("data-src") or ""
    if tag == "time" and element.get("datetime"):
        return element.get("datetime")
    if tag in {"link", "a"} and name in {"url", "image"}:
        return element.get("href") or ""
    if tag in {"data", "meter", "input"} and element.get("value"):
        return element.get("value")
    if name.endswith("Time"):
        stamped = next((time for time in element.iter("time") if time.get("datetime")), None)
        return (
            stamped.get("datetime") if stamped is not None else element.get("title") or inline_text(element)
        )
    if name == "recipeInstructions":
        return block_lines(element)
    if name == "recipeIngredient":
        items = block_lines(element) if next(element.iter("li", "br", "tr"), None) is not None else []
        return items if len(items) > 1 else inline_text(element)
    return read_line(inline_text(element))


def _add(item: dict[str, object], name: str, value: object) -> None:
    if value in ("", [], None):
        return
    known = item.get(name)
    if name in {
        "recipeIngredient",
        "recipeInstructions",
        "itemListElement",
        "recipeCategory",
        "recipeCuisine",
        "keywords",
    }:
        values = value if isinstance(value, list) else [value]
        item[name] = [*known, *values] if isinstance(known, list) else values
    elif known is None:
        item[name] = value
