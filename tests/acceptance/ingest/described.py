"""Answers held against the server's own description of them."""

import re

import httpx
import jsonschema_rs

_PLACE = re.compile(r"\{[a-z_]+\}")


class Described:
    """For `event_hooks`: every answer must be one that /openapi.json describes. Keeps which were given."""

    def __init__(self, document: dict) -> None:
        self.document = document
        self.given: set[str] = set()
        self._checks = {}
        paths = sorted(document["paths"], key=lambda path: path.count("{"))
        self._paths = [(re.compile(_PLACE.sub("[^/]+", path)), path) for path in paths]

    def __call__(self, response: httpx.Response) -> None:
        found = self.operation(response.request.method, response.request.url.path)
        if found is None:
            return
        documented = found["responses"]
        assert str(response.status_code) in documented, (response.request.url, response.status_code)
        content = documented[str(response.status_code)].get("content", {})
        if not content:
            return
        kind = response.headers["content-type"].partition(";")[0]
        assert kind in content, (response.request.url, kind)
        if kind.endswith("json"):
            response.read()
            self._check(found["operationId"], response.status_code, content[kind]["schema"], response.json())
        if response.is_success:
            self.given.add(found["operationId"])

    def operation(self, method: str, path: str) -> dict | None:
        for pattern, described in self._paths:
            if pattern.fullmatch(path):
                return self.document["paths"][described].get(method.lower())
        return None

    def _check(self, name: str, status: int, schema: dict, value: object) -> None:
        if (name, status) not in self._checks:
            whole = {**schema, "components": self.document["components"]}
            self._checks[name, status] = jsonschema_rs.validator_for(whole)
        self._checks[name, status].validate(value)
