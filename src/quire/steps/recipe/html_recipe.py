"""Finds a recipe in the text of a page, without any markup of recipes: title, parts, times, servings."""

import re
from collections.abc import Sequence
from urllib.parse import urljoin

from quire.steps.recipe.cooking_words import Part, part_of_heading
from quire.steps.recipe.found_recipe import FoundRecipe
from quire.steps.recipe.instructions import tidy_steps
from quire.steps.recipe.labels import read_labels
from quire.steps.recipe.page_parts import PagePart, find_parts
from quire.steps.recipe.rich_text import read_line
from quire.steps.recipe.tree_text import PageLine, page_lines
from quire.tools.html_tree import HtmlElement

_SITE_NAME = re.compile(r"\s(?:[|»·•–—]|-|::)\s")
_SHORTEST_TITLE = 3
_MOST_NOTES = 10
_LABEL_LINES = 60


class PageHead:
    """What the head of a page says about it."""

    def __init__(self, root: HtmlElement, url: str) -> None:
        self.title = read_line(root.findtext(".//title") or "")
        self.site_name = _meta(root, "og:site_name")
        self.og_title = _meta(root, "og:title")
        self.description = _meta(root, "og:description") or _meta(root, "description")
        image = _meta(root, "og:image") or _meta(root, "twitter:image")
        self.image_url = _absolute(url, image) if image else ""
        canonical = root.xpath("string(//link[@rel='canonical']/@href)")
        self.canonical = _absolute(url, str(canonical)) if canonical else ""

    def recipe_title(self) -> str:
        """The title of the page without the name of the site."""
        title = self.og_title or self.title
        parts = [part.strip() for part in _SITE_NAME.split(title)]
        if len(parts) < 2:
            return title
        if self.site_name and parts[0].casefold() == self.site_name.casefold():
            return parts[1]
        return parts[0] or title


def find_in_text(root: HtmlElement, head: PageHead) -> FoundRecipe:
    """What the text of the page gives; empty fields where it gives nothing."""
    lines = page_lines(root)
    ingredients, steps = find_parts(lines)
    if ingredients is None and steps is not None:
        return FoundRecipe(
            title=_title(lines, steps.first, head), steps=tuple(tidy_steps(list(steps.entries)))
        )
    if ingredients is None:
        return FoundRecipe(title=_title(lines, len(lines), head), image_url=head.image_url)
    first = min(part.first for part in (ingredients, steps) if part)
    end = max(part.last for part in (ingredients, steps) if part)
    labels = read_labels([line.text for line in _near(lines, ingredients, steps, first)])
    return FoundRecipe(
        title=_title(lines, first, head),
        description=_description(lines, first) or head.description,
        image_url=head.image_url,
        servings=labels.servings,
        prep_minutes=labels.prep,
        cook_minutes=labels.cook,
        total_minutes=labels.total,
        ingredients=ingredients.entries,
        groups=ingredients.groups,
        steps=tuple(tidy_steps(list(steps.entries))) if steps else (),
        notes=_notes(lines, end),
    )


def _title(lines: Sequence[PageLine], before: int, head: PageHead) -> str:
    hinted = [line.text for line in lines if line.hint == "title" and len(line.text) >= _SHORTEST_TITLE]
    tops = [line.text for line in lines[:before] if line.level == 1] or [
        line.text for line in lines if line.level == 1
    ]
    named = head.recipe_title()
    for text in (*hinted[:1], *reversed(tops)):
        if not part_of_heading(text) and text.casefold() != head.site_name.casefold():
            return text[:300]
    if named:
        return named[:300]
    subs = [line.text for line in lines[:before] if line.level and not part_of_heading(line.text)]
    return (subs[0] if subs else lines[0].text if lines and before else "")[:300]


def _near(
    lines: Sequence[PageLine], ingredients: PagePart, steps: PagePart | None, first: int
) -> list[PageLine]:
    """The lines in which times and servings may stand: above the parts, between them, and just below."""
    near = list(lines[max(0, first - _LABEL_LINES) : first])
    if steps is not None and steps.first > ingredients.last:
        near.extend(lines[ingredients.last + 1 : steps.first])
    end = max(ingredients.last, steps.last if steps else 0)
    return [*near, *lines[end + 1 : end + 12]]


def _description(lines: Sequence[PageLine], first: int) -> str:
    """The first sentence-like line above the recipe."""
    start = max((place for place in range(first) if lines[place].level == 1), default=-1)
    for line in lines[start + 1 : first]:
        if not line.level and not line.item and len(line.text.split()) >= 6 and line.text[-1:] in ".!?":
            return line.text[:2000]
    return ""


def _notes(lines: Sequence[PageLine], end: int) -> tuple[str, ...]:
    notes: list[str] = []
    inside = False
    for line in lines[end + 1 : end + 60]:
        part = part_of_heading(line.text) if not line.item else None
        if part is not None or (line.level and inside):
            inside = part is Part.NOTES
        elif inside and len(notes) < _MOST_NOTES:
            notes.append(line.text[:2000])
    return tuple(notes)


def _meta(root: HtmlElement, name: str) -> str:
    found = root.xpath("string(//meta[@property=$name or @name=$name]/@content)", name=name)
    return read_line(str(found))[:5000]


def _absolute(url: str, link: str) -> str:
    try:
        absolute = urljoin(url, link.strip())
    except ValueError:
        return ""
    return absolute if absolute.startswith(("http://", "https://")) else ""
