"""The application: all routes, each with authentication before it and translation of errors after it."""

import re
from collections.abc import Iterable
from typing import Any

from litestar import Litestar, Request, Response
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from quire.api import (
    about,
    administration,
    assets,
    batches,
    blobs,
    callbacks,
    control,
    iiif,
    ingest,
    ocr,
    recipe_routes,
    task_answers,
    webhooks,
)
from quire.api.authentication import Authenticator
from quire.api.context import ApiContext
from quire.api.errors import build_error_response
from quire.api.routing import ApiRequest, ApiResponse, Route
from quire.model.errors import Missing, Reject

# In the order in which they are described.
ROUTES = (
    *ingest.ROUTES,
    *blobs.ROUTES,
    *batches.ROUTES,
    *assets.ROUTES,
    *iiif.ROUTES,
    *control.ROUTES,
    *webhooks.ROUTES,
    *callbacks.ROUTES,
    *task_answers.ROUTES,
    *ocr.ROUTES,
    *recipe_routes.ROUTES,
    *administration.ROUTES,
    *about.ROUTES,
)
CORS = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, HEAD, POST, PUT, DELETE, OPTIONS",
    "access-control-allow-headers": "Content-Type, Authorization, X-User-Id, Idempotency-Key",
    "access-control-expose-headers": (
        "ETag, Retry-After, Content-Range, X-Asset-Id, X-Variant, X-Variant-Dimensions, X-Original-Dimensions"
    ),
    "access-control-max-age": "86400",
}
# Responses must not be sniffed, framed or cached.
GUARDS = {"x-content-type-options": "nosniff", "cache-control": "no-store", "referrer-policy": "no-referrer"}

_PLACE = re.compile(r"\{[a-z_]+:[a-z]+\}")


def build_app(context: ApiContext, authenticator: Authenticator, routes: Iterable[Route]) -> ASGIApp:
    routes = tuple(routes)
    app = Litestar(
        route_handlers=[_build_handler(context, authenticator, route) for route in routes],
        openapi_config=None,
        exception_handlers={Exception: _handle_unrouted},
        request_max_body_size=None,  # each route has a limit of its own
        logging_config=None,
        debug=False,
    )
    return _answer_options(app, routes)


def _build_handler(context: ApiContext, authenticator: Authenticator, route: Route) -> HTTPRouteHandler:
    async def handle(request: Request[Any, Any, Any]) -> Response[Any]:
        try:
            _check_text(route, request)
            caller = await authenticator.admit(route, request)
            made = await route.serve(context, request, caller)
        except Exception as error:  # noqa: BLE001 whatever it is, the client gets JSON
            made = build_error_response(error, contract=route.contract)
        return _add_guards(made, pages=route.pages)

    made = HTTPRouteHandler(route.path, http_method=route.method, status_code=route.status, name=route.name)
    return made(handle)


def _answer_options(app: ASGIApp, routes: tuple[Route, ...]) -> ASGIApp:
    """Answers OPTIONS. Litestar does so by itself, but without the CORS headers that browsers need and
    without all methods of a path.
    """
    methods: dict[str, set[str]] = {}
    for route in routes:
        methods.setdefault(_PLACE.sub("[^/]+", route.path), set()).add(route.method)
    pages = {_PLACE.sub("[^/]+", route.path) for route in routes if route.pages}
    # A path without placeholders takes precedence over one with them.
    paths = sorted(methods, key=lambda path: path.count("[^/]+"))
    known = [(re.compile(path), _build_options(methods[path], pages=path in pages)) for path in paths]

    async def answer_or_forward(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "OPTIONS":
            path = _strip_slash(scope["path"])
            for pattern, headers in known:
                if pattern.fullmatch(path):
                    await send({"type": "http.response.start", "status": 204, "headers": headers})
                    await send({"type": "http.response.body", "body": b""})
                    return
        await app(scope, receive, send)

    return answer_or_forward


def _build_options(methods: set[str], *, pages: bool) -> list[tuple[bytes, bytes]]:
    said = {"allow": ", ".join(sorted(methods | {"OPTIONS"})), **(CORS if pages else {})}
    return [(name.encode(), value.encode()) for name, value in said.items()]


def _strip_slash(path: str) -> str:
    """Routes also match with a trailing slash."""
    return path.rstrip("/") or "/"


def _check_text(route: Route, request: ApiRequest) -> None:
    """Refuse NUL characters: not every database accepts them, and no name contains one."""
    if any("\x00" in str(value) for value in request.path_params.values()):
        raise Missing("Not found")
    for one in route.parameters:
        if one.place == "query" and any("\x00" in text for text in request.query_params.getall(one.name, [])):
            raise Reject(f"{one.name} holds a NUL character", code="bad_request")


def _add_guards(made: ApiResponse, *, pages: bool) -> ApiResponse:
    for name, value in GUARDS.items():
        made.headers.setdefault(name, value)
    if pages:
        made.headers.update(CORS)
    return made


def _handle_unrouted(request: ApiRequest, error: Exception) -> ApiResponse:  # noqa: ARG001
    """No such route or method: answered in the shape that published clients can read."""
    return _add_guards(build_error_response(error, contract=True), pages=True)
