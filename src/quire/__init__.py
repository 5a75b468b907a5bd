"""Quire: durable document pipelines. A folder goes in, every file comes out.

    from quire import Document, Output, Pipeline

    words = Pipeline("words")

    @words.step(accepts="text/plain")
    def count(document: Document) -> Output:
        return Output.json("words.json", {"words": len(document.text().split())})

These ten names are all that a pipeline needs, and they are stable. Each is imported when it is first used;
`__init__.pyi` says so to type checkers.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

__version__ = "0.1.0"

_MODULES = {
    "Document": "quire.authoring.document",
    "External": "quire.authoring.signals",
    "Folder": "quire.authoring.document",
    "Model": "quire.authoring.language_model",
    "Output": "quire.authoring.outputs",
    "Pipeline": "quire.authoring.pipeline",
    "Reject": "quire.model.errors",
    "Result": "quire.authoring.outputs",
    "TryLater": "quire.authoring.signals",
    "run": "quire.cli.run.program",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> _Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'quire' has no attribute {name!r}")
    found = globals()[name] = getattr(_import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
