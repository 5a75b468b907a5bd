"""recipe-scrapers for the sites it knows by name: an optional second opinion on a page that is already here.

Only its function that reads HTML is used, never those that fetch. Without the library, and for unknown
sites, the answer is None; its errors stay inside.
"""

import warnings
from collections.abc import Callable
from typing import Any

from msgspec import Struct


class SiteRecipe(Struct, frozen=True, kw_only=True):
    title: str = ""
    ingredients: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    servings: str = ""
    total_minutes: int | None = None
    image_url: str = ""


def read_site(html: str, url: str) -> SiteRecipe | None:
    """Read the page of a site that the library knows."""
    try:
        import recipe_scrapers
    except ImportError:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scraper: Any = recipe_scrapers.scrape_html(html, org_url=url, supported_only=True)
        except Exception:  # noqa: BLE001 - a scraper of a site raises whatever its selectors run into
            return None
        return SiteRecipe(
            title=_text(scraper.title),
            ingredients=_texts(scraper.ingredients),
            steps=_texts(scraper.instructions_list),
            servings=_text(scraper.yields),
            total_minutes=_minutes(scraper.total_time),
            image_url=_text(scraper.image),
        )


def _ask(question: Callable[[], object]) -> object:
    try:
        return question()
    except Exception:  # noqa: BLE001 - as above
        return None


def _text(question: Callable[[], object]) -> str:
    answer = _ask(question)
    return answer.strip() if isinstance(answer, str) else ""


def _texts(question: Callable[[], object]) -> tuple[str, ...]:
    answer = _ask(question)
    if not isinstance(answer, list):
        return ()
    return tuple(item.strip() for item in answer if isinstance(item, str) and item.strip())


def _minutes(question: Callable[[], object]) -> int | None:
    answer = _ask(question)
    return int(answer) if isinstance(answer, int | float) and 0 < answer < 43_200 else None
