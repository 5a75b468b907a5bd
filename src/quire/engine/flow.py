"""The rules of documents that move on by themselves, as pure functions: which tasks come next, and what the
results of a phase do to a document, its list and its input.

Nothing here reads or writes. The engine brings the claim and the report; the ledger applies the effects in
the transaction that settles.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from quire.engine.names import Listed, Naming, find_doubled
from quire.ledger.flow_rows import failure_place
from quire.ledger.flow_values import BranchResult, Effects, Follower, NewDocument, RootFailure, TaskPlace
from quire.model.batch import TaskState
from quire.model.files import Change, File, Product
from quire.model.output_rules import apply_rules
from quire.model.plan import OnFailure, Plan, PlanPhase, PlanStep, PlanUnit, tell_failure
from quire.model.work import StepResult, Value

_encoder = msgspec.msgpack.Encoder()
_values_decoder = msgspec.msgpack.Decoder(dict[str, Value])

KEPT_ROLE = "kept"  # of a document's row with other tags


def find_next(plan: Plan, file: File, after: int) -> tuple[int, tuple[int, ...]] | None:
    """The first phase after this one with steps that take the document, and which of its steps."""
    phases = plan.phases
    for number in range(after, len(phases)):
        phase = phases[number]
        if phase.unit is PlanUnit.FILE and (branches := accepting(phase, file)):
            return number + 1, branches
    return None


def accepting(phase: PlanPhase, file: File) -> tuple[int, ...]:
    """Which steps of a phase take the document."""
    steps = phase.steps
    if len(steps) == 1:  # most phases; asked for every task
        return (0,) if steps[0].accepts.matches(file) else ()
    return tuple(place for place, step in enumerate(steps) if step.accepts.matches(file))


def follow(
    plan: Plan, file: File, number: int, after: int, *, tries: int = 0, given: bytes | None = None
) -> Follower | None:
    """The next tasks of a document; None: its walk has ended."""
    following = find_next(plan, file, after)
    return None if following is None else Follower(*following, number, tries, given)


def next_waiting_phase(plan: Plan, after: int) -> int | None:
    """The first phase after this one that is about folders or the batch."""
    return next((no for no in range(after + 1, len(plan.phases) + 1) if plan.phases[no - 1].waits), None)


def decode_values(given: bytes | None) -> dict[str, Value]:
    return {} if given is None else _values_decoder.decode(given)


def encode_values(values: Mapping[str, Value]) -> bytes | None:
    return _encoder.encode(dict(values)) if values else None


def select_values(step: PlanStep, given: bytes | None) -> tuple[dict[str, Value], str | None]:
    """The values that a step takes, and the name of one that it needs and that is missing."""
    if not step.takes:
        return {}, None
    known = decode_values(given)
    wanted: dict[str, Value] = {}
    for taken in step.takes:
        there = {name: known[name] for name in taken.steps if name in known}
        if taken.required and not there:
            return {}, taken.steps[0] if len(taken.steps) == 1 else taken.parameter
        wanted |= there
    return wanted, None


class Doubt(Struct, frozen=True, gc=False):
    """A result that cannot be applied: its task fails with this instead."""

    branch: int
    error_class: str
    error: str


class Settled(Struct, frozen=True, gc=False):
    """A document in a phase, and how the steps that took it have ended, in the order of the steps."""

    place: TaskPlace
    file: File
    branches: tuple[BranchResult, ...]


def list_rivals(plan: Plan, settled: Settled) -> set[str]:
    """The folded paths whose existence among the inputs decides how the results are named."""
    naming, phase = _naming(plan, settled), plan.phases[settled.place.phase - 1]
    found: set[str] = set()
    for one in settled.branches:
        if one.state is TaskState.DONE and one.result.products:
            step = phase.steps[one.branch]
            found |= naming.list_rivals(step, list_outputs(step, settled.file, one.result))
    return found


def plan_effects(plan: Plan, settled: Settled, listed: Listed) -> tuple[Effects, list[Doubt]]:
    """What a phase does to a document when all of its steps there have settled, and which of their results
    cannot be applied: two outputs of one name, a second replacement of the document.
    """
    folding = _Folding(plan, settled)
    for one in settled.branches:
        if one.state is TaskState.DONE:
            folding.add_result(one, listed)
    return folding.build(), folding.doubts


def pass_on(plan: Plan, place: TaskPlace, file: File, tries: int) -> Effects:
    """The same for the only step of a phase that took the document and gave nothing but its success: most
    tasks, and a fifth of the cost.
    """
    tries += place.tries
    following = find_next(plan, file, place.phase)
    if following is None:
        return Effects(phase=place.phase, root_no=place.root_no, parent_no=place.file_no, tries=tries)
    return Effects(
        phase=place.phase,
        root_no=place.root_no,
        parent_no=place.file_no,
        followers=(Follower(*following, place.file_no, tries),),
        walking=1,
    )


class _Folding:
    """Puts the results of a phase's steps together, in the order of the steps."""

    def __init__(self, plan: Plan, settled: Settled) -> None:
        self._plan = plan
        self._settled = settled
        self._phase = plan.phases[settled.place.phase - 1]
        self._naming = _naming(plan, settled)
        self._values = decode_values(settled.place.given)
        self._new: list[NewDocument] = []
        # The places of new documents that may walk on, counted from 1: in their own right, or in that of the
        # document that they replace.
        self._joined: list[int] = []
        self._replacing: list[int] = []
        self._replaced_by = ""
        self._tags = settled.file.tags
        self.doubts: list[Doubt] = []

    def add_result(self, one: BranchResult, listed: Listed) -> None:
        step, result = self._phase.steps[one.branch], one.result
        outputs = list_outputs(step, self._settled.file, result)
        paths = self._naming.name_outputs(step, outputs, listed)
        replaces = any(made.change is Change.REPLACE for made in outputs)
        if (doubled := find_doubled(paths)) is not None:
            self._doubt(one, "name_twice", f"two outputs of {step.name} are called {doubled!r}")
            return
        if replaces and self._replaced_by:
            words = f"{self._replaced_by} has replaced the document already, so {step.name} cannot"
            self._doubt(one, "two_replacements", words)
            return
        self._naming.keep(paths)
        self._replaced_by = self._replaced_by or (step.name if replaces else "")
        if result.value is not None:
            self._values[step.name] = result.value
        for tag in (*result.tags, *step.tags):
            self._tags = self._tags if tag in self._tags else (*self._tags, tag)
        for at, (made, path) in enumerate(zip(outputs, paths, strict=True)):
            lineage = self._naming.extend_lineage(step, at)
            self._new.append(_new_document(made, path, self._settled.file, lineage))
            if made.change is Change.JOIN or (made.change is Change.REPLACE and self._phase.waits):
                self._joined.append(len(self._new))
            elif made.change is Change.REPLACE:
                self._replacing.append(len(self._new))

    def build(self) -> Effects:
        place, is_unit = self._settled.place, self._phase.waits
        given = encode_values(_wanted_later(self._plan, place.phase, self._values))
        retagged = self._tags != self._settled.file.tags and not self._replaced_by and not is_unit
        own = None if self._replaced_by or is_unit else self._follow_own(given, retagged=retagged)
        walkers = self._joined if self._stops() else sorted((*self._joined, *self._replacing))
        others = [follow(self._plan, self._new[at - 1].file, -at, place.phase, given=given) for at in walkers]
        followers = [one for one in (own, *others) if one is not None]
        tries = place.tries + sum(one.tries for one in self._settled.branches)
        if followers:
            # The tries so far travel with one of them, so that they are counted once.
            followers[0] = msgspec.structs.replace(followers[0], tries=tries)
        return Effects(
            phase=place.phase,
            root_no=place.root_no,
            parent_no=place.file_no,
            new_files=tuple(self._new),
            leaves=bool(self._replaced_by or retagged) and not is_unit,
            followers=tuple(followers),
            walking=len(followers),
            tries=0 if followers else tries,
            failure=self._first_failure(),
            of_unit=is_unit,
        )

    def _follow_own(self, given: bytes | None, *, retagged: bool) -> Follower | None:
        """The document itself walks on, with new tags as a new row, unless a failed step stops it."""
        place, file, number = self._settled.place, self._settled.file, self._settled.place.file_no
        if retagged:
            file = msgspec.structs.replace(file, tags=self._tags)
            self._new.append(NewDocument(file, KEPT_ROLE, True, place.lineage or file.path))
            number = -len(self._new)
        return None if self._stops() else follow(self._plan, file, number, place.phase, given=given)

    def _stops(self) -> bool:
        return any(self._phase.steps[at].on_failure is OnFailure.STOP for at in self._failed())

    def _first_failure(self) -> RootFailure | None:
        failed = self._failed()
        if not failed:
            return None
        at = min(failed)
        error_class, error = failed[at]
        place = failure_place(self._settled.place.phase, self._settled.file.path, at)
        return RootFailure(place, error_class, tell_failure(self._phase, at, error))

    def _failed(self) -> dict[int, tuple[str, str]]:
        """By branch: error class and reason."""
        told = {
            one.branch: (one.error_class, one.error)
            for one in self._settled.branches
            if one.state is not TaskState.DONE
        }
        return told | {doubt.branch: (doubt.error_class, doubt.error) for doubt in self.doubts}

    def _doubt(self, one: BranchResult, error_class: str, error: str) -> None:
        self.doubts.append(Doubt(one.branch, error_class, error))


def list_outputs(step: PlanStep, document: File, result: StepResult) -> Sequence[Product]:
    """The files that a result adds to the batch, as the pipeline's rules for the step want them."""
    if not step.outputs:
        return result.products
    wanted = (apply_rules(step.outputs, document, made) for made in result.products)
    return [made for made in wanted if made is not None]


def _naming(plan: Plan, settled: Settled) -> Naming:
    is_unit = plan.phases[settled.place.phase - 1].waits
    return Naming(plan, settled.file, settled.place, is_unit=is_unit)


def _new_document(made: Product, path: str, source: File, lineage: str) -> NewDocument:
    file = File(
        key=made.key,
        path=path,
        name=path.rpartition("/")[2],
        size=made.size,
        content_type=made.content_type,
        digest=made.digest,
        cid=made.facts.get("cid"),
        source_file=source.name,
        tags=made.tags,
        processing_config=source.processing_config,
    )
    return NewDocument(file, made.role, made.change is not Change.HANG, lineage)


def _wanted_later(plan: Plan, after: int, values: Mapping[str, Value]) -> dict[str, Value]:
    """Those that a step of a later phase takes: the others need not travel."""
    if not values:
        return {}
    wanted = {
        name
        for phase in plan.phases[after:]
        for step in phase.steps
        for taken in step.takes
        for name in taken.steps
    }
    return {name: value for name, value in values.items() if name in wanted}
