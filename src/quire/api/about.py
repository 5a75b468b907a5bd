"""The server about itself: its health, the OpenAPI and AsyncAPI documents and a page for people."""

from html import escape
from typing import Any

import msgspec
from litestar import Response
from msgspec import UNSET, Struct, UnsetType

from quire.api.asyncapi import build_asyncapi
from quire.api.context import ApiContext, Caller
from quire.api.openapi import build_openapi
from quire.api.routing import ApiRequest, ApiResponse, Route, json_response
from quire.model.clock import timestamp

SERVICE = "arke-ingest-worker"


class ServiceHealth(Struct, frozen=True, kw_only=True):
    service: str
    version: str
    status: str


class ServerHealth(Struct, frozen=True, kw_only=True):
    """`conductor` is present while the engine loop is down: accepted work waits until it is back."""

    status: str
    service: str
    timestamp: str
    conductor: str | UnsetType = UNSET


async def show_root(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    if "text/html" in request.headers.get("accept", ""):
        return _build_page(context)
    return json_response(ServiceHealth(service=SERVICE, version=context.version, status="healthy"))


async def show_health(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    now = timestamp(context.batches.clock.now())
    if context.faltering.is_set():
        # Still 200: the API answers, and a supervisor must not end it for this.
        return json_response(
            ServerHealth(status="degraded", service=SERVICE, timestamp=now, conductor="restarting")
        )
    return json_response(ServerHealth(status="ok", service=SERVICE, timestamp=now))


async def show_openapi(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    return json_response(build_openapi(context.routes, version=context.version))


async def show_asyncapi(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    return json_response(build_asyncapi(version=context.version))


async def show_docs(context: ApiContext, request: ApiRequest, caller: Caller) -> ApiResponse:  # noqa: ARG001
    return _build_page(context)


_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #8884; }
article { margin: 1.2rem 0; } code, pre { font: 14px/1.4 ui-monospace, monospace; }
pre { background: #8881; padding: .7rem; border-radius: .4rem; overflow-x: auto; margin: .3rem 0; }
.method { display: inline-block; min-width: 4.2rem; font-weight: 700; }
.scope { color: #888; font-size: .85rem; }
p { margin: .2rem 0; } dt { font-weight: 600; }
"""


def _build_page(context: ApiContext) -> ApiResponse:
    """Self-contained, without scripts and external resources: the page works offline."""
    groups: dict[str, list[Route]] = {}
    for route in context.routes:
        groups.setdefault(route.group, []).append(route)
    sections = "".join(
        f"<h2>{escape(group)}</h2>" + "".join(_build_article(route) for route in members)
        for group, members in groups.items()
    )
    page = (
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>Quire</title>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<style>{_STYLE}</style></head><body><h1>Quire</h1>"
        "<p>Durable document pipelines. Send a folder from a terminal:</p>"
        "<pre>quire upload ./folder --to THIS-ADDRESS --wait</pre>"
        "<p>For programs: <a href='/openapi.json'>openapi.json</a> (OpenAPI 3.1), "
        "<a href='/asyncapi.json'>asyncapi.json</a> (AsyncAPI 3.0).</p>"
        f"{sections}</body></html>"
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
    return Response(
        content=page.encode(), media_type="text/html", headers={"content-security-policy": policy}
    )


def _build_article(route: Route) -> str:
    path = route.path.replace(":str", "").replace(":int", "").replace(":path", "")
    scope = "" if route.scope is None else f" <span class=scope>scope {route.scope.value}</span>"
    parts = [
        f"<article><p><code><span class=method>{route.method}</span> {escape(path)}</code>{scope}</p>",
        f"<p>{escape(route.about)}</p>",
    ]
    if route.parameters:
        listed = "".join(
            f"<li><code>{escape(one.name)}</code> {escape(one.about)}</li>" for one in route.parameters
        )
        parts.append(f"<ul>{listed}</ul>")
    for example in (route.body_example, route.answer_example):
        if example:
            text = msgspec.json.format(msgspec.json.encode(example), indent=2).decode()
            parts.append(f"<pre>{escape(text)}</pre>")
    return "".join(parts) + "</article>"


_GROUP = "Service"
ROUTES = (
    Route(
        method="GET",
        path="/",
        serve=show_root,
        scope=None,
        name="health",
        about="Is it alive? For browsers: the page that describes the API.",
        group=_GROUP,
        contract=True,
        pages=True,
        answers=ServiceHealth,
        answer_example={"service": SERVICE, "version": "0.1.0", "status": "healthy"},
    ),
    Route(
        method="GET",
        path="/health",
        serve=show_health,
        scope=None,
        name="alive",
        about="Is it alive? In the shape of the preprocessing service. `degraded`: its engine loop is down.",
        group=_GROUP,
        contract=True,
        pages=True,
        answers=ServerHealth,
    ),
    Route(
        method="GET",
        path="/openapi.json",
        serve=show_openapi,
        scope=None,
        name="openapi",
        about="This API as an OpenAPI 3.1 document.",
        group=_GROUP,
        answers=dict[str, Any],
    ),
    Route(
        method="GET",
        path="/asyncapi.json",
        serve=show_asyncapi,
        scope=None,
        name="asyncapi",
        about="The messages on the queues of OCR and recipe import as an AsyncAPI 3.0 document.",
        group=_GROUP,
        answers=dict[str, Any],
    ),
    Route(
        method="GET",
        path="/docs",
        serve=show_docs,
        scope=None,
        name="docs",
        about="This API for people.",
        group=_GROUP,
        answers=bytes,
        answer_type="text/html",
    ),
)
