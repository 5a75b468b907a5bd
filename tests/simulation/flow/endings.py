"""What the plain model works on and comes to: rows of the file list, the ends of tasks and inputs, and the
ending of a batch with all of them.
"""

from collections.abc import Callable

from msgspec import Struct, field

from quire.model.files import File
from quire.model.plan import PlanStep, PlanUnit
from quire.model.work import EarlierResult, MemberFile, StepResult, Value
from tests.simulation.flow.naming import Lineage


class Failure(Struct, frozen=True):
    """The end of a task that failed for good."""

    error_class: str
    reason: str = ""


class Work(Struct, frozen=True, kw_only=True):
    """What a step is given: a document with the values it takes, or a folder's or a batch's members."""

    unit: PlanUnit
    step: PlanStep
    file: File
    values: dict[str, Value]
    members: tuple[MemberFile, ...] = ()
    earlier: tuple[EarlierResult, ...] = ()


RunStep = Callable[[Work], StepResult | Failure]


class Row(Struct, kw_only=True):
    """A file of the list, or an asset beside it; from phase `born` until phase `gone`."""

    file: File
    root: str  # the path of the input it belongs to
    lineage: Lineage
    role: str = ""
    listed: bool = True
    walks: bool = True
    born: int = 0
    gone: int | None = None
    values: dict[str, Value] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)  # folded names that its line has given

    @property
    def path(self) -> str:
        return self.file.path


class TaskEnd(Struct, frozen=True, kw_only=True):
    """How a task ended. `about`: inputs that it belongs to, or whose documents are its members."""

    phase: int
    path: str
    branch: int  # the step's place in its phase
    step: str
    about: frozenset[str]
    stands: str = ""  # the input that stands for a folder, though none of its documents is a member
    result: StepResult | None = None
    failure: Failure | None = None
    members: tuple[str, ...] = ()
    values: dict[str, Value] = field(default_factory=dict)  # that the step was given


class InputEnd(Struct, frozen=True, kw_only=True):
    """How an input ended; of a failed one, which step failed first and why."""

    path: str
    outcome: str  # done, failed, skipped
    error_class: str = ""
    step: str = ""
    reason: str = ""  # of failures that steps report
    made: tuple[str, ...] = ()  # paths of the files that came of it, by phase and path, whether still there
    steps: tuple[tuple[str, bool], ...] = ()  # of a failed one: who took part, and succeeded


class Ending(Struct, frozen=True, kw_only=True):
    """What came of a batch. All lists are in the order in which people see them."""

    files: tuple[Row, ...]  # that are there at the end, by folder and path
    inputs: tuple[InputEnd, ...]  # by path
    tasks: tuple[TaskEnd, ...]  # by phase, path and branch

    @property
    def manifest(self) -> tuple[Row, ...]:
        """The list that is handed over."""
        return tuple(row for row in self.files if row.listed)
