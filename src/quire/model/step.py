"""The shape of a step: a plain function that reads one local file and leaves files in a folder.

A step runs in a worker process and may crash it. It knows nothing of queues, stores or batches:
the worker brings the input and carries the products away.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from quire.model.files import File


class StepInput(Struct, frozen=True, kw_only=True):
    """What a step is given.

    `source` is a readable local copy of the file (read-only: it may be the store's own);
    `folder` is an empty scratch folder for products, removed afterwards.
    """

    file: File
    source: Path
    folder: Path
    options: dict[str, Any] = field(default_factory=dict)


class Made(Struct, frozen=True, kw_only=True):
    """A file the step left in its scratch folder."""

    role: str
    path: Path
    content_type: str
    facts: dict[str, Any] = field(default_factory=dict)


class StepOutput(Struct, frozen=True, kw_only=True):
    made: tuple[Made, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


StepFunction = Callable[[StepInput], StepOutput]


class Step(Struct, frozen=True, kw_only=True):
    """A step as it stands in a registry.

    `version` is part of the cache key: raise it whenever the same input would give other output.
    `reads` names the fields of the file's record that the products depend on beside the bytes (a reference
    names its file): a phase with this step puts them in its `cache_by`.
    """

    name: str
    version: int
    run: StepFunction
    needs_source: bool = True  # False: works from the record alone, no bytes are fetched
    reads: tuple[str, ...] = ()


NO_OUTPUT = StepOutput()
