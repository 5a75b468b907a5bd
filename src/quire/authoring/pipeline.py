"""The object that people write pipelines with.

Decorators only note what they are given and hand the function back unchanged; everything is checked together
when the pipeline is loaded, by `check`, `plan` and `steps`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

from quire.authoring.adapters import build_step
from quire.authoring.checks import check_pipeline
from quire.authoring.code_digest import compute_code_digest
from quire.authoring.definitions import CheckedStep, StepDefinition
from quire.authoring.known_steps import KnownSteps
from quire.authoring.language_model import LanguageModel, Model
from quire.authoring.options import OnFailureName, UnitName, refuse_unknown
from quire.authoring.places import find_caller, place_of, shorten
from quire.authoring.plans import build_plan
from quire.model.errors import Misconfigured
from quire.model.output_rules import OutputRule
from quire.model.plan import Accepts, Pace, Plan
from quire.model.step import Step

F = TypeVar("F", bound=Callable[..., Any])


class Pipeline:
    """A name, a version and steps, which documents visit in the order in which they are written.

    Raise `version` when you change what the steps do: then results of the former version are not used again,
    unless a step has a version of its own. `queue` is told when a batch is done; `left_alone` says, by
    content type, why files of a kind are skipped on purpose. With `from_settings`, the options of its steps
    and what they accept may differ between processes, because they come from settings.
    """

    def __init__(
        self,
        name: str,
        version: int = 1,
        queue: str = "",
        *,
        left_alone: Mapping[str, str] | None = None,
        from_settings: bool = False,
    ) -> None:
        self._name = name
        self._version = version
        self._queue = queue
        self._left_alone = dict(left_alone or {})
        self._from_settings = from_settings
        self._definitions: list[StepDefinition] = []
        self._checked: tuple[CheckedStep, ...] | None = None
        self._module, self._file, self._line = find_caller(1)

    @property
    def name(self) -> str:
        return self._name

    @property
    def version(self) -> int:
        return self._version

    @property
    def module(self) -> str:
        """The name of the module in which it is written."""
        return self._module

    @property
    def file(self) -> str:
        """The file in which it is written."""
        return self._file

    @overload
    def step(self, function: F, /) -> F: ...

    @overload
    def step(
        self,
        *,
        accepts: str | Iterable[str] | Accepts = ...,
        unit: UnitName = ...,
        phase: str = ...,
        each: Mapping[str, Iterable[str]] = ...,
        version: int = ...,
        timeout: float = ...,
        retries: int = ...,
        delays: Sequence[float] = ...,
        memory_mb: int = ...,
        at_once: int = ...,
        resource: str = ...,
        on_failure: OnFailureName = ...,
        runs_on: str = ...,
        name: str = ...,
        stall: float = ...,
        page_timeout: float = ...,
        cached: bool = ...,
        sandbox: bool | Sequence[str] = ...,
        cache_by: Sequence[str] | None = ...,
        renames: Sequence[str] = ...,
        outputs: Sequence[OutputRule | Mapping[str, Any]] = ...,
        tags: Sequence[str] = ...,
        options: Mapping[str, Any] = ...,
        task_prefix: str = ...,
        pace: Pace = ...,
    ) -> Callable[[F], F]: ...

    def step(self, function: Callable[..., Any] | None = None, **given: Any) -> Any:
        """Make a function a step: `@words.step`, or `@words.step(accepts="text/plain", timeout=600)`.

        accepts:     which documents it takes: content types (`image/*`), globs of names (`*.txt`), tags
                     (`tag:page`), keys of the file's processing_config (`config:language`,
                     `config:language=en`); `!` before one refuses it. With `each`, `{agent}` stands for the
                     name of the branch: `tag:for-{agent}`
        unit:        what one task is about: a "file", a "folder" or the whole "batch"
        phase:       steps with the same phase run side by side; without it every step is a phase of its own
        each:        one parameter and its names: the step runs once for each of them, side by side
        version:     part of the key under which results are kept; the pipeline's version if not given
        timeout:     seconds for one try (120)
        retries:     further tries after a failed one (2: three tries in all); `Reject` is never tried again
        delays:      seconds before each further try; the last one counts for all that follow
        memory_mb:   how much memory a try may use (2048)
        at_once:     how many of its tasks run at the same time in one process; 0: as many as fit
        resource:    the name of a limit that several steps share
        on_failure:  "pass" (the document walks on) or "stop"; it ends as failed in both cases
        runs_on:     the name of the compute that runs it
        sandbox:     True runs it without network, other programs and files of others: for decoding what
                     strangers send, where the setting `sandbox` allows. Names of options instead of True: the
                     folders that these name may be read there

        For pipelines with special needs:

        name:        its name, if not that of the function
        stall:       seconds without a sign of `document.progress`; 0: no such limit
        page_timeout: seconds added to `timeout` for each page (or other part) after the first, as many as
                     `document.progress(0, total)` has said; up to a day in all
        cached:      False for steps whose result differs from call to call
        cache_by:    fields of the file's record that the result depends on beside the bytes; found out from
                     the function's source if not given
        renames:     extensions that its outputs may replace: see `Output`
        outputs:     rules of how its outputs are called and change the list: see `OutputRule`
        tags:        given to every document that it has worked on, for the steps after it
        options:     parameters of the function with fixed values, which are part of the plan
        task_prefix, pace: how its tasks are called, and how fast they are dispatched
        """
        refuse_unknown(given)
        if function is not None:
            if not callable(function) or isinstance(function, type):
                raise Misconfigured(
                    f"{self._called_from()}: a step's options are given by name, as in "
                    f'`@{self._name}.step(accepts="text/plain")`'
                )
            return self._add_function(function, given)
        return lambda decorated: self._add_function(decorated, given)

    def add(self, step: Step, **given: Any) -> None:
        """Use a step that exists as a value, such as one of Quire's own, with the options of `step`."""
        refuse_unknown(given)
        name = str(given.get("name") or step.name)
        definition = StepDefinition(name=name, place=self._called_from(), given=given, step=step)
        self._definitions.append(definition)
        self._checked = None

    def check(self) -> None:
        """Raises Misconfigured with everything that is wrong, each with its file and line."""
        self._check()

    def plan(self) -> Plan:
        """The pipeline as data. Raises Misconfigured like `check`."""
        checked = self._check()
        return build_plan(
            self._name,
            self._version,
            checked,
            queue=self._queue,
            left_alone=self._left_alone,
            code_digest=compute_code_digest(checked),
            from_settings=self._from_settings,
        )

    def steps(self, model: LanguageModel | None = None) -> dict[str, Step]:
        """Its steps by the names under which workers find them. `model` answers those that take a Model.
        Raises Misconfigured like `check`.
        """
        checked = self._check()
        known = KnownSteps(tuple(one.describe() for one in checked))
        return {one.registry_name: build_step(one, known, model) for one in checked}

    def asks_model(self) -> str:
        """Where the first step is written that takes a Model; empty when none does."""
        return next((one.place for one in self._check() if one.signature.find(Model)), "")

    def __repr__(self) -> str:
        return f"Pipeline({self._name!r}, version={self._version})"

    def _add_function(self, function: F, given: Mapping[str, Any]) -> F:
        name = str(given.get("name") or getattr(function, "__name__", type(function).__name__))
        definition = StepDefinition(name=name, place=place_of(function), given=given, function=function)
        self._definitions.append(definition)
        self._checked = None
        return function

    def _check(self) -> tuple[CheckedStep, ...]:
        if self._checked is None:
            place = f"{shorten(self._file)}:{self._line}"
            self._checked = check_pipeline(self._name, self._version, place, self._definitions)
        return self._checked

    def _called_from(self) -> str:
        _, file, line = find_caller(2)
        return f"{shorten(file)}:{line}"
