"""What a batch is carried through: a plan is the data of a pipeline, without any code of its steps.

A plan says which documents each step takes, how results change the file list, which values go from step to
step, and within which limits a step runs. It is stored with the batch, and its digest says whether two
processes mean the same pipeline. Everything here is a value; the rules are functions of values.
"""

import hashlib
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from quire.model.files import File
from quire.model.output_rules import OutputRule
from quire.model.work import StepCall

MACHINES = ("process", "fly")  # computes that start a process or a machine for each task

_encoder = msgspec.json.Encoder(order="deterministic")


class PlanUnit(StrEnum):
    """What one task of a phase is about."""

    FILE = "file"
    FOLDER = "folder"  # the documents of one folder; waits for them and for the folders right below
    BATCH = "batch"  # all documents; waits for all of them


class OnFailure(StrEnum):
    """What becomes of a document whose step has failed for good. It ends as failed in both cases."""

    PASS = "pass"  # noqa: S105 - it walks on unchanged
    STOP = "stop"  # it visits no further phase


class Accepts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which documents a step takes: one of `kinds` (content types, or globs of the name; none: every kind),
    all of `needs`, none of `refuses`.

    A content type may end in `/*`. A need is `tag:NAME`, `config:KEY` (the file's `processing_config` has it)
    or `config:KEY=VALUE`; a refusal is any of these. Case does not count in types and names.
    """

    kinds: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    refuses: tuple[str, ...] = ()

    @property
    def everything(self) -> bool:
        return not (self.kinds or self.needs or self.refuses)

    def matches(self, file: File) -> bool:
        kinds, needs, refuses = self.kinds, self.needs, self.refuses
        if not (kinds or needs or refuses):
            return True
        return (
            (not kinds or any(_matches(pattern, file) for pattern in kinds))
            and all(_matches(pattern, file) for pattern in needs)
            and not any(_matches(pattern, file) for pattern in refuses)
        )

    def may_take(self, name: str) -> bool:
        """Whether it could take a file of this name, of which nothing else is known yet."""
        return (
            not self.kinds or any("/" in pattern or _matches_name(pattern, name) for pattern in self.kinds)
        ) and not any(_is_glob(pattern) and _matches_name(pattern, name) for pattern in self.refuses)


def parse_accepts(patterns: str | tuple[str, ...] | list[str] = ()) -> Accepts:
    """From what people write: patterns as above, `!` before a refusal."""
    kinds: list[str] = []
    needs: list[str] = []
    refuses: list[str] = []
    for pattern in (patterns,) if isinstance(patterns, str) else patterns:
        if pattern.startswith("!"):
            refuses.append(pattern[1:])
        elif pattern.startswith(("tag:", "config:")):
            needs.append(pattern)
        else:
            kinds.append(pattern)
    return Accepts(kinds=tuple(kinds), needs=tuple(needs), refuses=tuple(refuses))


def _matches(pattern: str, file: File) -> bool:
    if pattern.startswith("tag:"):
        return pattern[4:] in file.tags
    if pattern.startswith("config:"):
        key, equals, value = pattern[7:].partition("=")
        found = file.processing_config.get(key)
        return str(found) == value if equals else found is not None
    if "/" in pattern:
        kind = file.content_type.partition(";")[0].strip().lower()
        wanted = pattern.lower()
        return kind.startswith(wanted[:-1]) if wanted.endswith("/*") else kind == wanted
    return _matches_name(pattern, file.name)


def _is_glob(pattern: str) -> bool:
    return "/" not in pattern and not pattern.startswith(("tag:", "config:"))


def _matches_name(pattern: str, name: str) -> bool:
    return fnmatchcase(name.lower(), pattern.lower())


class TakenValue(Struct, frozen=True, omit_defaults=True):
    """The value of an earlier step that a step is given. `steps` has one name, or the names of all branches
    of a step that ran once for each of several names.
    """

    parameter: str
    steps: tuple[str, ...]
    required: bool = True


class PlanStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step in a phase.

    name:      what its results are called in the batch: the step's name, with `each` also that of the branch
    step:      its name in the registry of steps
    renames:   extensions that its outputs replace (`a.tif` → `a.jpg`); other outputs add to the whole name
    outputs:   how its outputs are called and change the list, for those that do not say it themselves
    tags:      given to every document that it has worked on
    cache_by:  fields of the file's record (beside its bytes) that the result depends on; of a table one key
               will do: `processing_config.pdf_pages`
    delays:    seconds before the second, third … try; empty: the configured delays
    at_once:   how many of its tasks run at the same time in one process; 0: as many as there is room for
    resource:  the name of a shared limit
    external:  somebody outside may complete its tasks
    page_seconds: added to the timeout for each page after the first that the step says it has
    """

    name: str
    step: str
    version: int
    branch: str = ""
    accepts: Accepts = Accepts()
    options: dict[str, Any] = field(default_factory=dict)
    takes: tuple[TakenValue, ...] = ()
    gives_value: bool = False
    on_failure: OnFailure = OnFailure.PASS
    timeout_seconds: float = 120.0
    stall_seconds: float = 0.0
    page_seconds: float = 0.0
    memory_mb: int = 2048
    max_attempts: int = 3
    delays: tuple[float, ...] = ()
    at_once: int = 0
    resource: str = ""
    asynchronous: bool = False
    external: bool = False
    cached: bool = True
    cache_by: tuple[str, ...] = ()
    renames: tuple[str, ...] = ()
    outputs: tuple[OutputRule, ...] = ()
    tags: tuple[str, ...] = ()
    compute: str = ""


class Pace(Struct, frozen=True, kw_only=True):
    """How fast a phase dispatches tasks, for compute that must not be flooded. 0: no delay."""

    first_seconds: float = 0.0  # from the beginning (of the batch, if it flows) to the phase's first dispatch
    between_seconds: float = 0.0  # from one dispatch to the next
    at_once: int = 0  # orders per dispatch; 0: as many as compute has room for


class PlanPhase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Steps side by side on one document, folder or batch."""

    name: str
    steps: tuple[PlanStep, ...]
    unit: PlanUnit = PlanUnit.FILE
    task_prefix: str = ""
    pace: Pace = Pace()

    @property
    def waits(self) -> bool:
        """Whether its tasks wait for other documents."""
        return self.unit is not PlanUnit.FILE

    def call(self, step: PlanStep) -> StepCall:
        return StepCall(
            step=step.step,
            version=step.version,
            options=step.options,
            timeout_seconds=step.timeout_seconds,
            stall_seconds=step.stall_seconds,
            page_seconds=step.page_seconds,
            memory_mb=step.memory_mb,
            unit=self.unit.value,
            compute=step.compute,
            # On a machine of its own a coroutine is alone: there is no room among others.
            asynchronous=step.asynchronous and step.compute not in MACHINES,
            at_once=step.at_once,
            resource=step.resource,
        )


def tell_failure(phase: PlanPhase, branch: int, reason: str) -> str:
    """Why a document failed in a phase: with the name of the step where several run side by side."""
    return f"{phase.steps[branch].name}: {reason}" if len(phase.steps) > 1 else reason


class Plan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pipeline as data. `left_alone`: by content type, why files of a kind that the pipeline could process
    are skipped, and what to do about it. `code_digest` tells whether the code behind the steps is the same;
    it is no part of the plan's own digest. `from_settings`: options and `accepts` follow the settings of a
    process; a batch keeps what its steps accept, and its steps get the options of the process that runs them.
    """

    name: str
    version: int
    phases: tuple[PlanPhase, ...]
    queue: str = ""
    left_alone: dict[str, str] = field(default_factory=dict)
    code_digest: str = ""
    from_settings: bool = False


def encode_plan(plan: Plan) -> str:
    return _encoder.encode(plan).decode()


def decode_plan(data: str) -> Plan:
    """Raises msgspec.ValidationError for anything else."""
    return msgspec.json.decode(data, type=Plan)


def digest_of(plan: Plan) -> str:
    """Equal for plans that treat every document alike. Limits and places may differ between processes, and
    so may everything else that is a setting.
    """
    rules = [
        [phase.name, phase.unit, [_rules_of(step, plan.from_settings) for step in phase.steps]]
        for phase in plan.phases
    ]
    return hashlib.sha256(_encoder.encode([plan.name, plan.version, rules])).hexdigest()


def digest_with_options(plan: Plan) -> str:
    """Equal for plans of processes with the same settings."""
    return digest_of(structs.replace(plan, from_settings=False))


def keep_accepted(plan: Plan, stored: Plan) -> Plan:
    """The plan of a process for a batch: what its steps accept is as stored with the batch."""
    pairs = list(zip(plan.phases, stored.phases, strict=True))
    if all(_accepted(one) == _accepted(other) for one, other in pairs):
        return plan
    phases = (
        structs.replace(
            one,
            steps=tuple(
                structs.replace(step, accepts=kept.accepts)
                for step, kept in zip(one.steps, other.steps, strict=True)
            ),
        )
        for one, other in pairs
    )
    return structs.replace(plan, phases=tuple(phases))


def _accepted(phase: PlanPhase) -> list[Accepts]:
    return [step.accepts for step in phase.steps]


def _rules_of(step: PlanStep, from_settings: bool) -> list[Any]:
    chosen = () if from_settings else (step.accepts, step.options, step.cached)
    return [
        *(step.name, step.step, step.version, *chosen, step.takes, step.on_failure),
        *(step.cache_by, step.renames, step.outputs, step.tags),
    ]
