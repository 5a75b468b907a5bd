"""A function of the operator's that answers steps which ask a Model: found by reference, called by name.

Promise: what it returns is an answer, or refused with its file and line. Light: it is imported by processes
that run such steps, and by nobody else.
"""

import inspect
from collections.abc import Callable, Coroutine
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from quire.authoring.language_model import LanguageModel, ModelAnswer, ModelQuestion
from quire.authoring.modules import import_file, import_module_from
from quire.authoring.places import place_of
from quire.authoring.references import parse_reference
from quire.model.errors import Misconfigured

AnswerFunction: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]

FORMS = "file.py:function or module:function"
_NAMED = ("system", "schema", "max_tokens", "temperature")


@lru_cache(maxsize=8)
def load_model(reference: str) -> LanguageModel:
    """The function that a reference names, as a model. Raises Misconfigured with what to do."""
    parsed = parse_reference(reference)
    if not parsed.object_path or parsed.expected is not None:
        raise Misconfigured(f"{reference!r} names no function that answers for a model; write {FORMS}")
    module = import_file(Path(parsed.file)) if parsed.file else import_module_from(parsed.module, Path.cwd())
    found: Any = module
    for name in parsed.object_path.split("."):
        found = getattr(found, name, None)
    if found is None:
        raise Misconfigured(f"{reference} names a model, but there is no {parsed.object_path!r} in that file")
    return FunctionModel(found)


class FunctionModel:
    """Asks an `async def` function: the prompt first, and of the rest what it has parameters for."""

    def __init__(self, function: AnswerFunction) -> None:
        self._function = function
        self._where = place_of(function)
        self._named = _list_parameters(function, self._where)

    async def answer(self, question: ModelQuestion) -> ModelAnswer:
        named = {name: getattr(question, name) for name in self._named}
        returned = await self._function(question.prompt, **named)
        if isinstance(returned, str):
            return ModelAnswer(text=returned)
        try:
            return msgspec.convert(returned, ModelAnswer)
        except msgspec.ValidationError as error:
            raise Misconfigured(
                f"{self._where} answered with a {type(returned).__name__} ({error}); return the text, or a "
                "dict with text, tokens_in, tokens_out and money"
            ) from error


def _list_parameters(function: object, where: str) -> tuple[str, ...]:
    """Which of the question's parts it takes by name. Raises Misconfigured for what cannot be asked."""
    if not inspect.iscoroutinefunction(function):
        raise Misconfigured(
            f"{where}: what answers for a model is an `async def` function that takes a prompt"
        )
    parameters = list(inspect.signature(function).parameters.values())
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    if not parameters or parameters[0].kind not in positional:
        raise Misconfigured(
            f"{where}: its first parameter is the prompt: `async def answer(prompt: str) -> str`"
        )
    for one in parameters[1:]:
        if one.name not in _NAMED and one.default is inspect.Parameter.empty:
            raise Misconfigured(
                f"{where}: nothing is given to the parameter {one.name!r}; besides the prompt there are: "
                f"{', '.join(_NAMED)}"
            )
    return tuple(one.name for one in parameters[1:] if one.name in _NAMED)
