"""What goes through the ledger's doors: values, no behaviour."""

from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from quire.ledger.flow_values import Effects, FlowOffer, JoinPart, TaskPlace
from quire.model.batch import Batch, BatchState, Budget, FileOutcome, Position, TaskState
from quire.model.files import File
from quire.model.work import Order, Report


class BatchDraft(Struct, frozen=True, kw_only=True):
    id: str
    run_key: str | None
    pipeline: str
    pipeline_version: int
    plan: str
    now: float
    tier: int = 3
    tenant: str = ""
    budget: Budget = Budget()
    hands_over_to: str = ""
    plan_digest: str = ""  # of a plan; members that have another one leave the batch alone


class Upload(Struct, frozen=True, gc=False, kw_only=True):
    """A file that was offered: awaited, taken, failed or skipped. `stamp` tells whether its source has
    changed; of one that is uploaded it names the announcement.
    """

    path: str
    state: str
    size: int = 0
    stamp: str = ""
    key: str = ""
    digest: str = ""
    content_type: str = ""
    error_class: str = ""
    reason: str = ""
    # Of those that arrive over HTTP, as their sender described them.
    cid: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    upload_id: str = ""  # of an upload in parts; empty: in one piece
    taken_at: float | None = None
    source_file: str | None = None
    tags: tuple[str, ...] = ()


class OutboxMessage(Struct, frozen=True, kw_only=True):
    """A message in the outbox. `no` is 0 until it is stored."""

    queue: str
    message_id: str
    body: bytes
    no: int = 0


class ListedFile(Struct, frozen=True, gc=False):
    no: int
    root_no: int
    file: File


class Move(Struct, frozen=True, kw_only=True):
    """One move of a batch: from where it must stand, to where, with all that changes on the way."""

    batch_no: int
    expect: Position
    to: Position
    status: str
    now: float
    skips: tuple[str, str] | None = None  # (error class, reason) of inputs that no task was made for
    left_alone: dict[str, str] = {}  # by content type: reasons that say more than that of `skips`
    error: str | None = None
    message: OutboxMessage | None = None
    event: tuple[str, dict[str, object]] | None = None


class WorkableBatch(Struct, frozen=True, kw_only=True):
    """A batch that has tasks to start."""

    batch: Batch
    served_at: float  # when it last got work
    offers: tuple[FlowOffer, ...] = ()  # of a batch that flows: the phases with tasks to start


class Claim(Struct, frozen=True, gc=False):
    """An order on its way out, with what the retry rules need to know when it comes back."""

    order: Order
    failures: int
    interruptions: int
    started_at: float
    place: TaskPlace | None = None  # of a task of a batch that flows


class StoredTask(Struct, frozen=True, kw_only=True):
    """A task with its last attempt, for a report that comes from outside."""

    claim: Claim
    phase: int
    round: int
    state: TaskState


class Settlement(Struct, frozen=True, gc=False, kw_only=True):
    """A report and what the engine made of it. `blame` adds to failures, otherwise to interruptions."""

    report: Report
    state: TaskState
    due_at: float | None = None
    blame: bool = False
    cached: bool = False
    cache_key: str | None = None
    # Of a batch that flows, when the task is done or failed: what follows from it.
    effects: Effects | JoinPart | None = None


class SettleResult(Struct, frozen=True):
    """How many settlements were applied; the rest are kept as strays. `phase_ended`: the last task is in, or
    a scheduler has something to do. `created`: there are new tasks. `claims`: those that were asked for.
    """

    applied: int
    strays: int
    phase_ended: bool
    created: bool = False
    claims: tuple[Claim, ...] = ()


class StrayKind(StrEnum):
    """Why a report changed nothing."""

    DUPLICATE = "duplicate"  # its attempt had been settled already
    LATE = "late"  # a later attempt, phase or round has taken its place, or the batch has ended
    UNKNOWN = "unknown"  # no such task or attempt ever existed: forged, or of another ledger


class StrayReport(Struct, frozen=True, kw_only=True):
    task_no: int
    attempt: int
    outcome: str
    worker: str
    received_at: float
    kind: StrayKind


class Member(Struct, frozen=True, kw_only=True):
    """A process at work on this ledger. `beat` grows while it lives."""

    no: int
    name: str
    kind: str
    place: str
    beat: int
    enlisted_at: float


class OperatorAction(Struct, frozen=True, kw_only=True):
    """Who did something to a batch, why and when: kept in its events."""

    actor: str
    reason: str
    now: float


class TaskSelection(Struct, frozen=True, kw_only=True):
    """Which failed tasks of an ended batch are meant; all of them when nothing is said."""

    error_class: str | None = None
    path: str | None = None


class RetrySelection(Struct, frozen=True, kw_only=True):
    """What a selection hits: failed tasks by (phase, error class), and how many tasks of an unfinished round
    would go on.
    """

    failed: list[tuple[int, str, int]]
    unsettled: int = 0

    @property
    def tasks(self) -> int:
        return sum(count for _, _, count in self.failed) + self.unsettled


class StepEnd(Struct, kw_only=True):
    """How the tasks of one step on one input, and on what was made of it, have ended. Class and reason are
    those of the first failure, by path.
    """

    step: str
    done: int = 0
    failed: int = 0
    error_class: str = ""
    reason: str = ""


class InputRecord(Struct, frozen=True, kw_only=True):
    """The end of one input file, for reports. `steps` of a failed one: all that settled, in order."""

    path: str
    outcome: FileOutcome
    size: int
    error_class: str = ""
    reason: str = ""
    attempts: int = 0
    made: list[tuple[str, File]] = field(default_factory=list)  # (role, file), the order they were made in
    key: str = ""  # where it lies; empty: it was not taken
    digest: str = ""
    steps: list[StepEnd] = field(default_factory=list)
    no: int = 0  # of the file; 0: it was not taken


class BatchFilter(Struct, frozen=True, kw_only=True):
    """Which batches a list shows; newest first. `phase` is that of batches at work; `before` is the last
    number of the page before.
    """

    ended: bool | None = None
    state: BatchState | None = None
    phase: str | None = None
    tenant: str | None = None
    before: int | None = None
    limit: int = 100


class AttemptRecord(Struct, frozen=True, kw_only=True):
    """One attempt of a task, for people; the last one of a task that is running has no outcome yet."""

    phase: str
    round: int
    task_no: int
    attempt: int
    state: TaskState  # of the task
    outcome: str
    worker: str
    started_at: float | None
    seconds: float
    path: str
    error_class: str = ""
    error: str = ""
    branch: int = 0  # which of the phase's steps


class FileVersion(Struct, frozen=True, kw_only=True):
    """A file of the list with its history: the phase that made it and the one that replaced it."""

    no: int
    path: str
    role: str
    born: int
    gone: int | None
    listed: bool
    key: str
    size: int
    content_type: str
    tags: tuple[str, ...]


class FailedTask(Struct, frozen=True, kw_only=True):
    task_no: int
    phase: str
    path: str
    key: str
    error_class: str
    error: str
    branch: int = 0  # which of the phase's steps
