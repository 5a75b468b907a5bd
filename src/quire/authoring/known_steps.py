"""The steps of a pipeline as documents and folders look them up: by function or by name."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from quire.authoring.values import decode_value
from quire.model.errors import Reject
from quire.model.work import Value

StepName: TypeAlias = str | Callable[..., Any]
NO_DEFAULT: Any = object()


class KnownStep(Struct, frozen=True):
    """A step that others may ask for its value. `names` are those of its results: of a step with `each` one
    for each branch, by branch.
    """

    name: str
    value_type: Any
    branches: Mapping[str, str]
    function: Callable[..., Any] | None = None


class KnownSteps:
    """`describe` says what a step is that is not among them, for functions that are tested alone."""

    def __init__(
        self, steps: tuple[KnownStep, ...] = (), describe: Callable[[StepName], KnownStep] | None = None
    ) -> None:
        self._steps = steps
        self._describe = describe

    def find(self, step: StepName) -> KnownStep:
        """Raises LookupError for what is no step of this pipeline."""
        for one in self._steps:
            if one.function is step or one.name == step:
                return one
        if self._describe is not None:
            return self._describe(step)
        called = step if isinstance(step, str) else getattr(step, "__name__", repr(step))
        names = ", ".join(one.name for one in self._steps)
        raise LookupError(f"{called} is no step of this pipeline; its steps are: {names}")


class GivenValues:
    """The values of one document or folder, decoded when they are asked for."""

    def __init__(
        self, steps: KnownSteps, given: Mapping[str, Value], resolve: Callable[[Value], Any], owner: str
    ) -> None:
        self._steps = steps
        self._given = given
        self._resolve = resolve
        self._owner = owner

    def get(self, step: StepName, default: Any = NO_DEFAULT) -> Any:
        """The value of a step, or the default if there is one. Raises Reject without either."""
        known = self._steps.find(step)
        if "" not in known.branches:
            raise LookupError(
                f"{known.name} ran once for each of several names; ask for all of them: .values({known.name})"
            )
        found = self._given.get(known.branches[""])
        if found is not None:
            return decode_value(self._resolve(found), known.value_type, known.name)
        if default is not NO_DEFAULT:
            return default
        raise Reject(
            f"{self._owner} has no value of {known.name}: that step failed, or did not take it; a default "
            f"lets the others through: .value({known.name}, None)",
            code="input_missing",
        )

    def get_all(self, step: StepName) -> dict[str, Any]:
        """By branch, those that are there."""
        known = self._steps.find(step)
        return {
            branch: decode_value(self._resolve(self._given[name]), known.value_type, name)
            for branch, name in known.branches.items()
            if name in self._given
        }
