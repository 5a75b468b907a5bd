"""Where in a person's code something is written, as messages name it: `words.py:8`."""

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def place_of(function: Callable[..., Any]) -> str:
    """File and line of a function; only its name when it has no source, such as one of a built-in module."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return getattr(function, "__qualname__", type(function).__name__)
    return f"{shorten(code.co_filename)}:{code.co_firstlineno}"


def find_caller(depth: int) -> tuple[str, str, int]:
    """Module name, file and line of the code that called the function `depth` calls above this one."""
    frame = sys._getframe(depth + 1)  # noqa: SLF001 - the documented way to the caller; `inspect` reads sources
    return str(frame.f_globals.get("__name__", "")), _absolute(frame.f_code.co_filename), frame.f_lineno


def find_person() -> str:
    """File and line of the nearest caller outside of this package: of the person's own code."""
    here = str(Path(__file__).parent)
    frame = sys._getframe(1)  # noqa: SLF001 - as above
    while frame.f_back is not None and frame.f_code.co_filename.startswith(here):
        frame = frame.f_back
    return f"{shorten(frame.f_code.co_filename)}:{frame.f_lineno}"


def _absolute(path: str) -> str:
    """The working folder may be another one later. What is no file, such as `<stdin>`, stays as it is."""
    return path if path.startswith("<") else str(Path(path).resolve())


def shorten(path: str) -> str:
    """The path as people see it: relative where it lies below the working folder."""
    try:
        inside = os.path.relpath(path)
    except (OSError, ValueError):  # the working folder is gone
        return path
    return path if inside.startswith("..") or not Path(path).is_absolute() else inside
