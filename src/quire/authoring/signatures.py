"""What a step's function takes and gives, read from its annotations.

`Document`, `Folder`, `Model` and `StepInput` are given by annotation; every other parameter is given by its
name. The return annotation says whether the step makes outputs, gives a value, or both.
"""

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from collections.abc import Sequence as AbstractSequence
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from msgspec import Struct

from quire.authoring.annotations import allows_none, alternatives, strip, unite
from quire.authoring.document import Document, Folder
from quire.authoring.language_model import Model
from quire.authoring.outputs import Output, Result
from quire.authoring.signals import External
from quire.authoring.values import describe
from quire.model.step import StepInput, StepOutput

INJECTED: tuple[type, ...] = (Document, Folder, Model, StepInput)
_SEVERAL = (list, tuple, AbstractSequence, Iterable, Iterator, Generator)
_ASYNC_SEVERAL = (AsyncIterable, AsyncIterator, AsyncGenerator)
_MISTAKEN = (set, frozenset, dict)


class Parameter(Struct, frozen=True):
    """`kind` is one of INJECTED, or None for what is given by name. `is_optional`: it may be missing."""

    name: str
    annotation: Any
    kind: type | None
    has_default: bool

    @property
    def is_optional(self) -> bool:
        return self.has_default or allows_none(self.annotation)


class Returns(Struct, frozen=True):
    """`always` tells that a value is there whenever the step succeeds; `external` that it may leave the task
    to somebody outside, whose answer then is of the same kind.
    """

    annotation: Any = None
    value_type: Any = Any
    gives_value: bool = False
    always: bool = False
    makes_outputs: bool = False
    several: bool = False
    external: bool = False


class Signature(Struct, frozen=True):
    parameters: tuple[Parameter, ...]
    returns: Returns
    is_async: bool

    def find(self, kind: type) -> tuple[Parameter, ...]:
        return tuple(one for one in self.parameters if one.kind is kind)

    @property
    def named(self) -> tuple[Parameter, ...]:
        """What is given by name: values of earlier steps, and the name of the branch."""
        return tuple(one for one in self.parameters if one.kind is None)


def read_signature(function: Callable[..., Any]) -> Signature:
    """Raises ValueError with what is wrong and what to do."""
    if not inspect.isfunction(function):
        raise ValueError("a step is a function (`def` or `async def`), not a method, class or partial")
    if inspect.isasyncgenfunction(function):
        raise ValueError("an `async def` step returns its outputs in a list; it cannot `yield` them")
    hints = _read_hints(function)
    parameters = tuple(_read_parameter(one, hints) for one in inspect.signature(function).parameters.values())
    if "return" not in hints:
        raise ValueError("say what it returns: `-> Output`, a type of your own, or `-> None`")
    returns = read_returns(hints["return"])
    return Signature(parameters, returns, inspect.iscoroutinefunction(function))


def _read_hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ValueError(
            f"the annotation {error.name!r} cannot be found when the pipeline is loaded; define or import it "
            "at the top level of the module, and not only under TYPE_CHECKING"
        ) from error
    except Exception as error:
        raise ValueError(f"its annotations cannot be read: {type(error).__name__}: {error}") from error


def _read_parameter(found: inspect.Parameter, hints: dict[str, Any]) -> Parameter:
    if found.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        raise ValueError(f"it cannot take {found}: every parameter of a step has a name of its own")
    if found.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise ValueError(f"its parameters are given by name; remove the `/` after {found.name}")
    annotation = strip(hints.get(found.name, Any))
    for kind in INJECTED:
        if annotation is not kind and any(one is kind for one in alternatives(annotation)):
            raise ValueError(f"the parameter {found.name} is always given; annotate it as {kind.__name__}")
    injected = next((kind for kind in INJECTED if annotation is kind), None)
    return Parameter(found.name, annotation, injected, found.default is not inspect.Parameter.empty)


def read_returns(annotation: Any) -> Returns:
    """Raises ValueError for a type that a step cannot return."""
    values: list[Any] = []
    always, makes_outputs, several, external = True, False, False, False
    for one in alternatives(annotation):
        if one is Output or _is_several(one):
            makes_outputs, always = True, False
            several = several or one is not Output
        elif one is Result or get_origin(one) is Result:
            makes_outputs = True
            inner = list(alternatives((get_args(one) or (Any,))[0]))
            always = always and NoneType not in inner
            values += [kind for kind in inner if kind is not NoneType]
        elif one is External:
            external = True
        elif one is NoneType:
            always = False
        elif one is StepOutput:
            makes_outputs, always = True, False
        else:
            values.append(one)
    return Returns(
        annotation=annotation,
        value_type=unite(values),
        gives_value=bool(values),
        always=bool(values) and always,
        makes_outputs=makes_outputs,
        several=several,
        external=external,
    )


def _is_several(kind: Any) -> bool:
    """Whether it is a list of outputs, a tuple of them, or what a function that yields them returns."""
    origin, inside = get_origin(kind), get_args(kind)
    if Output not in inside:
        return False
    if origin in _ASYNC_SEVERAL:
        raise ValueError("an `async def` step returns its outputs in a list; it cannot `yield` them")
    if origin in _MISTAKEN:
        raise ValueError(f"{describe(kind)} has no order; return a list[Output] or a tuple[Output, ...]")
    return origin in _SEVERAL
