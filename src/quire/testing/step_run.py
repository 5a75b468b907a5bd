"""`run_step`: one step on one file, in a test, without workers, stores or servers.

The step is given what it would be given in a batch, and what it returns is checked in the same way: values
travel as JSON, outputs as files.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar, Unpack, overload

from quire.authoring.adapters import build_step
from quire.authoring.definitions import CheckedStep, TakenStep
from quire.authoring.document import Folder
from quire.authoring.known_steps import KnownStep, KnownSteps, StepName
from quire.authoring.model_functions import AnswerFunction, FunctionModel
from quire.authoring.options import StepOptions
from quire.authoring.outputs import Output, Result
from quire.authoring.places import place_of
from quire.authoring.signatures import read_signature
from quire.authoring.values import decode_value, encode_value
from quire.model.files import File
from quire.model.plan import Accepts
from quire.model.step import OutputFile, Step, StepInput, StepOutput
from quire.model.work import EarlierResult, MemberFile, StepResult, Value
from quire.tools import sniff

T = TypeVar("T")
Values = Mapping[str, Any]
TOKEN = "the-token-of-this-task"  # noqa: S105 - what `document.task` is here


class StepRun(NamedTuple, Generic[T]):
    """Outputs have their bytes in `data`, so that `Output.json("words.json", {"words": 3})` equals the one of
    a step. The value is None when there is none; of a step that waits for somebody outside it is the request.
    """

    outputs: tuple[Output, ...]
    value: T


class RunOptions(TypedDict, total=False):
    """What may be said of the input.

    path, content_type, tags, config: of the document; its type is recognised as in a batch if not given
    documents:  of a folder: by name, with the values of earlier steps; else all files of the folder, without
    folders:    the values that the step gave for the folders right below, by name
    options:    of a `Step`
    model:      the `async def` function that answers a step which takes a Model
    """

    path: str
    content_type: str
    tags: Iterable[str]
    config: Mapping[str, Any]
    documents: Mapping[str, Mapping[Any, Any]]
    folders: Mapping[str, Any]
    options: Mapping[str, Any]
    model: AnswerFunction


@overload
def run_step(
    step: Callable[..., Coroutine[Any, Any, Result[T]]],
    file: Path | str,
    values: Values = ...,
    **more: Unpack[RunOptions],
) -> StepRun[T]: ...
@overload
def run_step(
    step: Callable[..., Coroutine[Any, Any, T]],
    file: Path | str,
    values: Values = ...,
    **more: Unpack[RunOptions],
) -> StepRun[T]: ...
@overload
def run_step(
    step: Callable[..., Result[T]], file: Path | str, values: Values = ..., **more: Unpack[RunOptions]
) -> StepRun[T]: ...
@overload
def run_step(
    step: Callable[..., T], file: Path | str, values: Values = ..., **more: Unpack[RunOptions]
) -> StepRun[T]: ...
@overload
def run_step(
    step: Step, file: Path | str, values: Values = ..., **more: Unpack[RunOptions]
) -> StepRun[Any]: ...
def run_step(
    step: Callable[..., Any] | Step,
    file: Path | str,
    values: Values | None = None,
    **more: Unpack[RunOptions],
) -> StepRun[Any]:
    """Run the function of a step on a file, or on a folder if it takes a Folder. `values` are its other
    parameters by name: values of earlier steps, the name of the branch. What the step raises is raised here.
    """
    known = KnownSteps(describe=_describe_alone)
    checked = None if isinstance(step, Step) else _describe_step(step, values or {})
    model = FunctionModel(more["model"]) if "model" in more else None
    runnable = step if isinstance(step, Step) else build_step(_must(checked), known, model)
    with TemporaryDirectory(prefix="quire-step-") as scratch:
        step_input = _build_input(Path(file), Path(scratch), checked, values or {}, more)
        returned = _call(runnable, step_input)
        outputs = tuple(_read_output(one) for one in returned.files)
    if returned.external is not None:
        return StepRun(outputs, returned.external)
    if checked is None or returned.value is None:
        return StepRun(outputs, returned.value)
    return StepRun(outputs, decode_value(returned.value, checked.signature.returns.value_type, checked.name))


def _must(checked: CheckedStep | None) -> CheckedStep:
    assert checked is not None
    return checked


def _call(step: Step, step_input: StepInput) -> StepOutput:
    """In a thread of its own: a test may have an event loop running in this one."""
    if step.run_async is None:
        return step.run(step_input)
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, _await(step, step_input)).result()


async def _await(step: Step, step_input: StepInput) -> StepOutput:
    assert step.run_async is not None
    return await step.run_async(step_input)


def _describe_step(function: Callable[..., Any], values: Values) -> CheckedStep:
    """A step of this function alone: every other parameter is the value of a step of its name."""
    signature = read_signature(function)
    named = {one.name: one for one in signature.named}
    if unknown := values.keys() - named.keys():
        raise TypeError(f"{function.__name__} has no parameter {min(unknown)!r} to give a value to")
    missing = [one.name for one in named.values() if one.name not in values and not one.is_optional]
    if missing:
        raise TypeError(f"{function.__name__} needs a value: run_step(…, values={{{missing[0]!r}: …}})")
    return CheckedStep(
        name=function.__name__,
        place=place_of(function),
        registry_name=function.__name__,
        version=1,
        phase=function.__name__,
        options=StepOptions(unit="folder" if signature.find(Folder) else "file"),
        accepts=Accepts(),
        signature=signature,
        takes=tuple(
            TakenStep(
                parameter=one.name,
                step=KnownStep(one.name, one.annotation, {"": one.name}),
                required=not one.is_optional,
                many=False,
            )
            for one in named.values()
        ),
        function=function,
    )


def _describe_alone(step: StepName) -> KnownStep:
    if isinstance(step, str):
        return KnownStep(step, Any, {"": step})
    name = step.__name__
    return KnownStep(name, read_signature(step).returns.value_type, {"": name}, step)


def _build_input(
    source: Path, scratch: Path, checked: CheckedStep | None, values: Values, more: RunOptions
) -> StepInput:
    kinds = {} if checked is None else {one.name: one.annotation for one in checked.signature.named}
    given = {name: encode_value(value, kinds.get(name, Any), name) for name, value in values.items()}
    options = dict(more.get("options", {}))
    if not source.is_dir():
        file = _describe_file(source, more)
        return StepInput(file=file, source=source, folder=scratch, options=options, values=given, task=TOKEN)
    listed = more.get("documents") or {one.name: {} for one in source.iterdir() if one.is_file()}
    return StepInput(
        file=_describe_file(source, more),
        source=source,
        folder=scratch,
        options=options,
        values=given,
        task=TOKEN,
        members=tuple(_build_member(source / name, more, of) for name, of in sorted(listed.items())),
        earlier=tuple(
            EarlierResult(name, StepResult(value=Value(data=encode_value(value, Any, name))))
            for name, value in sorted(more.get("folders", {}).items())
        ),
        fetch=lambda file: source / file.name,
    )


def _describe_file(source: Path, more: RunOptions) -> File:
    if source.is_dir():
        path = more.get("path", "")
        return File(key=path, path=path, name=path.rpartition("/")[2], size=0, content_type="")
    path = more.get("path") or source.name
    with source.open("rb") as opened:
        head = opened.read(sniff.HEAD_BYTES)
    return File(
        key=path,
        path=path,
        name=path.rpartition("/")[2],
        size=source.stat().st_size,
        content_type=more.get("content_type") or sniff.content_type(source.name, head),
        tags=tuple(more.get("tags", ())),
        processing_config=dict(more.get("config", {})),
    )


def _build_member(source: Path, more: RunOptions, values: Mapping[StepName, Any]) -> MemberFile:
    folder = more.get("path", "")
    file = _describe_file(source, {"path": f"{folder}/{source.name}" if folder else source.name})
    known = [(_describe_alone(step), value) for step, value in values.items()]
    return MemberFile(
        key=file.key,
        path=file.path,
        name=file.name,
        size=file.size,
        content_type=file.content_type,
        values={
            step.name: Value(data=encode_value(value, step.value_type, step.name)) for step, value in known
        },
    )


def _read_output(made: OutputFile) -> Output:
    return Output(
        name=made.name or made.role,
        content_type=made.content_type,
        data=made.path.read_bytes(),
        change=made.change.value,
        tags=made.tags,
        preferred=made.preferred,
        role="" if made.role == made.name else made.role,
        facts=made.facts,
    )
