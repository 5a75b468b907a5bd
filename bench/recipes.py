"""Recipes found whole in pages, and ms per page: Quire beside recipe-scrapers in its generic mode.

A recipe is whole if title, all ingredients and all steps are as in the text from which the page was built.
`cards` are texts as OCR gives them, which only Quire reads.
"""

import re
import time
import warnings
from collections.abc import Callable

from tests.situations.recipe_cards import CARDS
from tests.situations.recipe_lines import ROWS
from tests.situations.recipe_pages import PAGES, STRATEGIES, page_bytes
from tests.situations.recipe_texts import RecipeTruth, read_truth, recipe_texts

from quire.model.errors import Reject
from quire.model.recipe import RecipeSource
from quire.steps.recipe.ingredient import parse_ingredient
from quire.steps.recipe.page import parse_page
from quire.steps.recipe.text_recipe import structure_text

URL = "https://kitchen.example/r/1"
THEIR_RECIPES = 6  # of thirty: recipe-scrapers takes its time
Answer = tuple[str, list[str], list[str]]


def run() -> dict[str, object]:
    texts = recipe_texts()
    rows = [_measure(kind, texts) for kind in ("schema_org_json_ld", "microdata", "heuristic")]
    return {
        "rows": rows,
        "cards_whole": _count_cards(texts),
        "ingredient_lines_right": f"{sum(_is_split(row) for row in ROWS)}/{len(ROWS)}",
        "ingredient_lines_per_second": _time_lines(texts),
        "pages": f"{len(PAGES)} shapes of {len(texts)} recipes, {THEIR_RECIPES} of them for recipe-scrapers",
    }


def _measure(kind: str, texts: dict[str, str]) -> dict[str, object]:
    shapes = [name for name, strategy in STRATEGIES.items() if strategy == kind]
    ours = [_ask(_ours, shape, text) for text in texts.values() for shape in shapes]
    theirs = [_ask(_theirs, shape, text) for text in list(texts.values())[:THEIR_RECIPES] for shape in shapes]
    return {
        "pages": kind,
        "quire whole": _share(ours),
        "scrapers whole": _share(theirs),
        "quire ms": round(sum(ms for _, ms in ours) / len(ours), 2),
        "scrapers ms": round(sum(ms for _, ms in theirs) / len(theirs), 2),
    }


def _share(answers: list[tuple[bool, float]]) -> str:
    return f"{sum(whole for whole, _ in answers)}/{len(answers)}"


def _ask(reader: Callable[[bytes, str], Answer], shape: str, text: str) -> tuple[bool, float]:
    body, content_type = page_bytes(shape, text)
    began = time.perf_counter()
    answer = reader(body, content_type)
    took = (time.perf_counter() - began) * 1e3
    return _is_whole(answer, read_truth(text)), took


def _ours(body: bytes, content_type: str) -> Answer:
    recipe = parse_page(body, url=URL, content_type=content_type).recipe
    if recipe is None:
        return "", [], []
    return recipe.title, [part.text for part in recipe.ingredients], list(recipe.steps)


def _theirs(body: bytes, content_type: str) -> Answer:
    import recipe_scrapers

    encoding = "utf-8" if "utf-8" in content_type else "cp1252"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scraper = recipe_scrapers.scrape_html(body.decode(encoding), org_url=URL, supported_only=False)
            return scraper.title(), scraper.ingredients(), scraper.instructions_list()
        except Exception:  # noqa: BLE001 - it raises many kinds where it finds nothing
            return "", [], []


def _is_whole(answer: Answer, truth: RecipeTruth) -> bool:
    """Compare words, as leniently for both: numbers of steps and names of sections do not count."""
    title, ingredients, steps = answer
    lines = {_words(line) for line in ingredients}
    told = _words(" ".join(step for step in steps if step not in {"First part", "Second part"}))
    return (
        _words(title) == _words(truth.title)
        and all(_words(line) in lines for line in truth.lines)
        and all(_words(step) in told for step in truth.steps)
    )


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _count_cards(texts: dict[str, str]) -> str:
    whole = 0
    for text in texts.values():
        truth = read_truth(text)
        for card in CARDS.values():
            try:
                draft = structure_text(card(text), source=RecipeSource(type="image"))
            except Reject:
                continue
            names = [part.name for part in draft.ingredients]
            whole += names == [parse_ingredient(line).name for line in truth.lines] and [
                _words(step) for step in draft.steps
            ] == [_words(step) for step in truth.steps]
    return f"{whole}/{len(texts) * len(CARDS)}"


def _is_split(row: tuple[str, ...]) -> bool:
    parts = parse_ingredient(row[0])
    return (parts.quantity or "", parts.unit or "", parts.name, parts.notes or "") == row[1:]


def _time_lines(texts: dict[str, str]) -> int:
    lines = [line for text in texts.values() for line in read_truth(text).lines]
    began = time.perf_counter()
    for line in lines:
        parse_ingredient(line)
    return round(len(lines) / (time.perf_counter() - began))
