"""Values of batches whose documents move on by themselves, as they go through the ledger's doors."""

from msgspec import Struct

from quire.model.batch import TaskState
from quire.model.files import File
from quire.model.work import StepResult

PHASE_SHIFT = 40  # a task's number is that of its phase, shifted, and its place in the phase


def phase_of(task_no: int) -> int:
    return task_no >> PHASE_SHIFT


def first_number(phase: int) -> int:
    """Below every task of the phase."""
    return phase << PHASE_SHIFT


class TaskPlace(Struct, frozen=True, gc=False):
    """Where a task stands: in which phase, with which of its steps, on which document of which input."""

    phase: int
    branch: int
    file_no: int
    root_no: int
    lineage: str  # of the document: which step made it of what; empty for an input
    tries: int  # of the document in earlier phases
    given: bytes | None  # values of earlier steps, encoded


class NewDocument(Struct, frozen=True, gc=False):
    """A file that a task has made. The ledger gives it its number."""

    file: File
    role: str
    listed: bool
    lineage: str


class Follower(Struct, frozen=True, gc=False):
    """The tasks of one document in the next phase that takes it. `file` is the document's number, or, of one
    that is made in the same transaction, minus its place among the new ones, counted from 1.
    """

    phase: int
    branches: tuple[int, ...]
    file: int
    tries: int
    given: bytes | None = None


class RootFailure(Struct, frozen=True, gc=False):
    """Why an input ends as failed. Of several failures the one with the lowest `place` is told."""

    place: str
    error_class: str
    reason: str


class Effects(Struct, frozen=True, gc=False, kw_only=True):
    """What settling does to the document (`parent_no`, of input `root_no`): new files, followers, and whether
    it leaves the list. `walking` counts the documents that walk on instead of it; 0: its walk ends.
    """

    phase: int
    root_no: int
    parent_no: int
    new_files: tuple[NewDocument, ...] = ()
    leaves: bool = False
    followers: tuple[Follower, ...] = ()
    walking: int = 0
    tries: int = 0  # of a walk that ends: all of them
    failure: RootFailure | None = None
    of_unit: bool = False  # the document is a folder or the batch, and what fails are its members


class JoinPart(Struct, frozen=True, gc=False):
    """The task of a step that runs beside others: what it does waits for the others."""

    phase: int
    file_no: int


class BranchResult(Struct, frozen=True, gc=False):
    """How one of the steps side by side has ended."""

    branch: int
    state: TaskState
    tries: int
    result: StepResult
    error_class: str
    error: str


class CompleteJoin(Struct, frozen=True, gc=False):
    """A document all of whose branches have settled, and whose effects are to be applied."""

    place: TaskPlace
    file: File
    branches: tuple[BranchResult, ...]


class TaskBehind(Struct, frozen=True, gc=False):
    """A settled task that a listed document has behind it: a failed one of its own, or, of a document that a
    phase has made (`role`, `lineage`), one of those that this phase had on what it was made of.
    """

    file_no: int
    is_own: bool
    phase: int
    branch: int
    state: TaskState
    result: StepResult
    role: str
    lineage: str


class ListedInput(Struct, frozen=True, gc=False):
    """A file whose name counts for the names of results: an input (`born` 0), or what a phase has made."""

    no: int
    folded: str
    file: File
    born: int = 0
    root_no: int = 0


class Admission(Struct, frozen=True, gc=False):
    """A listed file and the tasks that it begins with; none: no step takes it."""

    no: int
    file: File | None  # None: its row is there already
    first: Follower | None
    listed: File | None = None  # the file whose row is there already, if it is at hand


class FlowOffer(Struct, frozen=True):
    """Tasks of a phase that can be started: new ones, and whether others are due again."""

    phase: int
    fresh: int
    due: bool


class PhaseLimit(Struct, frozen=True):
    """How many tasks of a phase may be claimed, and how long nobody may claim more of it after that."""

    phase: int
    most: int
    pace_seconds: float = 0.0


class ClaimRequest(Struct, frozen=True):
    """A member wants tasks of a batch: at most so many, of these phases, the first one first."""

    member: int
    most: int
    phases: tuple[PhaseLimit, ...]


class UnitFolder(Struct, frozen=True):
    """A folder (or the whole batch, with the empty path) that is a unit."""

    no: int
    path: str


class UnitTask(Struct, frozen=True):
    """The task of a unit: where the list of its members is, and how many folders right below it are units."""

    file_no: int
    root_no: int
    key: str
    size: int
    digest: str
    waits_for: int
    blocks: int | None  # the unit of the folder above
    given: bytes | None = None  # values that earlier steps gave for the same folder
