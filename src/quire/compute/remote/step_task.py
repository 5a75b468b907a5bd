"""A task of a step that people have written, as its machine sees it: the environment of one process, and what
the step is given.

Promise: nothing here refers to code. The machine has the pipeline of its own settings, and compares it with
the name, the version and the digests that it is told. Must not know: how the machine loads it.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from quire.model.errors import Misconfigured
from quire.model.files import File
from quire.model.work import EarlierResult

PIPELINE = "TASK_PIPELINE"
MAX_INPUT_BYTES = 8 << 20
MAX_UNIT_BYTES = 64 << 20  # of a task about a folder or the batch: it has a URL for each document
_LONGEST_NUMBER = 9  # digits
_REQUIRED = {
    "task_id": "TASK_ID",
    "batch_id": "BATCH_ID",
    "pipeline": PIPELINE,
    "plan_digest": "TASK_PLAN_DIGEST",
    "step": "QUIRE_STEP",
    "details_url": "TASK_DETAILS_URL",
    "input_url": "INPUT_URL",
    "callback_url": "CALLBACK_URL",
    "more_url": "MORE_OUTPUTS_URL",
    "result_url": "OUTPUT_URL_RESULT",
}
_NUMBERS = {
    "pipeline_version": "TASK_PIPELINE_VERSION",
    "step_version": "TASK_STEP_VERSION",
    "memory_mb": "QUIRE_MEMORY_MB",
}
_Size = Annotated[int, Meta(ge=0)]


class GivenValue(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value of an earlier step: in `data`, or a large one at `url`, with its digest."""

    data: Any = None
    url: str = ""
    size: _Size = 0
    digest: str = ""


class StepTaskDetails(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the step is given beside the bytes: too much for an environment. `options` name the branch.

    A step about a folder or the batch has the list of its documents as its input; `urls` says by key where
    these documents and their large values are, and `earlier` has the values of the folders below. `task` is
    the token by which somebody outside may complete the task.
    """

    file: File
    options: dict[str, Any] = field(default_factory=dict)
    values: dict[str, GivenValue] = field(default_factory=dict)
    unit: str = "file"
    earlier: tuple[EarlierResult, ...] = ()
    urls: dict[str, str] = field(default_factory=dict)
    task: str = ""

    @property
    def is_unit(self) -> bool:
        """Is the task about several documents?"""
        return self.unit != "file"


class StepTask(Struct, frozen=True, kw_only=True):
    """`code_digest` empty: nobody asks whether the code of the steps is the same."""

    task_id: str
    batch_id: str
    pipeline: str
    pipeline_version: int
    plan_digest: str
    step: str
    step_version: int
    details_url: str
    input_url: str
    callback_url: str
    more_url: str
    result_url: str
    memory_mb: int
    code_digest: str = ""

    def to_environment(self) -> dict[str, str]:
        """What `read_step_task` reads."""
        named = {**_REQUIRED, **_NUMBERS}
        variables = {variable: str(getattr(self, name)) for name, variable in named.items()}
        return variables | {"TASK_CODE_DIGEST": self.code_digest}


def is_step_task(environment: Mapping[str, str]) -> bool:
    """Is this the environment of a step that people have written?"""
    return bool(environment.get(PIPELINE))


def read_step_task(environment: Mapping[str, str]) -> StepTask:
    """Raises one Misconfigured that names all that is missing or wrong."""
    named = {**_REQUIRED, **_NUMBERS}
    problems = [f"{variable} is not set" for variable in named.values() if not environment.get(variable)]
    numbers = {name: environment.get(variable, "") for name, variable in _NUMBERS.items()}
    for name, text in numbers.items():
        if text and not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER):
            problems.append(f"{_NUMBERS[name]} is not a number")
    if problems:
        listed = "; ".join(problems)
        raise Misconfigured(f"the environment is not that of a task: {listed}", code="bad_task")
    fields: dict[str, Any] = {name: environment[variable] for name, variable in _REQUIRED.items()}
    fields |= {name: int(text) for name, text in numbers.items()}
    return StepTask(**fields, code_digest=environment.get("TASK_CODE_DIGEST", ""))
