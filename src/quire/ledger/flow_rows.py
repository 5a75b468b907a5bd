"""From effects to rows, for every ledger on SQL: numbers are given here, statements are the adapters'."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from quire.ledger.flow_values import (
    BranchResult,
    CompleteJoin,
    Effects,
    Follower,
    RootFailure,
    TaskBehind,
    TaskPlace,
    first_number,
    phase_of,
)
from quire.ledger.rows import Row, decode_result, file_columns, read_file
from quire.ledger.values import Claim
from quire.model.batch import FileOutcome, TaskState
from quire.model.files import File
from quire.model.plan import Plan, tell_failure
from quire.model.work import Order

UNIT_TYPE = "application/vnd.quire.members+json"


def read_flow_claim(batch_no: int, columns: Row) -> Claim:
    """From five columns of the attempt, ten of the file, six of the place."""
    task_no, attempt, failures, interruptions, started_at = columns[:5]
    branch, file_no, root_no, lineage, tries, given = columns[15:]
    order = Order(batch_no, task_no, attempt, read_file(columns[5:15]))
    place = TaskPlace(phase_of(task_no), branch, file_no, root_no, lineage, tries, given)
    return Claim(order, failures, interruptions, started_at, place)


def read_join(columns: Row, branches: Iterable[Row]) -> CompleteJoin:
    """From the join's phase, file, input, lineage and ten columns of the file, and eight of each branch."""
    phase, file_no, root_no, lineage, *own = columns
    results, tries, given = [], 0, None
    for branch, state, count, result, kind, error, before, values in branches:
        results.append(BranchResult(branch, TaskState(state), count, decode_result(result), kind, error))
        tries += before
        given = given or values
    place = TaskPlace(phase, 0, file_no, root_no, lineage, tries, given)
    return CompleteJoin(place, read_file(tuple(own)), tuple(results))


def read_task_behind(columns: Row) -> TaskBehind:
    """From the document's number, whether the task is its own, four columns of the task, role and lineage."""
    file_no, is_own, phase, branch, state, result, role, lineage = columns
    return TaskBehind(
        *(file_no, bool(is_own), phase, branch, TaskState(state), decode_result(result), role, lineage)
    )


def unit_file(path: str) -> File:
    """A folder as a document; the list of its members is stored when it is given its task."""
    return File(key="", path=path, name=path.rpartition("/")[2], size=0, content_type=UNIT_TYPE)


def folder_file(path: str) -> File:
    """A folder where files are asked for by their paths."""
    return File(key="", path=path, name="", size=0, content_type="")


def judge_roots(
    plan: Plan | None,
    roots: Iterable[int],
    failed: Iterable[Row],
    done: Collection[int],
    walking: Mapping[int, int],
) -> list[Row]:
    """How inputs stand after a part of their tasks was withdrawn: (input, outcome, error class, reason, place
    of the failure, documents on their way again). `failed` are (input, phase, path, branch, error class,
    reason) of tasks that are left.
    """
    told: dict[int, tuple[str, str, str]] = {}
    for root, phase, path, branch, kind, reason in failed:
        why = reason if plan is None else tell_failure(plan.phases[phase - 1], branch, reason)
        one = (failure_place(phase, path, branch), kind, why)
        told[root] = min(one, told.get(root, one))
    rows: list[Row] = []
    for root in roots:
        again = walking.get(root, 0)
        place, error_class, because = told.get(root, (None, None, None))
        outcome = FileOutcome.DONE.value if root in done and not again else None
        if place is not None:
            outcome = FileOutcome.FAILED.value
        rows.append((root, outcome, error_class, because, place, again))
    return rows


def open_phases(
    batch_no: int, phases: Sequence[str], delays: Sequence[float], now: float
) -> list[tuple[int, int, str, float]]:
    """The rows of the phases of a batch that begins: number, name, and when its first task may start."""
    waits = delays or [0.0] * len(phases)
    return [
        (batch_no, number, name, now + seconds if seconds else 0.0)
        for number, (name, seconds) in enumerate(zip(phases, waits, strict=True), start=1)
    ]


def failure_place(phase: int, path: str, branch: int) -> str:
    """Of several failures of an input the one with the lowest place is told."""
    return f"{phase:06d}\n{path}\n{branch:06d}"


class EffectRows:
    """What effects come to as rows. `cursors` has the last task number of each phase, without the phase."""

    def __init__(self, batch_no: int, last_file: int, cursors: Mapping[int, int]) -> None:
        self._batch_no = batch_no
        self._cursors = dict(cursors)
        self.last_file = last_file
        self.files: list[Row] = []
        self.left_list: list[Row] = []  # (phase, batch, file)
        self.tasks: list[Row] = []
        self.joins: list[Row] = []  # (batch, phase, file, branches)
        self.created: Counter[int] = Counter()  # tasks by phase
        self.ended: dict[int, list[int]] = {}  # tries → inputs one of whose documents has ended
        self.spread: list[tuple[int, int]] = []  # (input, further documents)
        self.failures: list[tuple[int, RootFailure]] = []
        self.unit_failures: list[tuple[int, RootFailure]] = []

    @property
    def opened(self) -> int:
        """Tasks and joins that are not settled."""
        return len(self.tasks) + len(self.joins)

    def add(self, effects: Iterable[Effects]) -> None:
        for one in effects:
            self._add_one(one)

    def follow(self, follower: Follower, file_no: int) -> None:
        phase = follower.phase
        tries, last = follower.tries, self._cursors.get(phase, 0)
        base = first_number(phase) + last
        for place, branch in enumerate(follower.branches, start=1):
            self.tasks.append((self._batch_no, base + place, phase, file_no, branch, tries, follower.given))
            tries = 0
        count = len(follower.branches)
        self._cursors[phase] = last + count
        self.created[phase] += count
        if count > 1:
            self.joins.append((self._batch_no, phase, file_no, count))

    def _add_one(self, effects: Effects) -> None:
        first = self.last_file
        for new in effects.new_files:
            self.last_file += 1
            self.files.append(
                (
                    *(self._batch_no, self.last_file, effects.root_no, effects.phase, new.listed, new.role),
                    *(*file_columns(new.file), effects.parent_no, new.lineage),
                )
            )
        if effects.leaves:
            self.left_list.append((effects.phase, self._batch_no, effects.parent_no))
        for follower in effects.followers:
            self.follow(follower, follower.file if follower.file > 0 else first - follower.file)
        self._count_root(effects)
        if effects.failure is not None:
            self.failures.append((effects.root_no, effects.failure))
            if effects.of_unit:
                self.unit_failures.append((effects.parent_no, effects.failure))

    def _count_root(self, effects: Effects) -> None:
        if effects.of_unit:
            if effects.walking:
                self.spread.append((effects.root_no, effects.walking))
        elif not effects.walking:
            self.ended.setdefault(effects.tries, []).append(effects.root_no)
        elif effects.walking > 1:
            self.spread.append((effects.root_no, effects.walking - 1))
