"""Fetches the page of a recipe through the guard against internal addresses.

A refused address, a page that is too large or packed in an unknown way are outcomes; a connection that failed
is a passing fault, to be tried again.
"""

from quire.model.errors import Reject, Retry
from quire.model.recipe import RecipeErrorCode
from quire.steps.recipe.import_values import FetchedPage, ImportRequest
from quire.tools.guarded_fetch import GuardedFetcher

MAX_PAGE_BYTES = 5 << 20
SETTING = "recipes.allow_private"
_ACCEPT = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.1"
_PASSING_STATUSES = frozenset({500, 502, 504})
_CODES = {
    "bad_url": RecipeErrorCode.INVALID_URL,
    "address_refused": RecipeErrorCode.INVALID_URL,
    "bad_encoding": RecipeErrorCode.ENCODING_ERROR,
}


async def fetch_recipe_page(request: ImportRequest, fetcher: GuardedFetcher | None = None) -> FetchedPage:
    """Raises Retry `fetch_failed`."""
    fetcher = fetcher or GuardedFetcher(allow_private=request.allow_private, setting=SETTING)
    try:
        found = await fetcher.fetch(
            request.url,
            max_bytes=MAX_PAGE_BYTES,
            timeout_seconds=request.fetch_seconds,
            headers={"accept": _ACCEPT},
        )
    except Reject as error:
        return FetchedPage(
            error_code=_CODES.get(error.code, RecipeErrorCode.FETCH_FAILED), error_message=str(error)
        )
    except Retry as error:
        if error.code == "timeout":
            return FetchedPage(error_code=RecipeErrorCode.FETCH_TIMEOUT, error_message=str(error))
        raise Retry(str(error), code="fetch_failed") from error
    if found.status in _PASSING_STATUSES:
        raise Retry(f"the server of the page answered {found.status}", code="fetch_failed")
    return FetchedPage(
        url=found.final_url, status=found.status, content_type=found.content_type, body=found.body
    )
