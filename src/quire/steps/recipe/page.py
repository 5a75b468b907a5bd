"""Finds the recipe of a web page, or of the parts of a page that an app has sent.

Pure and bounded: nothing is fetched, scripts do not run, and a page above the limits is refused. Every
outcome is a `ParsedPage`; no page makes these functions raise.
"""

import re
from collections.abc import Sequence

from quire.model.recipe import ParsedPage, ParserStrategy, RecipeErrorCode, RecipeSource
from quire.steps.recipe.blocked_page import WEBVIEW_EXTRACT, find_block
from quire.steps.recipe.candidates import read_blocks, read_known_site, read_page
from quire.steps.recipe.found_recipe import FoundRecipe, make_draft, make_parsed
from quire.tools.html_tree import decode_html, parse_tree

MAX_PAGE_BYTES = 8_000_000
_FIRST_ERROR_STATUS = 400
_HTML = re.compile(
    r"\s*(?:text/(?:html|plain|xml)|application/(?:xhtml\+xml|xml)|application/octet-stream)", re.IGNORECASE
)


def parse_page(
    html: bytes, *, url: str, content_type: str = "", status: int = 200, use_known_sites: bool = False
) -> ParsedPage:
    """Find the recipe in a fetched page.

    url:             where the page came from after redirects
    content_type:    the header of that name, as received
    status:          of the HTTP answer: pages that refuse servers may be readable on the user's device
    use_known_sites: also ask recipe-scrapers, if it is installed and knows the site
    """
    if content_type.strip() and not _HTML.match(content_type):
        shown = content_type.strip()[:80]
        return _failed(RecipeErrorCode.UNSUPPORTED_CONTENT_TYPE, f"the address gives {shown}, not a web page")
    if len(html) > MAX_PAGE_BYTES:
        size = f"{len(html) / 1e6:.0f} MB, the limit is {MAX_PAGE_BYTES / 1e6:.0f}"
        return _failed(RecipeErrorCode.PARSE_FAILED, f"the page has {size}")
    text, whole = decode_html(html, content_type)
    if text.count("\ufffd") * 10 > len(text) or text.count("\x00") * 10 > len(text):
        return _failed(
            RecipeErrorCode.ENCODING_ERROR, "the bytes of the page are not text in any encoding of the web"
        )
    warnings = [] if whole else ["some bytes of the page are not text in its encoding"]
    tree = parse_tree(text)
    found, strategy = FoundRecipe(), None
    if tree is not None:
        found, strategy, further = read_page(tree, text, url)
        warnings.extend(further)
        if not found.is_whole and use_known_sites:
            found, strategy = read_known_site(text, url, found, strategy)
    if not found.is_whole:
        reason = find_block(html, status=status, content_type=content_type)
        return _without_recipe(found, reason, status)
    return _parsed(found, strategy or ParserStrategy.HEURISTIC, warnings, url, "url")


def parse_client_page(
    jsonld_blocks: Sequence[str], html_snippet: str | None, *, source_url: str
) -> ParsedPage:
    """Find the recipe in what an app has taken from the page it shows: JSON-LD texts, or a piece of HTML."""
    found, warnings = read_blocks(jsonld_blocks, source_url)
    strategy = ParserStrategy.CLIENT_JSON_LD
    if not found.is_whole and html_snippet and len(html_snippet) <= MAX_PAGE_BYTES:
        tree = parse_tree(html_snippet)
        if tree is not None:
            lacking = found
            found, _, further = read_page(tree, html_snippet, source_url, start=lacking)
            warnings.extend(further)
            if not (lacking.ingredients or lacking.steps):
                strategy = ParserStrategy.CLIENT_HTML
    if not found.is_whole:
        return _without_recipe(found, None)
    return _parsed(found, strategy, warnings, source_url, "url")


def _parsed(
    found: FoundRecipe, strategy: ParserStrategy, warnings: Sequence[str], url: str, source_type: str
) -> ParsedPage:
    source = RecipeSource(type=source_type, source_url=url or None, image_url=found.image_url or None)
    return ParsedPage(
        recipe=make_parsed(found, url),
        draft=make_draft(found, source),
        parser_strategy=strategy,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _without_recipe(found: FoundRecipe, reason: str | None, status: int = 200) -> ParsedPage:
    lacks = [
        name
        for name, value in (
            ("title", found.title),
            ("ingredients", found.ingredients),
            ("steps", found.steps),
        )
        if not value
    ]
    message = f"no recipe was found in the page: {', '.join(lacks)} missing"
    if status >= _FIRST_ERROR_STATUS:
        message = f"the server of the page answered {status}; check the address. {message.capitalize()}"
    if reason is None:
        return _failed(RecipeErrorCode.PARSE_FAILED, message)
    return ParsedPage(
        error_code=RecipeErrorCode.PARSE_FAILED,
        error_message=f"{message}; the page is not readable for servers ({reason})",
        next_action=WEBVIEW_EXTRACT,
        next_action_reason=reason,
    )


def _failed(code: RecipeErrorCode, message: str) -> ParsedPage:
    return ParsedPage(error_code=code, error_message=message)
