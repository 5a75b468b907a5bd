"""The engine's own rules without any ledger: tasks of a batch settle in an order that chance decides.

Everything that the ledger does is done here with lists, so that thousands of plans can be compared with the
model in a few seconds. What goes wrong between processes is for the simulator.
"""

from random import Random
from typing import Any

from msgspec import Struct

from quire.engine.flow import (
    Doubt,
    Settled,
    accepting,
    decode_values,
    encode_values,
    follow,
    list_rivals,
    next_waiting_phase,
    plan_effects,
    select_values,
)
from quire.ledger.flow_values import BranchResult, Effects, Follower, ListedInput, RootFailure, TaskPlace
from quire.model.batch import TaskState
from quire.model.files import File, fold
from quire.model.plan import PlanPhase, PlanUnit
from quire.model.work import EarlierResult, MemberFile, StepResult, Value
from tests.simulation.flow.endings import Failure, Work
from tests.simulation.flow.naming import ancestors_of, folder_path
from tests.simulation.flow.plans import Case


class RuleRow(Struct, kw_only=True):
    file: File
    root: int
    role: str
    listed: bool
    born: int
    lineage: str
    parent: int = 0
    gone: int | None = None
    values: dict[str, Value] = {}


class OpenTask(Struct, kw_only=True):
    phase: int
    branch: int
    file: int  # the place of its row; of a unit, of a row that stands for it
    given: bytes | None = None
    members: tuple[int, ...] = ()
    below: tuple[str, ...] = ()  # folders right below that are not settled


class RuleRun:
    """One batch. `end` lets all tasks settle."""

    def __init__(self, case: Case, chance: Random) -> None:
        self._case = case
        self._plan = case.plan
        self._chance = chance
        self._run_step = case.world.run_step()
        self.rows: list[RuleRow] = []
        self.failures: dict[int, list[RootFailure]] = {}
        self.taken: set[int] = set()  # inputs that a step took
        self.members: dict[tuple[int, str], tuple[str, ...]] = {}
        self._open: list[OpenTask] = []
        self._joins: dict[tuple[int, int], list[BranchResult]] = {}
        self._results: dict[tuple[int, str], StepResult] = {}
        self._waits_at = next_waiting_phase(self._plan, 0)

    def end(self) -> None:
        for number, file in enumerate(self._case.inputs):
            self.rows.append(RuleRow(file=file, root=number, role="", listed=True, born=0, lineage=""))
        for number, file in enumerate(self._case.inputs):
            self._begin(follow(self._plan, file, number, 0), number)
        while self._open or self._waits_at is not None:
            self._gather()
            ready = [task for task in self._open if not task.below]
            if ready:
                task = self._chance.choice(ready)
                self._open.remove(task)
                self._settle(task)

    def _begin(self, follower: Follower | None, number: int) -> None:
        if follower is None:
            return
        for branch in follower.branches:
            self._open.append(
                OpenTask(phase=follower.phase, branch=branch, file=number, given=follower.given)
            )

    def _settle(self, task: OpenTask) -> None:
        row, phase = self.rows[task.file], self._plan.phases[task.phase - 1]
        end = self._run(task, row, phase)
        done = isinstance(end, StepResult)
        result = BranchResult(
            task.branch,
            TaskState.DONE if done else TaskState.FAILED,
            1,
            end if isinstance(end, StepResult) else StepResult(),
            "" if isinstance(end, StepResult) else end.error_class,
            "" if isinstance(end, StepResult) else end.reason,
        )
        self.taken.update(self.rows[one].root for one in task.members)
        self.taken.add(row.root)
        branches = [result]
        if not phase.waits and len(accepting(phase, row.file)) > 1:
            branches = self._joins.setdefault((task.phase, task.file), [])
            branches.append(result)
            if len(branches) < len(accepting(phase, row.file)):
                return
        self._apply(task, row, sorted(branches, key=lambda one: one.branch))

    def _run(self, task: OpenTask, row: RuleRow, phase: PlanPhase) -> StepResult | Failure:
        step = phase.steps[task.branch]
        values, missing = select_values(step, task.given)
        if missing is not None:
            return Failure("input_missing", missing)
        place = row.file.path
        earlier = tuple(
            EarlierResult(below, result)
            for (number, below), result in sorted(self._results.items(), key=lambda one: one[0])
            if number == task.phase and below and folder_path(below) == place
        )
        return self._run_step(
            Work(
                unit=phase.unit,
                step=step,
                file=row.file,
                values=values,
                members=tuple(self._member(number, task.phase) for number in task.members),
                earlier=earlier if phase.unit is PlanUnit.FOLDER else (),
            )
        )

    def _apply(self, task: OpenTask, row: RuleRow, branches: list[BranchResult]) -> None:
        phase = self._plan.phases[task.phase - 1]
        place = TaskPlace(task.phase, task.branch, task.file, row.root, row.lineage, 0, task.given)
        settled = Settled(place, row.file, tuple(branches))
        effects, doubts = plan_effects(self._plan, settled, self._listed(list_rivals(self._plan, settled)))
        self._keep_values(row, task.phase, branches, doubts)
        first = len(self.rows)
        for new in effects.new_files:
            self.rows.append(
                RuleRow(
                    file=new.file,
                    root=effects.root_no,
                    role=new.role,
                    listed=new.listed,
                    born=task.phase,
                    lineage=new.lineage,
                    parent=task.file,
                    values=dict(row.values),
                )
            )
        if effects.leaves:
            row.gone = task.phase
        for follower in effects.followers:
            self._begin(follower, follower.file if follower.file >= 0 else first - follower.file - 1)
        self._fail(task, effects)
        if phase.waits:
            folder = row.file.path
            if branches[0].state is TaskState.DONE and not doubts:
                self._results[task.phase, folder] = branches[0].result
            for other in self._open:
                if other.phase == task.phase:
                    other.below = tuple(one for one in other.below if one != folder)

    def _keep_values(
        self, row: RuleRow, phase: int, branches: list[BranchResult], doubts: list[Doubt]
    ) -> None:
        """For members of folders; between steps on files values travel with the tasks."""
        doubted = {doubt.branch for doubt in doubts}
        for one in branches:
            if one.state is TaskState.DONE and one.branch not in doubted and one.result.value is not None:
                name = self._plan.phases[phase - 1].steps[one.branch].name
                row.values = row.values | {name: one.result.value}

    def _fail(self, task: OpenTask, effects: Effects) -> None:
        if effects.failure is None:
            return
        roots = {self.rows[number].root for number in task.members} if effects.of_unit else set()
        for root in roots | {effects.root_no}:
            self.failures.setdefault(root, []).append(effects.failure)

    def _listed(self, rivals: set[str]) -> dict[str, list[ListedInput]]:
        found: dict[str, list[ListedInput]] = {}
        for number, file in enumerate(self._case.inputs):
            if fold(file.path) in rivals:
                found.setdefault(fold(file.path), []).append(ListedInput(number, fold(file.path), file))
            for folder in ancestors_of(folder_path(file.path)):
                if f"{fold(folder)}/" in rivals:
                    shown = File(key="", path=f"{folder}/", name="", size=0, content_type="")
                    found[f"{fold(folder)}/"] = [ListedInput(0, f"{fold(folder)}/", shown)]
        return found

    def _gather(self) -> None:
        """Units of the next phase that waits, when no task of an earlier phase is open."""
        number = self._waits_at
        if number is None or any(task.phase < number for task in self._open):
            return
        self._waits_at = next_waiting_phase(self._plan, number)
        phase = self._plan.phases[number - 1]
        seen = [
            (row.file.path, place)
            for place, row in enumerate(self.rows)
            if row.listed and row.born < number and (row.gone is None or row.gone >= number)
        ]
        units: dict[str, list[int]] = {}
        for path, place in sorted(seen):
            if phase.steps[0].accepts.matches(self.rows[place].file):
                folder = folder_path(path) if phase.unit is PlanUnit.FOLDER else ""
                units.setdefault(folder, []).append(place)
        for folder in list(units):
            for above in ancestors_of(folder):
                units.setdefault(above, [])
        for folder, members in units.items():
            self._add_unit(number, folder, members, units)

    def _add_unit(self, number: int, folder: str, members: list[int], units: dict[str, list[int]]) -> None:
        shown = File(key="", path=folder, name=folder.rpartition("/")[2], size=0, content_type="")
        below = [
            one
            for one in units
            if units[one] and (one == folder or not folder or one.startswith(f"{folder}/"))
        ]
        nearest = min(below, key=lambda one: (one.count("/") + bool(one), one))
        root = self.rows[units[nearest][0]].root
        self.rows.append(RuleRow(file=shown, root=root, role="unit", listed=False, born=number, lineage=""))
        self.members[number, folder] = tuple(self.rows[one].file.path for one in members)
        given = encode_values(self._values_of_folder(number, folder))
        self._open.append(
            OpenTask(
                phase=number,
                branch=0,
                file=len(self.rows) - 1,
                given=given,
                members=tuple(members),
                below=tuple(one for one in units if one and folder_path(one) == folder),
            )
        )

    def _values_of_folder(self, number: int, folder: str) -> dict[str, Value]:
        unit = self._plan.phases[number - 1].unit
        found: dict[str, Value] = {}
        for (phase, place), result in self._results.items():
            if place == folder and result.value is not None and self._plan.phases[phase - 1].unit is unit:
                found[self._plan.phases[phase - 1].steps[0].name] = result.value
        return found

    def _member(self, number: int, phase: int) -> MemberFile:
        row = self.rows[number]
        names = {step.name for before in self._plan.phases[: phase - 1] for step in before.steps}
        values = {name: value for name, value in row.values.items() if name in names}
        fields: dict[str, Any] = {name: getattr(row.file, name) for name in File.__struct_fields__}
        return MemberFile(**fields, values=values)


__all__ = ["RuleRow", "RuleRun", "decode_values"]
