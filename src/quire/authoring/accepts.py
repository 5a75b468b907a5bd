"""Checks of what `accepts` says: patterns that could never match, or match something else than meant."""

import mimetypes
import re
from collections.abc import Iterator

from quire.model.plan import Accepts, parse_accepts

_TOKEN = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]*", re.IGNORECASE)
_KINDS = ("application", "audio", "font", "image", "message", "model", "multipart", "text", "video")
_EXTENSIONS = mimetypes.MimeTypes().types_map[True]


def read_accepts(given: str | tuple[str, ...] | Accepts) -> Accepts:
    return given if isinstance(given, Accepts) else parse_accepts(given)


def name_branch(accepts: Accepts, parameter: str, branch: str) -> Accepts:
    """What one branch of a step with `each` takes: patterns may name it, as in `tag:part-{part}`."""
    said = "{" + parameter + "}"
    named = (
        tuple(pattern.replace(said, branch) for pattern in patterns)
        for patterns in (accepts.kinds, accepts.needs, accepts.refuses)
    )
    kinds, needs, refuses = named
    return Accepts(kinds=kinds, needs=needs, refuses=refuses)


def find_accepts_problems(accepts: Accepts) -> Iterator[str]:
    patterns = (*accepts.kinds, *accepts.needs, *accepts.refuses)
    for pattern in patterns:
        if (problem := _find_problem(pattern)) is not None:
            yield f"accepts={pattern!r}: {problem}"
    for pattern in accepts.refuses:
        if pattern in (*accepts.kinds, *accepts.needs):
            yield f"accepts: {pattern!r} is asked for and refused, so no document is ever taken"


def _find_problem(pattern: str) -> str | None:
    if not pattern.strip() or pattern != pattern.strip():
        return "write a content type, a glob such as '*.txt', 'tag:NAME' or 'config:KEY', without spaces"
    if pattern.startswith("!"):
        return "one ! is enough to refuse"
    if pattern.startswith("tag:"):
        return None if pattern[4:] else "name the tag: 'tag:page'"
    if pattern.startswith("config:"):
        return (
            None
            if pattern[7:].partition("=")[0]
            else "name the key: 'config:language' or 'config:language=en'"
        )
    return _find_type_problem(pattern) if "/" in pattern else _find_glob_problem(pattern)


def _find_type_problem(pattern: str) -> str | None:
    kind, _, rest = pattern.partition("/")
    if not _TOKEN.fullmatch(kind) or not (rest == "*" or _TOKEN.fullmatch(rest)):
        return "with a slash it is a content type such as 'text/plain' or 'image/*'; globs are of names only"
    if kind.lower() not in _KINDS and not kind.lower().startswith("x-"):
        return f"content types begin with one of: {', '.join(_KINDS)}"
    return None


def _find_glob_problem(pattern: str) -> str | None:
    """A word that is an extension was meant as one."""
    extension = pattern if pattern.startswith(".") else f".{pattern}"
    if extension.lower() in _EXTENSIONS:
        return f"this is the whole name of a file; for all files of this kind write '*{extension}'"
    return None
