"""Finds the recipe of a web page, or of the parts of a page that an app has sent.

Pure and bounded: nothing is fetched, scripts do not run, and a page above the limits is refused. Every
outcome is a `ParsedPage`; no page makes these functions raise.
"""

from collections.abc import Sequence

from quire.model.recipe import ParsedPage


def parse_page(
    html: bytes, *, url: str, content_type: str = "", status: int = 200, use_known_sites: bool = False
) -> ParsedPage:
    """Find the recipe in a fetched page.

    url:             where the page came from after redirects
    content_type:    the header of that name, as received
    status:          of the HTTP answer: pages that refuse servers may be readable on the user's device
    use_known_sites: also ask recipe-scrapers, if it is installed and knows the site
    """
    raise NotImplementedError


def parse_client_page(
    jsonld_blocks: Sequence[str], html_snippet: str | None, *, source_url: str
) -> ParsedPage:
    """Find the recipe in what an app has taken from the page it shows: JSON-LD texts, or a piece of HTML."""
    raise NotImplementedError
