"""The language model that a step asks, and the seam behind it.

A step takes a `Model` and awaits answers; which model answers, and how it is reached, is the operator's
business. Every answer is charged to the attempt that asked, even when the step fails afterwards.
"""

from typing import Any, Protocol, TypeVar, overload

import msgspec
from msgspec import Struct

from quire.model.errors import Misconfigured, Retry
from quire.model.step import Meter, NoMeter

T = TypeVar("T")


class ModelQuestion(Struct, frozen=True, kw_only=True):
    """`schema` is the JSON schema that the answer must fit; None: free text. No limit of tokens: 0."""

    prompt: str
    system: str = ""
    schema: dict[str, Any] | None = None
    max_tokens: int = 0
    temperature: float | None = None


class ModelAnswer(Struct, frozen=True, kw_only=True):
    """`money` is what the answer cost, in currency units."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    money: float = 0.0


class LanguageModel(Protocol):
    """What answers questions. Raises Retry when it is busy, Reject when it will never answer this one."""

    async def answer(self, question: ModelQuestion) -> ModelAnswer: ...


class NoLanguageModel:
    """Stands where no model is configured."""

    async def answer(self, question: ModelQuestion) -> ModelAnswer:  # noqa: ARG002 - asked in vain
        raise Misconfigured(
            "this step asks a language model, and none is configured; set `model` to the function that "
            "answers (file.py:function), or in a test give run_step a model"
        )


class Model:
    """A language model, given to steps that have a parameter of this type. Only for `async def` steps."""

    def __init__(self, backend: LanguageModel | None = None, meter: Meter | None = None) -> None:
        self._backend = backend or NoLanguageModel()
        self._meter = meter or NoMeter()

    @overload
    async def ask(
        self, prompt: str, *, system: str = "", max_tokens: int = 0, temperature: float | None = None
    ) -> str: ...

    @overload
    async def ask(
        self,
        prompt: str,
        *,
        answer: type[T],
        system: str = "",
        max_tokens: int = 0,
        temperature: float | None = None,
    ) -> T: ...

    async def ask(
        self,
        prompt: str,
        *,
        answer: Any = str,
        system: str = "",
        max_tokens: int = 0,
        temperature: float | None = None,
    ) -> Any:
        """The answer to a prompt: text, or with `answer=Notes` a `Notes`. An answer that does not fit the
        type counts as a passing fault: the step is tried again.
        """
        schema = None if answer is str else msgspec.json.schema(answer)
        question = ModelQuestion(
            prompt=prompt, system=system, schema=schema, max_tokens=max_tokens, temperature=temperature
        )
        given = await self._backend.answer(question)
        self._meter.spend(tokens_in=given.tokens_in, tokens_out=given.tokens_out, money=given.money)
        if schema is None:
            return given.text
        try:
            return msgspec.json.decode(given.text, type=answer)
        except (msgspec.MsgspecError, UnicodeError) as error:
            wanted = getattr(answer, "__name__", str(answer))
            raise Retry(f"the model's answer is no {wanted}: {error}", code="bad_answer") from error
