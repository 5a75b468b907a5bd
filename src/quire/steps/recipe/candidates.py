"""Asks the readers of a page in their order, and chooses the main recipe among those they find.

JSON-LD first, then attributes of tags, then the text of the page. What the better reader lacks, the next
ones fill in.
"""

from collections.abc import Sequence
from itertools import islice
from urllib.parse import urlsplit

from quire.model.recipe import ParserStrategy
from quire.steps.recipe.found_recipe import FoundRecipe, complete
from quire.steps.recipe.html_recipe import PageHead, find_in_text
from quire.steps.recipe.instructions import tidy_steps
from quire.steps.recipe.json_repair import read_json
from quire.steps.recipe.microdata import read_attributes
from quire.steps.recipe.schema_recipe import Node, find_nodes, is_recipe, read_recipe
from quire.tools.html_tree import HtmlElement

_READERS = (ParserStrategy.SCHEMA_ORG_JSON_LD, ParserStrategy.MICRODATA, ParserStrategy.HEURISTIC)
_MOST_SCRIPTS = 60
_MOST_RECIPES = 50
_REPAIRED = "the page's JSON-LD is not valid JSON; it was repaired"


def read_page(
    tree: HtmlElement, text: str, url: str, *, start: FoundRecipe | None = None
) -> tuple[FoundRecipe, ParserStrategy | None, list[str]]:
    """The main recipe of a page, the reader that found it, and warnings."""
    head = PageHead(tree, url)
    nodes, warnings = read_nodes(_scripts(tree, text))
    found = start or FoundRecipe()
    strategy: ParserStrategy | None = None
    for reader in _READERS:
        if found.is_whole:
            break
        chosen = choose(_ask(reader, tree, nodes, head, url), head, url)
        if chosen is None or not (chosen.ingredients or chosen.steps):
            continue
        if strategy is not None or start is not None:
            lacks = " and ".join(name for name in ("ingredients", "steps") if not getattr(found, name))
            if lacks:
                warnings.append(f"{lacks} taken from the page itself ({reader.value})")
        found = complete(found, chosen)
        strategy = strategy or reader
    return _with_head(found, head), strategy, warnings


def _ask(
    reader: ParserStrategy, tree: HtmlElement, nodes: Sequence[Node], head: PageHead, url: str
) -> list[FoundRecipe]:
    if reader is ParserStrategy.SCHEMA_ORG_JSON_LD:
        return _recipes(nodes, url)
    if reader is ParserStrategy.MICRODATA:
        return [read_recipe(node, base_url=url) for node in read_attributes(tree)]
    return [find_in_text(tree, head)]


def read_blocks(blocks: Sequence[str], url: str) -> tuple[FoundRecipe, list[str]]:
    """The main recipe of JSON-LD texts."""
    nodes, warnings = read_nodes(blocks)
    return choose(_recipes(nodes, url), None, url) or FoundRecipe(), warnings


def read_nodes(texts: Sequence[str]) -> tuple[list[Node], list[str]]:
    """Every object in the JSON-LD texts."""
    nodes: list[Node] = []
    warnings: list[str] = []
    for text in texts[:_MOST_SCRIPTS]:
        documents, repaired = read_json(text)
        if repaired and documents:
            warnings.append(_REPAIRED)
        elif not documents and text.strip():
            warnings.append("a JSON-LD block of the page cannot be read")
        for document in documents:
            nodes.extend(find_nodes(document))
    return nodes, warnings


def choose(found: Sequence[FoundRecipe], head: PageHead | None, url: str) -> FoundRecipe | None:
    """The main recipe: a whole one, named as the page or with its address, and the longest of those."""
    if not found:
        return None
    merged = _merge_parts(found)
    return max(merged, key=lambda recipe: _rank(recipe, head, url))


def read_known_site(
    text: str, url: str, found: FoundRecipe, strategy: ParserStrategy | None
) -> tuple[FoundRecipe, ParserStrategy | None]:
    """Fill what is missing with what recipe-scrapers finds, for the sites that it knows."""
    from quire.tools import recipe_scrapers_site

    known = recipe_scrapers_site.read_site(text, url)
    if known is None:
        return found, strategy
    other = FoundRecipe(
        title=known.title,
        ingredients=known.ingredients,
        steps=tuple(tidy_steps(list(known.steps))),
        servings=known.servings,
        total_minutes=known.total_minutes,
        image_url=known.image_url,
    )
    return complete(found, other), strategy or ParserStrategy.HEURISTIC


def _recipes(nodes: Sequence[Node], url: str) -> list[FoundRecipe]:
    by_id: dict[str, Node] = {}
    for node in nodes:
        name = node.get("@id")
        if isinstance(name, str) and len(node) > len(by_id.get(name, {})):
            by_id[name] = node
    recipes = list(islice((node for node in nodes if is_recipe(node)), _MOST_RECIPES))
    return [read_recipe(node, base_url=url, by_id=by_id) for node in recipes]


def _merge_parts(found: Sequence[FoundRecipe]) -> list[FoundRecipe]:
    """One recipe that is told in two places (same name, each half) becomes one."""
    by_title: dict[str, FoundRecipe] = {}
    for recipe in found:
        key = recipe.title.casefold()
        known = by_title.get(key)
        if known is None:
            by_title[key] = recipe
        elif not known.is_whole or not recipe.is_whole:
            better, other = (recipe, known) if recipe.is_whole else (known, recipe)
            by_title[key] = complete(better, other)
    return list(by_title.values())


def _rank(recipe: FoundRecipe, head: PageHead | None, url: str) -> tuple[int, int, int]:
    parts = bool(recipe.ingredients) + bool(recipe.steps)
    named = 0
    if recipe.url and _same_page(recipe.url, url):
        named += 1
    if head is not None and recipe.title:
        title = recipe.title.casefold()
        names = (head.og_title.casefold(), head.title.casefold(), head.recipe_title().casefold())
        if title in names:
            named += 2
        elif any(title in name for name in names if name):
            named += 1
    return parts, named, len(recipe.ingredients) + len(recipe.steps)


def _same_page(one: str, other: str) -> bool:
    try:
        first, second = urlsplit(one), urlsplit(other)
    except ValueError:
        return False
    return (first.hostname, first.path.rstrip("/")) == (second.hostname, second.path.rstrip("/"))


def _with_head(found: FoundRecipe, head: PageHead) -> FoundRecipe:
    if not (found.ingredients or found.steps):
        return found
    return complete(
        found, FoundRecipe(title=head.recipe_title(), description=head.description, image_url=head.image_url)
    )


def _scripts(tree: HtmlElement, text: str) -> list[str]:
    """The JSON-LD texts. Behind what libxml2 has cut (nested too deep), they are searched for as text."""
    found = [
        script.text or ""
        for script in tree.iter("script")
        if "ld+json" in (script.get("type") or "").casefold()
    ]
    if found:
        return found
    lower = text.casefold() if text.isascii() else text
    place = 0
    while len(found) < _MOST_SCRIPTS and (place := lower.find("ld+json", place)) >= 0:
        begin = lower.find(">", place)
        end = lower.find("</script", begin)
        if begin < 0 or end < 0:
            break
        found.append(text[begin + 1 : end])
        place = end
    return found
