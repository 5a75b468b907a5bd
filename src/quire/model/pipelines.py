"""The pipelines that a process has: by name the default version, by name and version each of them.

Promise: a batch is given the pipeline that it was submitted to, or an error that says what is missing here.
Pipelines are loaded when one is asked for. Must not know: where they are loaded from.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TypeAlias

import msgspec

from quire.model.batch import Batch
from quire.model.errors import Misconfigured
from quire.model.files import File
from quire.model.plan import Plan, PlanPhase, decode_plan, digest_of, keep_accepted

Load: TypeAlias = Callable[[], Iterable[Plan]]


def _load_nothing() -> Iterable[Plan]:
    return ()


class Pipelines(Mapping[str, Plan]):
    """`built_in` come with Quire, `own` from settings and installed packages: own code is not loaded for a
    batch of a built-in pipeline. Of several versions of a name the first one given is the default.
    """

    def __init__(self, built_in: Load = _load_nothing, own: Load = _load_nothing) -> None:
        self._load_built_in = built_in
        self._load_own = own

    @cached_property
    def _built_in(self) -> Mapping[str, tuple[Plan, ...]]:
        return _group_by_name(self._load_built_in())

    @cached_property
    def _own(self) -> Mapping[str, tuple[Plan, ...]]:
        return _group_by_name(self._load_own())

    def __getitem__(self, name: str) -> Plan:
        return self.versions(name)[0]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._built_in, *self._own)))

    def __len__(self) -> int:
        return len(self._built_in.keys() | self._own.keys())

    def versions(self, name: str) -> tuple[Plan, ...]:
        """All versions of one name, the default first. Raises KeyError for an unknown name."""
        return self._built_in.get(name) or self._own[name]

    def find(self, name: str, version: int) -> Plan | None:
        found = self._built_in.get(name) or self._own.get(name, ())
        return next((one for one in found if one.version == version), None)

    def every(self) -> Sequence[Plan]:
        """All versions of all names."""
        return [one for name in self for one in self.versions(name)]

    def of(self, batch: Batch) -> Plan:
        """The pipeline that this batch was submitted to, with the limits of this process. Raises
        Misconfigured when this process has another one, or none.
        """
        found = self.find(batch.pipeline, batch.pipeline_version)
        if found is None:
            raise Misconfigured(f"batch {batch.id}: {self._explain_missing(batch)}", code="unknown_pipeline")
        if is_other_plan(found, batch):
            raise Misconfigured(
                f"batch {batch.id} was submitted to another pipeline {batch.pipeline} version "
                f"{batch.pipeline_version} than the one here: its steps or their rules have changed, and its "
                f"version has not; raise the version, and keep the former file for this batch: "
                f'pipelines = ["{batch.pipeline}@{batch.pipeline_version}=FILE"]',
                code="other_plan",
            )
        stored = stored_plan(batch)
        if found.from_settings and stored is not None:
            return keep_accepted(found, stored)
        return found

    def why_left_alone(self, batch: Batch) -> str | None:
        """Why this process must not work on a batch; None: it may."""
        try:
            self.of(batch)
        except Misconfigured as error:
            return str(error)
        return None

    def _explain_missing(self, batch: Batch) -> str:
        name, version = batch.pipeline, batch.pipeline_version
        here = self._built_in.get(name) or self._own.get(name, ())
        wanted = f"there is no pipeline {name} version {version} here"
        if here:
            others = ", ".join(str(one.version) for one in here)
            return (
                f"{wanted}, only version {others}; use the version that submitted it, or keep it beside the "
                f'other: pipelines = ["{name}@{version}=FILE"]'
            )
        return f"{wanted}; add it to the setting `pipelines`, or install the package that brings it"


def to_pipelines(given: Mapping[str, Plan]) -> Pipelines:
    """The pipelines of a plain mapping; those themselves when they are it already."""
    if isinstance(given, Pipelines):
        return given
    return Pipelines(given.values)


def list_computes(pipelines: Pipelines) -> set[str]:
    """The names of the computes that any step runs on."""
    return {step.compute for one in pipelines.every() for phase in one.phases for step in phase.steps}


def may_wait_for_answers(pipelines: Pipelines) -> bool:
    """Whether any step may leave its tasks to somebody outside."""
    return any(step.external for one in pipelines.every() for phase in one.phases for step in phase.steps)


def stored_plan(batch: Batch) -> Plan | None:
    """The plan that is stored with the batch, which needs no code; None for a batch that has none."""
    return _read_plan(batch.plan)[0]


def name_step(batch: Batch, phase: str, branch: int) -> str:
    """Which step of a phase a task runs: `asset.blurb`. The phase itself where each has one step."""
    plan = stored_plan(batch)
    found = None if plan is None else next((one for one in plan.phases if one.name == phase), None)
    if found is None or branch >= len(found.steps):
        return phase
    return found.steps[branch].name


def is_other_plan(pipeline: Plan, batch: Batch) -> bool:
    """Whether a pipeline treats documents in another way than the one of the batch, despite its version."""
    plan, digest = _read_plan(batch.plan)
    return plan is not None and digest != digest_of(pipeline)  # one without a plan is adopted


def has_other_code(pipeline: Plan, batch: Batch) -> bool:
    """Whether the code of the steps differs from that of the process that submitted the batch."""
    plan, _ = _read_plan(batch.plan)
    if plan is None or not plan.code_digest:
        return False
    return plan.code_digest != pipeline.code_digest


@lru_cache(maxsize=64)
def _read_plan(text: str) -> tuple[Plan | None, str]:
    """The plan and its digest. Cached: a scheduler asks at every move of a batch."""
    try:
        plan = decode_plan(text)
    except msgspec.MsgspecError:
        return None, ""
    return plan, digest_of(plan)


def first_phase(pipeline: Plan, file: File) -> PlanPhase | None:
    """The first phase that takes an input file by itself."""
    return next(
        (
            phase
            for phase in pipeline.phases
            if not phase.waits and any(step.accepts.matches(file) for step in phase.steps)
        ),
        None,
    )


def _group_by_name(pipelines: Iterable[Plan]) -> dict[str, tuple[Plan, ...]]:
    found: dict[str, tuple[Plan, ...]] = {}
    for one in pipelines:
        found[one.name] = (*found.get(one.name, ()), one)
    return found
