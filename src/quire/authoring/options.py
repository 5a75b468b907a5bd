"""The options of a step: their types, limits and defaults, in one place."""

import difflib
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

import msgspec
from msgspec import Meta, Struct, field, structs

from quire.model.output_rules import OutputRule
from quire.model.plan import Accepts, Pace

WEEK_SECONDS = 7 * 86_400.0

UnitName: TypeAlias = Literal["file", "folder", "batch"]
OnFailureName: TypeAlias = Literal["pass", "stop"]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=WEEK_SECONDS)]
SecondsOrNone: TypeAlias = Annotated[float, Meta(ge=0, le=WEEK_SECONDS)]


class StepOptions(Struct, frozen=True, kw_only=True):
    """Described in `Pipeline.step`. None means: what the pipeline or the function says."""

    accepts: str | tuple[str, ...] | Accepts = ()
    unit: UnitName = "file"
    phase: str = ""
    each: dict[str, tuple[str, ...]] = field(default_factory=dict)
    version: Annotated[int, Meta(ge=1)] | None = None
    timeout: Seconds = 120.0
    retries: Annotated[int, Meta(ge=0, le=1000)] = 2
    delays: Annotated[tuple[SecondsOrNone, ...], Meta(max_length=1000)] = ()
    memory_mb: Annotated[int, Meta(ge=1)] = 2048
    at_once: Annotated[int, Meta(ge=0)] = 0
    resource: str = ""
    on_failure: OnFailureName = "pass"
    runs_on: str = ""
    name: str = ""
    stall: SecondsOrNone = 0.0
    page_timeout: SecondsOrNone = 0.0
    cached: bool = True
    sandbox: bool | tuple[str, ...] = False
    cache_by: tuple[str, ...] | None = None
    renames: tuple[str, ...] = ()
    outputs: tuple[OutputRule, ...] = ()
    tags: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    task_prefix: str = ""
    pace: Pace = Pace()


_TYPES = get_type_hints(StepOptions, include_extras=True)
_HINTS = {"each": '; name the parameter and its values: each={"agent": ["blurb", "cover"]}'}
# What JSON calls otherwise than Python.
_WORDS = {"object": "dict", "array": "list", "null": "None"}


def refuse_unknown(given: Mapping[str, object]) -> None:
    """Raises TypeError, as a function does that has no such parameter."""
    for name in given:
        if name not in _TYPES:
            near = difflib.get_close_matches(name, _TYPES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the options are: {', '.join(sorted(_TYPES))}"
            raise TypeError(f"a step has no option {name!r}; {hint}")


def read_options(given: Mapping[str, object]) -> tuple[StepOptions, list[str]]:
    """The options, and for each one that is wrong what is wrong with it; those have their defaults."""
    good: dict[str, Any] = {}
    problems = []
    for name, value in given.items():
        try:
            good[name] = msgspec.convert(_to_plain(value), _TYPES[name])
        except (msgspec.ValidationError, OverflowError) as error:
            problems.append(f"{name}={value!r}: {_explain(str(error))}{_HINTS.get(name, '')}")
    return structs.replace(StepOptions(), **good), problems


def _to_plain(value: object) -> object:
    """As JSON knows it: a mapping is a table, an ordered collection a list, a member of an enum its value."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _to_plain(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        raise msgspec.ValidationError("a set has no order; write a list")
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_to_plain(inner) for inner in value]
    return value


def _explain(text: str) -> str:
    """`Expected `float` > 0.0` in words of Python, and without the place inside the value, which the message
    shows.
    """
    said = text.partition(" - at ")[0].replace("`", "")
    return re.sub(r"\b(?:object|array|null)\b", lambda found: _WORDS[found[0]], said)
