"""The OpenAPI document, built from the same table of routes as the application."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from quire.api.errors import TITLES
from quire.api.routing import JSON, Parameter, Route

_PLACE = re.compile(r"\{([a-z_]+):[a-z]+\}")
_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
_PROBLEM = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status"],
}
_WITH_CONTENT = frozenset({200, 206})  # of the answers beside the usual one
_ABOUT = """Durable document pipelines over HTTP. Open a batch, send its files straight to the store, close
it, follow it. The routes of the group Upload are the published batch upload protocol; their errors are
`{"error": …}`. All others answer errors as problem+json (RFC 9457);
recipes that do not fit are answered with their fields."""


def build_openapi(routes: Iterable[Route], *, version: str) -> dict[str, Any]:
    routes = tuple(routes)
    types = _collect_types(routes)
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    of = {repr(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(_PLACE.sub(r"{\1}", route.path), {})[route.method.lower()] = _describe_operation(
            route, of
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Quire", "version": version, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": {**components, "Error": _ERROR, "Problem": _PROBLEM},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
        "tags": [{"name": group} for group in dict.fromkeys(route.group for route in routes)],
    }


def _collect_types(routes: Iterable[Route]) -> list[Any]:
    found: dict[str, Any] = {}
    for route in routes:
        for kind in (route.body, route.answers, route.invalid, *(one.kind for one in route.parameters)):
            if kind is not None and kind is not bytes:
                found[repr(kind)] = kind
    return list(found.values())


def _describe_operation(route: Route, of: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "tags": [route.group],
        "responses": {
            str(route.status): _describe_success(route, of),
            **{str(status): _describe_other(route, status, of) for status in route.also},
            **_describe_failures(route, of),
        },
    }
    parameters = [_describe_path_parameter(name) for name in _PLACE.findall(route.path)]
    parameters += [_describe_parameter(one, of) for one in route.parameters]
    if parameters:
        described["parameters"] = parameters
    if route.body is not None:
        described["requestBody"] = {"required": route.body_required, "content": _describe_body(route, of)}
    if route.scope is None:
        described["security"] = []
    return described


def _describe_body(route: Route, of: dict[str, Any]) -> dict[str, Any]:
    if route.body is bytes:
        return {route.body_type: {}}
    content: dict[str, Any] = {"schema": of[repr(route.body)]}
    if route.body_example is not None:
        content["example"] = route.body_example
    return {route.body_type: content}


def _describe_success(route: Route, of: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"description": route.about}
    if route.answers is bytes:
        made["content"] = {route.answer_type: {}}
    elif route.answers is not None:
        content: dict[str, Any] = {"schema": of[repr(route.answers)]}
        if route.answer_example is not None:
            content["example"] = route.answer_example
        made["content"] = {route.answer_type: content}
    return made


def _describe_other(route: Route, status: int, of: dict[str, Any]) -> dict[str, Any]:
    made = _describe_success(route, of) if status in _WITH_CONTENT else {}
    return made | {"description": TITLES.get(status, "Answer")}


def _describe_failures(route: Route, of: dict[str, Any]) -> dict[str, Any]:
    statuses = set(route.errors)
    if route.scope is not None:
        statuses |= {401, 403, 429}
    if route.parameters:
        statuses |= {400}
    statuses |= {503}
    kind, schema = (JSON, "Error") if route.contract else ("application/problem+json", "Problem")
    content = {kind: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    said = {} if route.method == "HEAD" else {"content": content}
    made = {str(status): {"description": TITLES.get(status, "Error"), **said} for status in sorted(statuses)}
    if route.invalid is not None:
        fields = {JSON: {"schema": of[repr(route.invalid)]}}
        made["422"] = {"description": TITLES[422], "content": content | fields}
    return made


def _describe_path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _describe_parameter(one: Parameter, of: dict[str, Any]) -> dict[str, Any]:
    made = {"name": one.name, "in": one.place, "description": one.about, "schema": of[repr(one.kind)]}
    return made if one.example is None else made | {"example": one.example}
