"""From what a function returned to what workers store: outputs are written into the scratch folder, the value
becomes plain data.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quire.authoring.annotations import allows_none
from quire.authoring.outputs import Output, Result, to_tags
from quire.authoring.signals import External
from quire.authoring.signatures import Returns
from quire.authoring.values import describe, encode_value, name_kind
from quire.model.errors import Reject
from quire.model.files import Change
from quire.model.step import NO_OUTPUT, OutputFile, StepOutput

OUTPUTS_FOLDER = ".outputs"  # inside the scratch folder, apart from what the step itself writes there


def build_output(returned: object, returns: Returns, folder: Path, where: str) -> StepOutput:
    """`where` names the step with its file and line. Raises Reject for what it does not say it returns."""
    if returned is None:
        if not allows_none(returns.annotation):
            raise _bad(f"{where} returned nothing, but says that it returns {describe(returns.annotation)}")
        return NO_OUTPUT
    if isinstance(returned, StepOutput):
        return returned
    if isinstance(returned, External):
        if not returns.external:
            said = describe(returns.annotation)
            raise _bad(
                f"{where} returned External, but says that it returns {said}; add External to it, as in "
                "`-> Notes | External`, so that the task can be given a token"
            )
        return StepOutput(external=returned.to_request())
    if isinstance(returned, Result):
        return StepOutput(
            files=_write_outputs(returned.outputs, folder, where),
            facts=dict(returned.facts),
            value=_encode(returned.value, returns, where),
            tags=to_tags(returned.tags),
        )
    if isinstance(returned, Output) or _are_outputs(returned, returns):
        return StepOutput(files=_write_outputs(returned, folder, where))
    return StepOutput(value=_encode(returned, returns, where))


def _are_outputs(returned: object, returns: Returns) -> bool:
    if not returns.several or not isinstance(returned, Iterable):
        return False
    if not returns.gives_value:
        return True
    return isinstance(returned, list | tuple) and all(isinstance(one, Output) for one in returned)


def _encode(value: object, returns: Returns, where: str) -> Any:
    if value is None:
        if returns.always and returns.value_type is not Any:
            raise _bad(f"{where} returned a Result without a value, but says that it gives one")
        return None
    if not returns.gives_value:
        said = describe(returns.annotation)
        raise _bad(f"{where} returned {name_kind(value)}, but says that it returns {said}")
    return encode_value(value, returns.value_type, where)


def _write_outputs(given: object, folder: Path, where: str) -> tuple[OutputFile, ...]:
    """One by one, in order: outputs that a function yields need not be in memory together."""
    outputs = (given,) if isinstance(given, Output) else given
    if not isinstance(outputs, Iterable):
        raise _bad(f"{where} returned {name_kind(given)} where outputs belong")
    written: list[OutputFile] = []
    used: set[Path] = set()
    names: set[str] = set()
    for output in outputs:
        if not isinstance(output, Output):
            raise _bad(f"{where} returned {name_kind(output)} among its outputs")
        if output.name.casefold() in names:
            raise Reject(
                f"{where} returned two outputs called {output.name!r}; give each a name of its own",
                code="name_twice",
            )
        names.add(output.name.casefold())
        path = _place(output, folder, len(written), used, where)
        if not path.stat().st_size:
            raise Reject(
                f"{where} returned the output {output.name!r}, which is empty; leave it out instead",
                code="empty_product",
            )
        used.add(path)
        written.append(
            OutputFile(
                role=output.role or output.name,
                path=path,
                content_type=output.content_type,
                facts=dict(output.facts),
                name=output.name,
                preferred=output.preferred,
                change=Change(output.change),
                tags=output.tags,
            )
        )
    return tuple(written)


def _place(output: Output, folder: Path, number: int, used: set[Path], where: str) -> Path:
    """Where the output lies: where the step wrote it, if that is the scratch folder, or a file of our own."""
    own = output.path
    if (
        own is not None
        and own.parent == folder
        and own not in used
        and own.is_file()
        and not own.is_symlink()
    ):
        return own
    target = folder / OUTPUTS_FOLDER / str(number)
    target.parent.mkdir(exist_ok=True)
    if output.path is None:
        target.write_bytes(output.data)
    elif output.path.is_file():
        shutil.copyfile(output.path, target)
    else:
        raise _bad(f"{where} returned the output {output.name!r}, but there is no file {output.path.name!r}")
    return target


def _bad(text: str) -> Reject:
    return Reject(text, code="bad_result")
