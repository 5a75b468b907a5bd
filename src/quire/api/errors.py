"""Errors as responses: one table of status codes, two shapes. On routes of the published protocol an error is
`{"error": …}`; on ours it is a problem (RFC 9457).
"""

import logging
from math import ceil
from typing import Any

from litestar.exceptions import HTTPException

from quire.api.routing import ApiResponse, json_response
from quire.ingest.finalization import IncompleteBatch
from quire.model.errors import (
    Bug,
    DamagedBlob,
    Lost,
    Misconfigured,
    Missing,
    QuireError,
    Reject,
    Retry,
    Stale,
    Unavailable,
)

_log = logging.getLogger("quire.api")

# By code first, then by kind; the first line that fits counts.
BY_CODE = {
    "unauthorized": 401,
    "forbidden": 403,
    "bad_signature": 403,
    "url_expired": 403,
    "not_awaited": 403,
    "slow_client": 408,
    "too_large": 413,
    "idempotency_conflict": 422,
    "bad_ocr_request": 422,
    "quota": 429,
    "rate_limited": 429,
    "too_busy": 429,
}
BY_KIND: tuple[tuple[type[QuireError], int], ...] = (
    (Missing, 404),
    (DamagedBlob, 500),
    (Reject, 400),
    (Stale, 409),
    (Lost, 409),
    (Retry, 503),
    (Misconfigured, 500),
    (Bug, 500),
)
# Codes of requests that do not fit the state of their subject.
CONFLICTS = frozenset({"still_running", "not_finished", "nothing_to_retry", "budget_spent", "wrong_state"})
TITLES = {
    200: "Done before",
    206: "Partial content",
    302: "Found elsewhere",
    303: "See other",
    304: "Not modified",
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    413: "Content too large",
    416: "Range not satisfiable",
    422: "Unprocessable content",
    429: "Too many requests",
    500: "Internal server error",
    503: "Service unavailable",
}
INTERNAL = "Internal server error"
AWAY = "The database or the store cannot be reached just now; come again after Retry-After"


def get_status(error: QuireError) -> int:
    if error.code in BY_CODE:
        return BY_CODE[error.code]
    return next((status for kind, status in BY_KIND if isinstance(error, kind)), 500)


def build_error_response(error: Exception, *, contract: bool) -> ApiResponse:
    """The response for an error. Details of internal errors are logged, not sent."""
    if isinstance(error, HTTPException):
        words = (
            "Not found" if error.status_code == 404 else (error.detail or TITLES.get(error.status_code, ""))
        )
        return _build_response(
            words, error.status_code, "", contract=contract, headers=dict(error.headers or {})
        )
    if not isinstance(error, QuireError):
        _log.error("request_failed", exc_info=error)
        return _build_response(
            INTERNAL, 500, "bug", contract=contract, **_describe_fault(error, contract=contract)
        )
    if isinstance(error, DamagedBlob):
        # Told to the caller too: the file that was sent is not to blame, and asking again does not help.
        _log.error("damaged_blob: %s", error)
        return _build_response(str(error), 500, error.code, contract=contract, details="DamagedBlob")
    status = get_status(error)
    if not contract and error.code in CONFLICTS:
        status = 409
    if status == 500:
        _log.error("request_failed: %s", error)
        return _build_response(
            INTERNAL, 500, error.code, contract=contract, **_describe_fault(error, contract=contract)
        )
    words = str(error)
    if isinstance(error, Unavailable) or error.code == "storage_unavailable":
        # Addresses and messages of backends are for the operator, not for clients.
        _log.warning("backend_away: %s", error)
        words = AWAY
    headers = {}
    if status == 401:
        headers["www-authenticate"] = 'Bearer realm="quire"'
    if status in {429, 503}:
        delay = getattr(error, "delay_seconds", None)
        headers["retry-after"] = str(max(1, ceil(delay if delay is not None else 1)))
    more = {"incomplete": error.names} if isinstance(error, IncompleteBatch) else {}
    return _build_response(words, status, error.code, contract=contract, headers=headers, **more)


def _describe_fault(error: Exception, *, contract: bool) -> dict[str, Any]:
    """The kind of the error and no more: the rest is for the operator."""
    return {"details": type(error).__name__} if contract else {}


def _build_response(
    words: str,
    status: int,
    code: str,
    *,
    contract: bool,
    headers: dict[str, str] | None = None,
    **more: object,
) -> ApiResponse:
    if contract:
        return json_response({"error": words, **more}, status=status, headers=headers)
    problem = {
        "type": f"urn:quire:error:{code}" if code else "about:blank",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "detail": words,
        **more,
    }
    made = json_response(problem, status=status, headers=headers)
    made.media_type = "application/problem+json"
    return made
