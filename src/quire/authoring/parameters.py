"""Checks what each parameter of a step is given: a framework object by annotation, an option or the value of
an earlier step by name.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from types import GenericAlias
from typing import Any

import msgspec

from quire.authoring.annotations import fits
from quire.authoring.definitions import CheckedStep, StepDefinition, TakenStep
from quire.authoring.document import Document, Folder
from quire.authoring.language_model import Model
from quire.authoring.options import StepOptions
from quire.authoring.signatures import Parameter, Signature
from quire.authoring.values import describe

Earlier = Mapping[str, CheckedStep]


def find_taken(signature: Signature, earlier: Earlier) -> tuple[TakenStep, ...]:
    """The parameters that are named like steps of earlier phases."""
    return tuple(
        TakenStep(
            parameter=one.name,
            step=earlier[one.name].describe(),
            required=not one.is_optional,
            many=bool(earlier[one.name].branches),
        )
        for one in signature.named
        if one.name in earlier
    )


def find_parameter_problems(
    name: str, signature: Signature, options: StepOptions, earlier: Earlier, steps: Sequence[StepDefinition]
) -> Iterator[str]:
    """`earlier` are the steps of earlier phases, `steps` are all of them."""
    yield from _find_unit_problems(signature, options)
    if signature.find(Model) and not signature.is_async:
        yield "a step that asks a Model is an `async def`: answers take long, and many wait at the same time"
    named = {one.name for one in signature.named}
    for parameter in options.each:
        if parameter not in named:
            yield f"each gives the names to {parameter!r}, so the function needs a parameter {parameter}: str"
    for one in signature.named:
        if one.name in options.each:
            yield from _find_option_problems(one, options.each[one.name])
        elif one.name in options.options:
            yield from _find_option_problems(one, [options.options[one.name]])
        elif one.name in earlier:
            yield from _find_value_problems(one, earlier[one.name], options)
        else:
            yield f"the parameter {one.name} {_explain_unknown(one.name, name, earlier, steps)}"


def _find_unit_problems(signature: Signature, options: StepOptions) -> Iterator[str]:
    if options.unit == "file" and signature.find(Folder):
        yield 'it takes a Folder, so it must say unit="folder" (or "batch")'
    if options.unit != "file" and signature.find(Document):
        yield f'with unit="{options.unit}" it takes a Folder, not a Document; its documents are in it'


def _find_option_problems(parameter: Parameter, given: Sequence[Any]) -> Iterator[str]:
    for value in given:
        try:
            msgspec.convert(value, parameter.annotation)
        except (msgspec.ValidationError, TypeError) as error:
            yield f"the parameter {parameter.name} is given {value!r}: {str(error).partition(' - at ')[0]}"


def _find_value_problems(parameter: Parameter, step: CheckedStep, options: StepOptions) -> Iterator[str]:
    name, returns = step.name, step.signature.returns
    if step.options.unit != options.unit:
        yield f"the parameter {name} is the value of a step on another unit; {_explain_unit(step, options)}"
        return
    if not returns.gives_value:
        yield (
            f"the parameter {name} is the value of that step, but it gives none: it returns "
            f"{describe(returns.annotation)}; let it return a Result with a value ({step.place})"
        )
        return
    value_type = returns.value_type
    kind: Any = GenericAlias(dict, (str, value_type)) if step.branches else value_type
    if not fits(kind, parameter.annotation):
        yield (
            f"the parameter {name} is annotated as {describe(parameter.annotation)}, but that step gives "
            f"{describe(kind)} ({step.place})"
        )
    elif not returns.always and not parameter.is_optional:
        yield (
            f"the parameter {name} may be missing, because that step returns {describe(returns.annotation)}; "
            f"write `{name}: {describe(parameter.annotation)} | None`, or give it a default"
        )


def _explain_unit(step: CheckedStep, options: StepOptions) -> str:
    if options.unit == "file":
        unit = step.options.unit
        return f'documents do not wait for a {unit}; take it in a step with unit="{unit}"'
    if step.options.unit == "file":
        return f"ask each document of the folder for it: `document.value({step.name})`"
    return f'only a step with unit="{step.options.unit}" can take it'


def _explain_unknown(parameter: str, own: str, earlier: Earlier, steps: Sequence[StepDefinition]) -> str:
    if parameter == own:
        return "is the step itself, which has no value before it has run"
    phase = next(one.phase for one in steps if one.name == own)
    for one in steps:
        if one.name == parameter:
            if one.phase == phase:
                return f"runs side by side with it in phase {phase!r}; put it into an earlier phase"
            return f"is a step that comes later ({one.place}); move it up, before this one"
    near = difflib.get_close_matches(parameter, earlier, n=1)
    if near:
        return f"is no earlier step; did you mean {near[0]}?"
    known = f"the earlier steps are: {', '.join(earlier)}" if earlier else "there is no earlier step"
    return f"is no earlier step ({known}); annotate it as Document, Folder or Model, or remove it"
