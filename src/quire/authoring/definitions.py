"""A step as it was written, and as it is understood after its checks."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from quire.authoring.known_steps import KnownStep
from quire.authoring.options import StepOptions
from quire.authoring.signatures import Signature
from quire.model.plan import Accepts
from quire.model.step import Step


class StepDefinition(Struct, frozen=True, kw_only=True):
    """What the decorator was given: a function, or a step that exists already."""

    name: str
    place: str
    given: Mapping[str, Any]
    function: Callable[..., Any] | None = None
    step: Step | None = None

    @property
    def phase(self) -> str:
        """The name of its phase: what its option says, or its own name."""
        return str(self.given.get("phase") or self.name)


class TakenStep(Struct, frozen=True):
    """A parameter that is given the value of an earlier step. `many`: one value for each branch."""

    parameter: str
    step: KnownStep
    required: bool
    many: bool


class CheckedStep(Struct, frozen=True, kw_only=True):
    """`branch_parameter` is the one of `each`; the branches are its names, or none."""

    name: str
    place: str
    registry_name: str
    version: int
    phase: str
    options: StepOptions
    accepts: Accepts
    signature: Signature
    takes: tuple[TakenStep, ...] = ()
    branch_parameter: str = ""
    branches: tuple[str, ...] = ()
    function: Callable[..., Any] | None = None
    step: Step | None = None

    def result_name(self, branch: str = "") -> str:
        """What its results are called in a batch. Names of steps have no dots."""
        return f"{self.name}.{branch}" if branch else self.name

    def describe(self) -> KnownStep:
        names = {branch: self.result_name(branch) for branch in self.branches or ("",)}
        return KnownStep(self.name, self.signature.returns.value_type, names, self.function)
