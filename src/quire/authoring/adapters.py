"""From a person's function to a step that workers run: gives the parameters, takes what it returns.

Promise: what a function returns is either written and complete, or refused with its file and line.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from quire.authoring.definitions import CheckedStep
from quire.authoring.document import Document, Folder, build_document, build_folder
from quire.authoring.known_steps import KnownSteps
from quire.authoring.language_model import LanguageModel, Model
from quire.authoring.returned import build_output
from quire.authoring.values import decode_value
from quire.model.errors import Bug
from quire.model.step import Step, StepInput, StepOutput


def build_step(step: CheckedStep, known: KnownSteps, model: LanguageModel | None = None) -> Step:
    if step.step is not None:
        return step.step
    if step.function is None:
        raise Bug(f"the step {step.name} has no function")
    call = StepCaller(step, step.function, known, model)
    takes_bytes = bool(step.signature.find(Document) or step.signature.find(StepInput))
    return Step(
        name=step.registry_name,
        version=step.version,
        run=call.run_alone if step.signature.is_async else call.run,
        run_async=call.run_async if step.signature.is_async else None,
        needs_source=takes_bytes or step.options.unit != "file" or step.signature.returns.makes_outputs,
        sandbox=partial(_list_folders, step.options.sandbox) if step.options.sandbox else None,
    )


def _list_folders(named: bool | tuple[str, ...], options: Mapping[str, Any]) -> tuple[str, ...]:
    """What a step in a sandbox reads beside its input and modules: folders that options of it name."""
    names = () if isinstance(named, bool) else named
    return tuple(str(options[name]) for name in names if options.get(name))


class StepCaller:
    """Calls one function for one input after the other."""

    def __init__(
        self,
        step: CheckedStep,
        function: Callable[..., Any],
        known: KnownSteps,
        model: LanguageModel | None = None,
    ) -> None:
        self._step = step
        self._function = function
        self._known = known
        self._model = model
        self._where = f"{step.name} ({step.place})"

    def run(self, step_input: StepInput) -> StepOutput:
        return self._build_output(self._function(**self.bind(step_input)), step_input)

    async def run_async(self, step_input: StepInput) -> StepOutput:
        returned = await self._function(**self.bind(step_input))
        if self._step.signature.returns.makes_outputs:
            # Other steps go on while the disk works.
            return await asyncio.to_thread(self._build_output, returned, step_input)
        return self._build_output(returned, step_input)

    def run_alone(self, step_input: StepInput) -> StepOutput:
        """An `async def` step in a process that runs one task at a time."""
        return asyncio.run(self.run_async(step_input))

    def bind(self, step_input: StepInput) -> dict[str, Any]:
        """The arguments, by name. What is missing and has a default is left out."""
        given: dict[str, Any] = {}
        for parameter in self._step.signature.parameters:
            if parameter.kind is not None:
                given[parameter.name] = self._inject(parameter.kind, step_input)
            elif parameter.name in step_input.options:
                option = step_input.options[parameter.name]
                given[parameter.name] = msgspec.convert(option, parameter.annotation)
        for taken in self._step.takes:
            found = {
                branch: decode_value(step_input.values[name], taken.step.value_type, name)
                for branch, name in taken.step.branches.items()
                if name in step_input.values
            }
            if found:
                given[taken.parameter] = found if taken.many else found[""]
            elif not self._has_default(taken.parameter):
                given[taken.parameter] = None
        return given

    def _inject(self, kind: type, step_input: StepInput) -> Any:
        if kind is Document:
            return build_document(step_input, self._known)
        if kind is Folder:
            return build_folder(step_input, self._known, self._step.name)
        if kind is Model:
            return Model(self._model, step_input.meter)
        return step_input

    def _has_default(self, parameter: str) -> bool:
        return any(one.name == parameter and one.has_default for one in self._step.signature.parameters)

    def _build_output(self, returned: object, step_input: StepInput) -> StepOutput:
        return build_output(returned, self._step.signature.returns, step_input.folder, self._where)
