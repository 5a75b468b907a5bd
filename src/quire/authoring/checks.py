"""Checks a pipeline before anything runs: all problems at once, each with file and line and what to do."""

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from quire.authoring.accepts import find_accepts_problems, read_accepts
from quire.authoring.definitions import CheckedStep, StepDefinition
from quire.authoring.language_model import Model
from quire.authoring.options import StepOptions, read_options
from quire.authoring.parameters import find_parameter_problems, find_taken
from quire.authoring.signatures import Returns, Signature, read_signature
from quire.authoring.values import describe, find_problem
from quire.model.errors import Misconfigured
from quire.model.files import File
from quire.model.output_rules import find_rule_problem
from quire.model.plan import MACHINES

LONGEST_NAME = 64
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_BRANCH = re.compile(r"[^\x00-\x1f\x7f/\\\ud800-\udfff]+")
_EXTENSION = re.compile(r"\.[^./\\\s]+")
# Stands for a function that cannot be understood, so that the steps after it are not blamed.
_UNKNOWN = Signature((), Returns(gives_value=True, always=True), is_async=False)


def check_pipeline(
    name: str, version: int, place: str, definitions: Sequence[StepDefinition]
) -> tuple[CheckedStep, ...]:
    """The steps, understood. Raises Misconfigured with all problems of the pipeline."""
    problems = [f"{place}: {text}" for text in _find_pipeline_problems(name, version, definitions)]
    phases = [definition.phase for definition in definitions]
    checked: dict[str, CheckedStep] = {}
    for definition in definitions:
        if definition.name in checked:
            first = checked[definition.name].place
            found = [f"there is a step of this name already ({first}); give one of them another name"]
        else:
            step, found = _check_step(name, version, definition, checked, definitions)
            checked[step.name] = step
        problems += [f"{definition.place}: {definition.name}: {text}" for text in found]
    problems += _find_phase_problems(phases, definitions)
    if problems:
        listed = "".join(f"\n  {one}" for one in problems)
        raise Misconfigured(f"the pipeline {name} cannot be used:{listed}")
    return tuple(checked.values())


def _find_pipeline_problems(
    name: object, version: object, definitions: Sequence[StepDefinition]
) -> Iterator[str]:
    if problem := _find_name_problem(name):
        yield f"the pipeline's name {name!r} {problem}"
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        yield f"a pipeline's version is a whole number from 1 on, not {version!r}"
    if not definitions:
        yield f"the pipeline has no steps; write a function below `@{name}.step`"


def _find_phase_problems(phases: Sequence[str], definitions: Sequence[StepDefinition]) -> Iterator[str]:
    """Steps of one phase stand together and are about the same thing."""
    for at, definition in enumerate(definitions):
        here, phase = f"{definition.place}: {definition.name}", definition.phase
        before = phases[:at]
        if phase in before and before[-1] != phase:
            yield f"{here}: the steps of phase {phase!r} must stand together; move this one up to the others"
        first = definitions[phases.index(phase)]
        if first.given.get("unit", "file") != definition.given.get("unit", "file"):
            yield f"{here}: the steps of phase {phase!r} must have the same `unit`"


def _check_step(
    pipeline: str,
    version: int,
    definition: StepDefinition,
    earlier: Mapping[str, CheckedStep],
    all_steps: Sequence[StepDefinition],
) -> tuple[CheckedStep, list[str]]:
    options, problems = read_options(definition.given)
    problems += _find_option_problems(definition.name, options)
    signature = _UNKNOWN
    try:
        if definition.function is not None:
            signature = read_signature(definition.function)
    except ValueError as error:
        problems.append(str(error))
    accepts = read_accepts(options.accepts)
    problems += find_accepts_problems(accepts)
    before = {name: step for name, step in earlier.items() if step.phase != definition.phase}
    if options.sandbox:
        problems += _find_sandbox_problems(options, signature, definition)
    if signature is not _UNKNOWN:
        problems += _find_value_problems(signature.returns)
        problems += find_parameter_problems(definition.name, signature, options, before, all_steps)
    branch_parameter, branches = next(iter(options.each.items()), ("", ()))
    own = definition.step
    step = CheckedStep(
        name=definition.name,
        place=definition.place,
        registry_name=f"{pipeline}.{definition.name}" if own is None else own.name,
        version=options.version or (version if own is None else own.version),
        phase=definition.phase,
        options=options,
        accepts=accepts,
        signature=signature if definition.function is not None else _of_existing(),
        takes=find_taken(signature, before),
        branch_parameter=branch_parameter,
        branches=branches,
        function=definition.function,
        step=own,
    )
    return step, problems


def _of_existing() -> Signature:
    return Signature((), Returns(makes_outputs=True), is_async=False)


def _find_option_problems(name: str, options: StepOptions) -> Iterator[str]:
    if problem := _find_name_problem(name):
        yield f"the step's name {name!r} {problem}"
    if options.phase and (problem := _find_name_problem(options.phase)):
        yield f"the phase's name {options.phase!r} {problem}"
    for option in ("resource", "runs_on", "task_prefix"):
        word = getattr(options, option)
        if word and not _WORD.fullmatch(word):
            yield f"{option}={word!r}: use letters, digits, dots, hyphens and underscores"
    if len(options.delays) > options.retries:
        yield f"there are {len(options.delays)} delays for {options.retries} retries"
    yield from _find_each_problems(options)
    yield from _find_cache_problems(options)
    yield from _find_naming_problems(options)


def _find_sandbox_problems(
    options: StepOptions, signature: Signature, definition: StepDefinition
) -> Iterator[str]:
    if definition.step is not None:
        yield "sandbox=True: a step that exists already says itself whether it runs in a sandbox"
    if signature.is_async:
        yield "sandbox=True: an `async def` step shares its process with others; write it with `def`"
    for name in () if isinstance(options.sandbox, bool) else options.sandbox:
        if name not in options.options:
            yield f"sandbox names the option {name!r}, which is not among `options`"
    if signature.find(Model):
        yield "sandbox=True: a Model needs the network, which a sandbox does not have; ask it in a step after"
    if options.runs_on in MACHINES:
        yield f"sandbox=True: on {options.runs_on} a step has a process or machine of its own, and no sandbox"


def _find_naming_problems(options: StepOptions) -> Iterator[str]:
    for extension in options.renames:
        if not _EXTENSION.fullmatch(extension):
            yield f"renames={extension!r}: write extensions as '.tif'"
    for rule in options.outputs:
        if wrong := find_rule_problem(rule):
            yield f"outputs: of the role {rule.role!r}: {wrong}"
    if options.renames and options.unit != "file":
        yield "renames is for steps on files; outputs of a folder have no name to replace"


def _find_each_problems(options: StepOptions) -> Iterator[str]:
    if len(options.each) > 1:
        yield "each takes one parameter; write one step for the others, or make their pairs the names"
    for parameter, names in options.each.items():
        if not names:
            yield f"each gives no names to {parameter!r}"
        for at, name in enumerate(names):
            if not _BRANCH.fullmatch(name) or name != name.strip() or len(name) > LONGEST_NAME:
                yield (
                    f"each: the name {name!r} must have 1 to {LONGEST_NAME} characters, no slash or control "
                    "character, and no spaces around it"
                )
            elif name in names[:at]:
                yield f"each: the name {name!r} is there twice"


def _find_cache_problems(options: StepOptions) -> Iterator[str]:
    for field in options.cache_by or ():
        first, dot, key = field.partition(".")
        if first not in File.__struct_fields__ or (dot and (first != "processing_config" or not key)):
            known = ", ".join(File.__struct_fields__)
            yield f"cache_by={field!r} is no field of a file; there are: {known}, processing_config.KEY"
    try:
        msgspec.json.encode(options.options)
    except Exception as error:  # noqa: BLE001 - whatever it is, it cannot be stored with the batch
        yield f"options cannot be written as JSON: {error}"
    if both := sorted(options.options.keys() & options.each.keys()):
        yield f"{both[0]!r} is in each and in options"


def _find_value_problems(returns: Returns) -> Iterator[str]:
    if returns.gives_value and (problem := find_problem(returns.value_type)):
        yield (
            f"it returns {describe(returns.value_type)}, which cannot travel to later steps ({problem}); "
            "return an Output, or a value of a msgspec.Struct, a dataclass, dicts, lists, numbers and texts"
        )


def _find_name_problem(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        return f"must be letters, digits and underscores, begin with a letter and have at most {LONGEST_NAME}"
    return "is a word of Python; choose another one" if keyword.iskeyword(name) else ""
