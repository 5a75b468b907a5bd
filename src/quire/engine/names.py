"""How results are named: a name depends on the listed inputs and on the file's own lineage, never on what
else has finished, so the same input always gives the same names.

The first name that is free is taken: the one that a step prefers (only of inputs whose extension it
replaces), then the document's name with the output's added, then that with a mark of the lineage. The input
with the longest matching name owns a name. Pure: the engine looks up which inputs are listed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from quire.ledger.flow_values import ListedInput, TaskPlace
from quire.ledger.values import Claim
from quire.model.files import Change, File, Product, fold, mark_of, sibling, stem_and_extension
from quire.model.output_rules import could_prefer
from quire.model.plan import Plan, PlanPhase, PlanStep, PlanUnit

_BREAKS = re.compile(r"[.-]")

_NO_PLAN = Plan(name="", version=0, phases=())  # marks do not depend on what others could make

Listed = Mapping[str, Sequence[ListedInput]]


class Naming:
    """The names of the outputs of one document, which has a lineage unless it is an input or a unit. A step
    is given names once: what an earlier step of the same document has taken is not free any more.
    """

    def __init__(self, plan: Plan, document: File, place: TaskPlace, *, is_unit: bool) -> None:
        self._document = document
        self._lineage = place.lineage
        self._phase = place.phase
        self._root_no = place.root_no
        self._is_unit = is_unit
        self._renaming = _renaming_steps(plan)
        self._given: set[str] = set()

    def list_rivals(self, step: PlanStep, outputs: Sequence[Product]) -> set[str]:
        """All folded paths whose existence decides about these names; a path with a slash at its end stands
        for a folder of inputs, one behind `twins:` for folders that differ from this one in case alone.
        """
        found = {fold(self._document.path)}
        if self._is_unit:
            found.add(twins_key(self._document.path))
        for output in outputs:
            for path in self._candidates(step, output):
                found.update(self._rivals_of(path))
        return found

    def name_outputs(self, step: PlanStep, outputs: Sequence[Product], listed: Listed) -> list[str]:
        """The paths of a step's outputs; two of them may be equal, which is the step's fault."""
        return [self._choose(step, ordinal, one, listed) for ordinal, one in enumerate(outputs)]

    def keep(self, paths: Iterable[str]) -> None:
        """These names belong to the document's outputs from now on."""
        self._given.update(map(fold, paths))

    def extend_lineage(self, step: PlanStep, ordinal: int) -> str:
        """The lineage of an output: the input's path, then for each generation which step made it."""
        return f"{self.describe_mark(step)}/{ordinal}"

    def describe_mark(self, step: PlanStep) -> str:
        """What the marks of a step's outputs are made of; see `mark_of`."""
        return f"{self._lineage or self._document.path}\n{step.name}"

    def is_doubled(self, listed: Listed) -> bool:
        """Whether an input that it does not come from (or another folder of inputs) has the document's own
        name, but for case.
        """
        if self._is_unit:
            return bool(listed.get(twins_key(self._document.path)))
        same = _inputs(listed, fold(self._document.path))
        return any(one.no != self._root_no for one in same)

    def _choose(self, step: PlanStep, ordinal: int, output: Product, listed: Listed) -> str:
        candidates = self._candidates(step, output)
        if not self.is_doubled(listed):
            for place, path in enumerate(candidates):
                whole = place == len(candidates) - 1 and not self._is_unit
                free = self._is_free_whole if whole else self._is_free_preferred
                if free(path, listed) and not self._is_made(path, listed):
                    return path
        return self._mark(step, ordinal, output)

    def _candidates(self, step: PlanStep, output: Product) -> list[str]:
        name = output.name or output.role
        if self._is_unit:
            folder = self._document.path
            return [f"{folder}/{name}" if folder else name]
        whole = f"{self._document.path}.{name}"
        if output.preferred and self._may_rename(step, output):
            return [sibling(self._document.path, output.preferred), whole]
        return [whole]

    def _may_rename(self, step: PlanStep, output: Product) -> bool:
        """Only inputs, and only to a name that begins with their own."""
        stem, extension = stem_and_extension(self._document.name)
        made = self._lineage not in {"", self._document.path}  # with new tags an input is still that input
        if made or extension.lower() not in step.renames:
            return False
        if fold(output.preferred) == fold(self._document.name):
            return output.change is Change.REPLACE
        return fold(output.preferred).startswith((f"{fold(stem)}.", f"{fold(stem)}-"))

    def _mark(self, step: PlanStep, ordinal: int, output: Product) -> str:
        mark = mark_of(self.describe_mark(step), ordinal)
        name = output.name or output.role
        if self._is_unit:
            return sibling(self._candidates(step, output)[0], f"{mark}.{name}")
        return f"{self._document.path}.{mark}.{name}"

    def _is_made(self, path: str, listed: Listed) -> bool:
        """Whether an earlier step of this document (or folder) has made a file of this name."""
        folded = fold(path)
        if folded in self._given:
            return True
        made = (one for one in listed.get(folded, ()) if 0 < one.born < self._phase)
        # An input with new tags is a row of its own, and is not made.
        return any(
            self._is_unit or (one.root_no == self._root_no and one.file.path != self._document.path)
            for one in made
        )

    def _is_free_whole(self, path: str, listed: Listed) -> bool:
        """The document's own name was its own already: only longer ones matter."""
        folded = fold(path)
        own = len(fold(self._document.path))
        longer = (prefix for prefix in _prefixes(folded, ".") if len(prefix) > own)
        return not any(_inputs(listed, one) for one in (folded, f"{folded}/", *longer))

    def _is_free_preferred(self, path: str, listed: Listed) -> bool:
        folded = fold(path)
        for one in (folded, f"{folded}/", *_prefixes(folded)):
            if any(other.file.path != self._document.path for other in _inputs(listed, one)):
                return False
        name = folded.rpartition("/")[2]
        return not any(
            self._could_rename(other.file, extension, name)
            for prefix in (*_prefixes(folded), folded)
            for extension in self._renaming
            for other in _inputs(listed, prefix + extension)
            if other.file.path != self._document.path
        )

    def _could_rename(self, file: File, extension: str, folded_name: str) -> bool:
        """By the file's name alone: its bytes may not have been looked at yet."""
        return any(
            step.accepts.may_take(file.name) and could_prefer(step.outputs, file, folded_name)
            for step in self._renaming[extension]
        )

    def _rivals_of(self, path: str) -> Iterator[str]:
        folded = fold(path)
        yield folded
        yield f"{folded}/"
        for prefix in _prefixes(folded):
            yield prefix
            yield from (prefix + extension for extension in self._renaming)
        yield from (folded + extension for extension in self._renaming)


def add_mark(phase: PlanPhase, claim: Claim, listed: Listed) -> Claim:
    """The claim, whose document tells how the outputs of its step will be marked, if they will all be."""
    if claim.place is None:
        return claim
    file = claim.order.file
    naming = Naming(_NO_PLAN, file, claim.place, is_unit=phase.waits)
    if not naming.is_doubled(listed):
        return claim
    marked = structs.replace(file, marked=naming.describe_mark(phase.steps[claim.place.branch]))
    return structs.replace(claim, order=structs.replace(claim.order, file=marked))


def twins_key(folder: str) -> str:
    return f"twins:{folder}"


def _inputs(listed: Listed, folded: str) -> list[ListedInput]:
    return [one for one in listed.get(folded, ()) if one.born == 0]


def find_doubled(paths: Iterable[str]) -> str | None:
    """A path that two outputs of one task would have."""
    seen: set[str] = set()
    for path in paths:
        if fold(path) in seen:
            return path
        seen.add(fold(path))
    return None


def _prefixes(folded: str, breaks: str = ".-") -> Iterator[str]:
    """What of the name stands before each dot (or hyphen), with the folder."""
    start = folded.rfind("/") + 1
    for found in _BREAKS.finditer(folded, start + 1):
        if found.group() in breaks:
            yield folded[: found.start()]


def _renaming_steps(plan: Plan) -> dict[str, list[PlanStep]]:
    """By extension: the steps on files whose outputs replace it."""
    found: dict[str, list[PlanStep]] = {}
    for phase in plan.phases:
        for step in phase.steps if phase.unit is PlanUnit.FILE else ():
            for extension in step.renames:
                found.setdefault(extension, []).append(step)
    return found
