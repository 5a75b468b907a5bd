"""What is told of batches, ready to be written as JSON: the shapes that programs rely on.

Names once given stay; new ones may be added. Times are RFC 3339 in UTC, money is in units of the currency.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from quire.model.batch import FileOutcome, Spent, TaskState
from quire.model.cost import MICROS
from quire.model.ids import BatchId


class PhaseProgress(Struct, frozen=True, kw_only=True):
    """Of the current phase alone."""

    tasks_total: int
    tasks_completed: int
    tasks_failed: int


class PhaseLine(Struct, frozen=True, kw_only=True):
    total: int
    completed: int
    failed: int
    cached: int


class FailedTaskLine(Struct, frozen=True, kw_only=True):
    task_id: str
    input_r2_key: str
    error: str
    phase: str
    path: str
    error_class: str


class HoldLine(Struct, frozen=True, kw_only=True):
    kind: str
    reason: str | None


class BudgetLine(Struct, frozen=True, kw_only=True):
    """None is no limit; money in units of the currency."""

    seconds: float | None
    tokens: int | None
    money: float | None


class CostLine(Struct, frozen=True, kw_only=True):
    seconds: float
    bytes_in: int
    bytes_out: int
    tokens_in: int
    tokens_out: int
    money: float


class PlannedPhase(Struct, frozen=True, kw_only=True):
    """A phase as it was asked for at submission; what it cannot tell is None."""

    name: str
    step: str
    version: int
    timeout_seconds: float | None = None
    memory_mb: int | None = None
    max_attempts: int | None = None


class BatchPlan(Struct, frozen=True, kw_only=True):
    phases: tuple[PlannedPhase, ...] = ()


class BatchDetails(Struct, frozen=True, kw_only=True):
    """Where a batch stands. `completed_at` and `error` are there only when they are set."""

    batch_id: BatchId
    status: str
    state: str  # one line, for people
    progress: PhaseProgress
    started_at: str
    updated_at: str
    completed_at: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    phases: dict[str, PhaseLine]
    failed_tasks: list[FailedTaskLine]  # the first hundred
    failures: dict[str, int]  # failed tasks by error class
    pipeline: str
    pipeline_version: int
    round: int
    tier: str
    tenant: str
    hold: HoldLine | None
    phase_retry_count: int
    budget: BudgetLine
    spent: CostLine
    total_files: int
    refused_files: int  # offered, but failed before the first phase
    skipped_files: int  # offered, but passed over before the first phase
    created_at: str
    plan: BatchPlan
    queue_message: Any  # what was sent, untouched; None before the batch was closed


class BatchLine(Struct, frozen=True, kw_only=True):
    """A batch in a list. `no` is the place in the list from which the next page goes on."""

    no: int
    batch_id: BatchId
    status: str
    state: str
    pipeline: str
    round: int
    tier: str
    tenant: str
    total_files: int
    refused_files: int  # offered, but failed before the first phase
    skipped_files: int  # offered, but passed over before the first phase
    tasks_failed: int
    created_at: str
    updated_at: str
    completed_at: str | None


class FileLine(Struct, frozen=True, kw_only=True):
    """One input file with its end, as in the report of a run."""

    path: str
    status: FileOutcome
    reason: str | None
    error_class: str | None
    outputs: list[str]
    attempts: int
    size: int


class ProducedFileLine(Struct, frozen=True, kw_only=True):
    """A file of a story: the input itself, or one that was made of it."""

    path: str
    role: str
    made_in: str | None  # the phase; None: it was offered
    replaced_in: str | None  # the phase after which another file stood in its place
    withdrawn: bool  # a retry took it back
    key: str
    size: int
    content_type: str
    tags: tuple[str, ...]


class AttemptLine(Struct, frozen=True, kw_only=True):
    """One attempt; `outcome` is empty while it is out. `task_state` is that of its task now."""

    phase: str
    round: int
    task_no: int
    attempt: int
    path: str
    outcome: str
    error_class: str | None
    error: str | None
    started_at: str | None
    seconds: float
    worker: str
    task_state: TaskState


class FileHistory(Struct, frozen=True, kw_only=True):
    """All that is known of one input: its end, the files made of it, every attempt on any of them."""

    file: FileLine
    files: list[ProducedFileLine]
    attempts: list[AttemptLine]


class BatchEvent(Struct, frozen=True, kw_only=True):
    no: int
    at: str
    kind: str
    data: dict[str, Any]


def sum_costs(spent: Sequence[Spent]) -> CostLine:
    """All of them together."""
    return CostLine(
        seconds=round(sum(one.seconds for one in spent), 3),
        bytes_in=sum(one.bytes_in for one in spent),
        bytes_out=sum(one.bytes_out for one in spent),
        tokens_in=sum(one.tokens_in for one in spent),
        tokens_out=sum(one.tokens_out for one in spent),
        money=sum(one.money_micros for one in spent) / MICROS,
    )
