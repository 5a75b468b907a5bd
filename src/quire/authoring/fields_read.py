"""Finds out which fields of a document's record a step looks at, beside the bytes.

The step cache knows a result by the bytes of its input and by these fields. Promise: a field that the step
can see is among them. Where the source does not tell (a document that is handed to another function, a source
that cannot be read), it is all of them: results are then kept by path, and never those of another document.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from quire.authoring.document import Document
from quire.authoring.signatures import Signature
from quire.model.step import StepInput

ALL_FIELDS = ("cid", "content_type", "path", "processing_config", "source_file", "tags")
_FIELD_OF = {
    "name": "name",
    "stem": "name",
    "path": "path",
    "content_type": "content_type",
    "tags": "tags",
    "config": "processing_config",
}
# What these give follows from the bytes, or is no part of the document.
_HARMLESS = {"bytes", "text", "path_on_disk", "size", "scratch", "progress", "spend", "value", "values"}


def find_fields_read(function: Callable[..., Any], signature: Signature) -> tuple[str, ...]:
    if signature.find(StepInput):
        return ALL_FIELDS
    names = {one.name for one in signature.find(Document)}
    if not names:
        return ()
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return ALL_FIELDS
    found: set[str] = set()
    plain_uses = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
            plain_uses += 1
            if node.attr in _FIELD_OF:
                found.add(_FIELD_OF[node.attr])
            elif node.attr not in _HARMLESS:
                return ALL_FIELDS
    uses = sum(isinstance(node, ast.Name) and node.id in names for node in ast.walk(tree))
    return tuple(sorted(found)) if uses == plain_uses else ALL_FIELDS
