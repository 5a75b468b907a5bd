"""The plain model: a plan over a list of files, phase by phase, in one thread.

It says what must come of a batch: its files with their names, the end of every input, and the order of every
list. Nothing is running beside anything else here, and nothing goes wrong but what the steps say.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs

from quire.model.files import Change, File, Product
from quire.model.plan import OnFailure, Plan, PlanPhase, PlanStep, PlanUnit
from quire.model.work import EarlierResult, MemberFile, StepResult, Value
from tests.simulation.flow.endings import Ending, Failure, InputEnd, Row, RunStep, TaskEnd, Work
from tests.simulation.flow.naming import Lineage, Namer, ancestors_of, fold, folder_path

# Failures that steps report with a reason of their own.
REPORTED = frozenset({"rejected", "erred", "crashed", "timed_out", "out_of_memory"})


def run_plan(plan: Plan, inputs: Sequence[File], run_step: RunStep) -> Ending:
    return _Batch(plan, inputs, run_step).run()


class _Batch:
    def __init__(self, plan: Plan, inputs: Sequence[File], run_step: RunStep) -> None:
        self._plan = plan
        self._inputs = inputs
        self._run_step = run_step
        self._namer = Namer(inputs, plan)
        self._rows = [Row(file=file, root=file.path, lineage=(file.path,)) for file in inputs]
        self._tasks: list[TaskEnd] = []
        self._unit_values: dict[tuple[PlanUnit, str], dict[str, Value]] = {}
        self._unit_names: dict[str, set[str]] = {}  # folder → folded names that its tasks have given

    def run(self) -> Ending:
        for number, phase in enumerate(self._plan.phases, start=1):
            if phase.unit is PlanUnit.FILE:
                for row in [row for row in self._rows if row.walks and row.gone is None]:
                    self._visit(row, number, phase)
            else:
                self._visit_units(number, phase)
        tasks = tuple(sorted(self._tasks, key=lambda task: (task.phase, task.path, task.branch)))
        live = [row for row in self._rows if row.gone is None]
        return Ending(
            files=tuple(sorted(live, key=lambda row: (folder_path(row.path), row.path))),
            inputs=tuple(
                self._end_of(file, tasks) for file in sorted(self._inputs, key=lambda file: file.path)
            ),
            tasks=tasks,
        )

    def _end_of(self, file: File, tasks: Sequence[TaskEnd]) -> InputEnd:
        own = [task for task in tasks if file.path in task.about]
        # A row that only got new tags is still the same file.
        made = {
            row.lineage: row
            for row in sorted(self._rows, key=lambda row: -row.born)
            if row.root == file.path and row.lineage != (file.path,)
        }
        paths = tuple(row.path for row in sorted(made.values(), key=lambda row: (row.born, row.path)))
        told = [task for task in own if task.stands != file.path or task.failure is not None]
        told.sort(key=lambda task: (task.phase, task.branch, task.path))
        steps = tuple((task.step, task.failure is None) for task in told)
        for task in own:
            if task.failure is not None:
                several = len(self._plan.phases[task.phase - 1].steps) > 1
                reason = task.failure.reason if task.failure.error_class in REPORTED else ""
                return InputEnd(
                    path=file.path,
                    outcome="failed",
                    error_class=task.failure.error_class,
                    step=task.step,
                    reason=f"{task.step}: {reason}" if several and reason else reason,
                    made=paths,
                    steps=steps,
                )
        if own:
            return InputEnd(path=file.path, outcome="done", made=paths)
        return InputEnd(path=file.path, outcome="skipped", error_class="not_handled", made=paths)

    def _visit(self, row: Row, number: int, phase: PlanPhase) -> None:
        """One document in one phase: every accepting step runs, then their effects are applied in order."""
        effects = _Effects(row.values, row.used)
        stops = False
        for branch, step in enumerate(phase.steps):
            if not step.accepts.matches(row.file):
                continue
            values = _taken(step, row.values)
            end = _missing(step, row.values) or self._run_step(
                Work(unit=phase.unit, step=step, file=row.file, values=values)
            )
            if isinstance(end, StepResult):
                end = self._add_outputs(effects, row, step, end)
            stops = stops or (isinstance(end, Failure) and step.on_failure is OnFailure.STOP)
            self._note(number, row.path, branch, step, end, {row.root}, values=values)
        row.values, row.used = effects.values, effects.used
        for output in effects.outputs:
            change = output.product.change
            self._rows.append(
                Row(
                    file=_file_of(output, row.file),
                    root=row.root,
                    lineage=output.lineage,
                    role=output.product.role,
                    listed=change is not Change.HANG,
                    walks=change is Change.JOIN or (change is Change.REPLACE and not stops),
                    born=number,
                    values=dict(effects.values),
                    used=set(effects.used),
                )
            )
        if effects.replaced:
            row.gone = number
        else:
            row.walks = not stops
            self._retag(row, number, effects.tags)

    def _add_outputs(
        self, effects: "_Effects", row: Row, step: PlanStep, result: StepResult
    ) -> StepResult | Failure:
        outputs = []
        for ordinal, product in enumerate(result.products):
            lineage = (*row.lineage, f"{step.name}/{ordinal}")
            path = self._namer.name_of_document_output(
                product,
                path=row.path,
                is_input=len(row.lineage) == 1,  # also with new tags
                root=row.root,
                step=step,
                lineage=lineage,
                used=effects.used,
            )
            outputs.append(_Output(product, path, lineage))
        return effects.add(step, result, outputs)

    def _retag(self, row: Row, number: int, tags: list[str]) -> None:
        """A row keeps its tags for ever: other tags make another row, which walks on in its place."""
        new = [tag for tag in dict.fromkeys(tags) if tag not in row.file.tags]
        if new:
            file = structs.replace(row.file, tags=(*row.file.tags, *new))
            row.gone = number
            self._rows.append(structs.replace(row, file=file, born=number, gone=None))

    def _visit_units(self, number: int, phase: PlanPhase) -> None:
        """Folders from the deepest up, or the batch as one unit."""
        listed = sorted(
            (row for row in self._rows if row.listed and row.walks and row.gone is None),
            key=lambda row: row.path,
        )
        members: list[dict[str, list[Row]]] = [{} for _ in phase.steps]
        for branch, step in enumerate(phase.steps):
            for row in listed:
                if step.accepts.matches(row.file):
                    place = folder_path(row.path) if phase.unit is PlanUnit.FOLDER else ""
                    members[branch].setdefault(place, []).append(row)
            for place in list(members[branch]):
                for above in ancestors_of(place):
                    members[branch].setdefault(above, [])
        results: list[dict[str, StepResult]] = [{} for _ in phase.steps]
        for place in sorted(
            {place for found in members for place in found}, key=lambda one: (-_depth(one), one)
        ):
            self._visit_unit(number, phase, place, members, results)

    def _visit_unit(
        self,
        number: int,
        phase: PlanPhase,
        place: str,
        members: list[dict[str, list[Row]]],
        results: list[dict[str, StepResult]],
    ) -> None:
        known = self._unit_values.get((phase.unit, place), {})
        effects = _Effects(known, self._unit_names.get(place, set()))
        roots: dict[str, str] = {}  # step → the input that its outputs belong to
        for branch, step in enumerate(phase.steps):
            if place not in members[branch]:
                continue
            mine = members[branch][place]
            roots[step.name] = _root_of_unit(place, members[branch])
            values = _taken(step, known)
            end = _missing(step, known) or self._run_step(
                Work(
                    unit=phase.unit,
                    step=step,
                    file=File(key="", path=place, name=place.rpartition("/")[2], size=0, content_type=""),
                    values=values,
                    members=tuple(_member_of(row) for row in mine),
                    earlier=tuple(
                        EarlierResult(below, results[branch][below])
                        for below in sorted(results[branch])
                        if below and folder_path(below) == place
                    ),
                )
            )
            if isinstance(end, StepResult):
                end = self._add_unit_outputs(effects, place, step, end)
            if isinstance(end, StepResult):
                results[branch][place] = end
            about = {row.root for row in mine}
            stands = "" if roots[step.name] in about else roots[step.name]
            about.add(roots[step.name])
            paths = tuple(row.path for row in mine)
            self._note(number, place, branch, step, end, about, stands=stands, values=values, members=paths)
        self._unit_values[phase.unit, place] = effects.values
        self._unit_names[place] = effects.used
        for output in effects.outputs:
            self._rows.append(
                Row(
                    file=_file_of(output, None),
                    root=roots[output.lineage[1].rpartition("/")[0]],
                    lineage=output.lineage,
                    role=output.product.role,
                    listed=output.product.change is not Change.HANG,
                    walks=output.product.change is not Change.HANG,
                    born=number,
                    # What its own task gave; what the folder was given before is the folder's.
                    values={name: value for name, value in effects.values.items() if name not in known},
                    used=set(effects.used),
                )
            )

    def _add_unit_outputs(
        self, effects: "_Effects", place: str, step: PlanStep, result: StepResult
    ) -> StepResult | Failure:
        outputs = []
        for ordinal, product in enumerate(result.products):
            lineage = (place, f"{step.name}/{ordinal}")
            path = self._namer.name_of_unit_output(product, folder=place, lineage=lineage, used=effects.used)
            outputs.append(_Output(product, path, lineage))
        return effects.add(step, result, outputs, replaces=False)

    def _note(
        self,
        number: int,
        path: str,
        branch: int,
        step: PlanStep,
        end: StepResult | Failure,
        about: set[str],
        **more: Any,
    ) -> None:
        self._tasks.append(
            TaskEnd(
                phase=number,
                path=path,
                branch=branch,
                step=step.name,
                about=frozenset(about),
                result=end if isinstance(end, StepResult) else None,
                failure=end if isinstance(end, Failure) else None,
                **more,
            )
        )


class _Output(Struct, frozen=True):
    product: Product
    path: str
    lineage: Lineage


class _Effects:
    """What the branches of one phase do to one document or unit, collected in their order."""

    def __init__(self, values: dict[str, Value], used: set[str]) -> None:
        self.values = dict(values)
        self.used = set(used)
        self.outputs: list[_Output] = []
        self.tags: list[str] = []
        self.replaced = False

    def add(
        self, step: PlanStep, result: StepResult, outputs: list[_Output], *, replaces: bool = True
    ) -> StepResult | Failure:
        """A branch that breaks a rule has failed, and nothing of it is kept."""
        names = {fold(output.path) for output in outputs}
        if len(names) < len(outputs):
            return Failure("name_twice")
        if replaces and any(output.product.change is Change.REPLACE for output in outputs):
            if self.replaced:
                return Failure("two_replacements")
            self.replaced = True
        self.outputs += outputs
        self.used |= names
        self.tags += result.tags
        if result.value is not None:
            self.values[step.name] = result.value
        return result


def _taken(step: PlanStep, values: dict[str, Value]) -> dict[str, Value]:
    names = [name for taken in step.takes for name in taken.steps]
    return {name: values[name] for name in names if name in values}


def _missing(step: PlanStep, values: dict[str, Value]) -> Failure | None:
    for taken in step.takes:
        if taken.required and not any(name in values for name in taken.steps):
            return Failure("input_missing", taken.steps[0])
    return None


def _file_of(output: _Output, source: File | None) -> File:
    product = output.product
    return File(
        key=product.key,
        path=output.path,
        name=output.path.rpartition("/")[2],
        size=product.size,
        content_type=product.content_type,
        digest=product.digest,
        source_file=source.name if source else None,
        tags=product.tags,
        processing_config=source.processing_config if source else {},
    )


def _member_of(row: Row) -> MemberFile:
    return MemberFile(**structs.asdict(row.file), values=dict(row.values))


def _root_of_unit(place: str, members: dict[str, list[Row]]) -> str:
    """The input behind the first member; of a folder without members, that of the nearest folder below."""
    below = [
        folder
        for folder, found in members.items()
        if found and (folder == place or not place or folder.startswith(f"{place}/"))
    ]
    nearest = min(below, key=lambda folder: (_depth(folder), folder))
    return members[nearest][0].root


def _depth(folder: str) -> int:
    return folder.count("/") + bool(folder)
