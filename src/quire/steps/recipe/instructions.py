"""Steps from the many shapes of recipeInstructions: text, HTML, lists, HowToStep, HowToSection.

Names of sections stay, as entries of their own in front of their steps.
"""

import re
from collections.abc import Iterator, Mapping

from quire.steps.recipe.rich_text import drop_numbers, read_line, read_lines, split_numbered, split_sentences

_MOST_DEPTH = 8
_GENERIC = re.compile(
    r"(?:recipe )?(?:instructions?|directions?|method|preparation|steps?|zubereitung|préparation"
    r"|preparación)(?: steps?)?:?"
    r"|(?:step|schritt|étape|paso|passo|stap)\s?#?\d{1,2}[.:]?|\d{1,2}[.:]?",
    re.IGNORECASE,
)
_LONG_PARAGRAPH = 250


def find_steps(value: object, by_id: Mapping[str, Mapping[str, object]] | None = None) -> list[str]:
    """The steps in their order; one paragraph that holds a whole recipe is cut into sentences."""
    return tidy_steps(list(_lines(value, by_id or {}, 0)))


def tidy_steps(lines: list[str]) -> list[str]:
    """Without numbers, and cut where one text holds several steps."""
    if len(lines) == 1:
        lines = split_numbered(lines[0])
        if len(lines) == 1:
            lines = split_sentences(lines[0])
    return [line for line in drop_numbers(lines) if line]


def _lines(value: object, by_id: Mapping[str, Mapping[str, object]], depth: int) -> Iterator[str]:
    if depth > _MOST_DEPTH:
        return
    if isinstance(value, str):
        yield from read_lines(value)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, str) and len(value) > 1:
                yield from _entry(item)
            else:
                yield from _lines(item, by_id, depth + 1)
    elif isinstance(value, dict):
        yield from _node_lines(value, by_id, depth)


def _entry(item: str) -> Iterator[str]:
    """One entry of a list is one step, unless it is HTML with a list in it."""
    if "<li" in item.casefold() or "<p" in item.casefold() or "<br" in item.casefold():
        yield from read_lines(item)
    else:
        line = read_line(item)
        if line:
            yield line


def _node_lines(
    node: Mapping[str, object], by_id: Mapping[str, Mapping[str, object]], depth: int
) -> Iterator[str]:
    reference = node.get("@id")
    if len(node) <= 2 and isinstance(reference, str) and reference in by_id and by_id[reference] is not node:
        node = by_id[reference]
    name = _words(node.get("name") or node.get("Name") or node.get("headline"))
    text = node.get("text") or node.get("description") or node.get("@value")
    inner = (
        node.get("itemListElement") or node.get("steps") or node.get("step") or node.get("recipeInstructions")
    )
    item = node.get("item")
    if not text and not inner and item:
        yield from _lines(item, by_id, depth + 1)
        return
    if isinstance(inner, str):
        text, inner = text or inner, None
    if inner and not (text and _is_text_of(inner, text)):
        if name and not _GENERIC.fullmatch(name):
            yield name
        yield from _lines(inner, by_id, depth + 1)
        return
    lines = list(_entry(text)) if isinstance(text, str) else list(_lines(text, by_id, depth + 1))
    if name and not _GENERIC.fullmatch(name) and not _repeats(name, lines):
        yield name
    yield from lines


def _is_text_of(inner: object, text: object) -> bool:
    """Whether the parts of a step (HowToDirection) only repeat its text."""
    first = inner[0] if isinstance(inner, list) and inner else inner
    part = first.get("text") if isinstance(first, Mapping) else first
    return isinstance(part, str) and isinstance(text, str) and read_line(part)[:80] in read_line(text)


def _repeats(name: str, lines: list[str]) -> bool:
    """Whether the name is the beginning of the text, perhaps cut with an ellipsis."""
    start = name.rstrip(".… ").casefold()
    return bool(lines) and " ".join(lines).casefold().startswith(start)


def _words(value: object) -> str:
    return read_line(value) if isinstance(value, str) else ""
