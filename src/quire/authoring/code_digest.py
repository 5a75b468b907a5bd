"""Tells whether the code behind a pipeline has changed since: a digest of the sources of its steps.

It never decides anything: versions do. It lets a process warn that results of older code may be used.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from quire.authoring.definitions import CheckedStep


def compute_code_digest(steps: Iterable[CheckedStep]) -> str:
    """Over the source of each step and of the modules they are written in. Paths are no part of it: the same
    files on two machines have the same digest.
    """
    digest = hashlib.sha256()
    modules: dict[str, bytes] = {}
    for step in steps:
        function = step.function if step.step is None else step.step.run
        if function is None:
            continue
        digest.update(f"{step.name}\n".encode() + hashlib.sha256(_read_source(function)).digest())
        modules.setdefault(getattr(function, "__module__", ""), _read_module(function))
    for source in sorted(modules.values()):
        digest.update(hashlib.sha256(source).digest())
    return digest.hexdigest()


def warn_of_other_code(name: str, version: int, stored: str, present: str) -> str | None:
    """What to tell people when the code has changed under a version; None when there is nothing to tell."""
    if not stored or not present or stored == present:
        return None
    return (
        f"the code of the pipeline {name} has changed, but it is still version {version}: results of the "
        f"former code are used where they exist; to make them anew, write version={version + 1}"
    )


def _read_source(function: Callable[..., Any]) -> bytes:
    try:
        return inspect.getsource(function).encode()
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return b"" if code is None else code.co_code


def _read_module(function: Callable[..., Any]) -> bytes:
    module = inspect.getmodule(function)
    try:
        return b"" if module is None else inspect.getsource(module).encode()
    except (OSError, TypeError):
        return b""
