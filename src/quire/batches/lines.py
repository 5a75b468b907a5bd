"""Batches as shown to people and programs: the JSON shapes that programs rely on, and the state in one line.

Field names are published and stay; new ones may be added. Times are RFC 3339 in UTC, money is in units of the
currency.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from quire.ledger.port import InputRecord
from quire.model.batch import (
    AT_WORK,
    Batch,
    BatchState,
    FileOutcome,
    Hold,
    PhaseCounts,
    Spending,
    Stage,
    TaskState,
)
from quire.model.cost import MICROS
from quire.model.ids import BatchId


class PhaseProgress(Struct, frozen=True, kw_only=True):
    """Task counts of the current phase alone."""

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
    step: str  # the step of the phase that failed, such as `asset.blurb`


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
    """A phase as it was submitted; None where an older version did not store the value."""

    name: str
    step: str
    version: int
    timeout_seconds: float | None = None
    memory_mb: int | None = None
    max_attempts: int | None = None


class BatchPlan(Struct, frozen=True, kw_only=True):
    phases: tuple[PlannedPhase, ...] = ()


class BatchDetails(Struct, frozen=True, kw_only=True):
    """One batch in full. `completed_at` and `error` are present only when they are set."""

    batch_id: BatchId
    status: str
    state: BatchState
    summary: str  # the state in one line, for people
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
    queue_message: Any  # the start message as it was sent; None before the batch was closed


class BatchLine(Struct, frozen=True, kw_only=True):
    """A batch in a list; the next page starts after `no`."""

    no: int
    batch_id: BatchId
    status: str
    state: BatchState
    summary: str  # the state in one line, for people
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


class StepLine(Struct, frozen=True, kw_only=True):
    """How the tasks of a step on one input, and on what was made of it, have ended. Class and reason are
    those of the first failure.
    """

    step: str
    done: int
    failed: int
    error_class: str | None
    reason: str | None


class FileLine(Struct, frozen=True, kw_only=True):
    """One input file with its outcome, as in the report of a run. `steps` are those of a failed one."""

    path: str
    status: FileOutcome
    reason: str | None
    error_class: str | None
    outputs: list[str]
    attempts: int
    size: int
    steps: list[StepLine]


class ProducedFileLine(Struct, frozen=True, kw_only=True):
    """A file in a history: the input itself, or one that was made of it."""

    path: str
    role: str
    made_in: str | None  # the phase; None: it was an input
    replaced_in: str | None  # the phase in which another file replaced it
    withdrawn: bool  # a retry took it back
    key: str
    size: int
    content_type: str
    tags: tuple[str, ...]


class AttemptLine(Struct, frozen=True, kw_only=True):
    """One attempt; `outcome` is empty while it runs. `task_state` is the present state of its task."""

    phase: str
    step: str
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


class InputHistory(Struct, frozen=True, kw_only=True):
    """Everything known of one input: its outcome, the files made of it, every attempt on any of them."""

    file: FileLine
    files: list[ProducedFileLine]
    attempts: list[AttemptLine]


class BatchEvent(Struct, frozen=True, kw_only=True):
    no: int
    at: str
    kind: str
    data: dict[str, Any]


def build_step_lines(record: InputRecord) -> list[StepLine]:
    return [
        StepLine(
            step=one.step,
            done=one.done,
            failed=one.failed,
            error_class=one.error_class or None,
            reason=one.reason or None,
        )
        for one in record.steps
    ]


def list_failures(record: InputRecord) -> list[tuple[str, str]]:
    """Error class and reason of each step that failed, for people; of the file itself when none did."""
    failed = [one for one in record.steps if one.failed]
    if len(failed) < 2:
        return [(record.error_class, record.reason)]
    return [(one.error_class, f"{one.step}: {one.reason}") for one in failed]


def sum_costs(spent: Sequence[Spending]) -> CostLine:
    """The costs of several phases added up."""
    return CostLine(
        seconds=round(sum(one.seconds for one in spent), 3),
        bytes_in=sum(one.bytes_in for one in spent),
        bytes_out=sum(one.bytes_out for one in spent),
        tokens_in=sum(one.tokens_in for one in spent),
        tokens_out=sum(one.tokens_out for one in spent),
        money=sum(one.money_micros for one in spent) / MICROS,
    )


_BEFORE = {
    Stage.OPEN: "receiving files",
    Stage.QUEUED: "waiting to start",
    Stage.FILLING: "working: reads the file list",
    Stage.ENDING: "working: ends",
}


def describe_state(batch: Batch, counts: Sequence[PhaseCounts], now: float) -> str:
    """The state in one line for people, which begins with its word: `working in TIFF_CONVERSION: 3 of 12`,
    `paused: …`, `done, 2 failed` …
    """
    return _describe_end(batch, counts) or _describe_hold(batch) or _describe_work(batch, counts, now)


def _describe_end(batch: Batch, counts: Sequence[PhaseCounts]) -> str:
    stage = batch.position.stage
    if stage is Stage.DONE:
        # Tasks that failed, and files that did not get as far as a task: neither may hide behind "done".
        failed = sum(one.failed for one in counts)
        words = ["done"] + ([f"{failed} failed"] if failed else [])
        return ", ".join(words + ([f"{batch.refused} refused"] if batch.refused else []))
    if batch.ended:
        return f"{stage.value}: {batch.error}" if batch.error else stage.value
    return ""


def _describe_hold(batch: Batch) -> str:
    if batch.hold is Hold.BUDGET:
        return "held: budget spent"
    if batch.hold is Hold.PAUSED:
        return f"paused: {batch.hold_reason}" if batch.hold_reason else "paused"
    return ""


def _describe_work(batch: Batch, counts: Sequence[PhaseCounts], now: float) -> str:
    stage = batch.position.stage
    if batch.phase_retries and batch.rests_until > now:
        return f"working: waits to try {batch.status} again after {batch.phase_retries} failed tries"
    if stage in AT_WORK:
        current = find_current_counts(batch, counts)
        return f"working in {batch.status}: {current.settled} of {current.total}"
    return _BEFORE.get(stage) or f"working in {batch.status}, to be taken over from an earlier version"


def find_current_counts(batch: Batch, counts: Sequence[PhaseCounts]) -> PhaseCounts:
    """The counts of the phase that the batch is in, or was in when it ended; zeros before the first."""
    at = batch.position.phase
    nothing = PhaseCounts(phase=at, name="", total=0, done=0, failed=0, cached=0)
    return next((one for one in counts if one.phase == at), nothing)
