"""Batches and their progress.

A batch is rows, not one document; `Batch` is the row that says how far it has come. `Position` is the part
that changes: every move of a batch is a compare-and-swap on it, so that two schedulers, or one that died and
came back, cannot make the same move twice.
"""

from enum import StrEnum

from msgspec import Struct

from quire.model.ids import BatchId


class Stage(StrEnum):
    OPEN = "open"  # files are still arriving
    QUEUED = "queued"  # the manifest is stored, the message is on its way
    FILLING = "filling"  # the manifest's files are being written as rows
    FLOWING = "flowing"  # every document moves on by itself
    ENDING = "ending"  # nothing is left to do; the batch is handed over
    DONE = "done"
    ERROR = "error"
    CANCELLED = "cancelled"
    # Former stages: only batches that an earlier release began stand in them, until they are adopted.
    GATHERING = "gathering"
    DISCOVERING = "discovering"
    WORKING = "working"
    TRANSFORMING = "transforming"


# The error of a batch that an operator has reset.
RESET = "Manually reset by admin"
TERMINAL = frozenset({Stage.DONE, Stage.ERROR, Stage.CANCELLED})
AT_WORK = frozenset({Stage.FLOWING, Stage.WORKING})  # attempts may be running


class Position(Struct, frozen=True):
    """`phase` counts from 1; 0 is the intake. `cursor` is how far the current stage has come. `round` counts
    how often the batch was started again after its end: each round runs the phases for its own files.
    """

    stage: Stage
    phase: int = 0
    cursor: int = 0
    round: int = 1


class Hold(StrEnum):
    """Why no further task of a batch starts. What is running finishes."""

    PAUSED = "paused"  # by a person
    BUDGET = "budget"  # the budget is spent


class BatchState(StrEnum):
    """How a batch stands, for people and programs: in lists, their filters and details. What published
    clients are told is in the words of their protocols.
    """

    RECEIVING = "receiving"  # files are still arriving
    WAITING = "waiting"  # all files are there; its work has not begun
    WORKING = "working"
    PAUSED = "paused"  # by a person
    HELD = "held"  # its budget is spent
    DONE = "done"  # it has come to its end, with or without failures
    ERROR = "error"
    CANCELLED = "cancelled"


class Budget(Struct, frozen=True, kw_only=True):
    """What a batch may spend before it is held; None is no limit. Money in millionths of the currency."""

    seconds: float | None = None
    tokens: int | None = None
    money_micros: int | None = None


class Spending(Struct, frozen=True, kw_only=True):
    """What the attempts of a batch have cost so far, failed ones included."""

    seconds: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    money_micros: int = 0


class FlowState(Struct, frozen=True, kw_only=True):
    """How far a batch that flows has come. It ends when no task is open and no source can bring another."""

    open_tasks: int = 0  # tasks and joins that are not settled
    sources: int = 0  # the intake, or a phase whose units are being made
    admitted: int = 0  # files up to this number were given their first tasks
    admissible: int = 0  # files up to this number may be: all of their folders are listed
    waits_at: int | None = None  # the next phase that waits for other documents
    gathers: int = 0  # 1: its units are being found, 2: they are given their tasks
    adopts_to: int | None = None  # of a batch of the former form: files up to this number are being adopted


class Batch(Struct, frozen=True, kw_only=True):
    no: int
    id: BatchId
    pipeline: str
    pipeline_version: int
    plan: str  # the pipeline as it was at submission
    position: Position
    status: str
    manifest_key: str | None
    total_files: int
    last_file: int
    created_at: float
    updated_at: float
    completed_at: float | None = None
    delivered_at: float | None = None
    started_at: float | None = None
    error: str | None = None
    tier: int = 3
    tenant: str = ""
    hold: Hold | None = None
    hold_reason: str | None = None
    phase_retries: int = 0  # moves that failed since the last one that succeeded
    rests_until: float = 0.0  # no move before this moment
    budget: Budget = Budget()
    refused: int = 0  # offered files that failed at the intake
    passed_over: int = 0  # offered files that were skipped at the intake
    hands_over_to: str = ""  # the queue that gets a message when it is done; empty: none
    flow: "FlowState | None" = None

    @property
    def ended(self) -> bool:
        return self.position.stage in TERMINAL

    @property
    def state(self) -> BatchState:
        """The ledgers' query `list_batches` says the same in SQL."""
        stage = self.position.stage
        if stage in TERMINAL:
            return BatchState(stage.value)
        if self.hold is not None:
            return BatchState.HELD if self.hold is Hold.BUDGET else BatchState.PAUSED
        return {Stage.OPEN: BatchState.RECEIVING, Stage.QUEUED: BatchState.WAITING}.get(
            stage, BatchState.WORKING
        )


class PhaseCounts(Struct, frozen=True, kw_only=True):
    """Counters stored beside the rows, over all rounds: status never counts rows."""

    phase: int
    name: str
    total: int
    done: int
    failed: int
    cached: int
    spent: Spending = Spending()

    @property
    def settled(self) -> int:
        return self.done + self.failed


class TaskState(StrEnum):
    READY = "ready"  # never tried
    RUNNING = "running"  # an attempt is running
    WAITING = "waiting"  # will be tried again when due
    BLOCKED = "blocked"  # of a folder: tasks of the folders right below are not settled
    EXTERNAL = "external"  # somebody outside will answer
    DONE = "done"
    FAILED = "failed"
    SUPERSEDED = "superseded"  # replaced by a later round; kept for the record


class FileOutcome(StrEnum):
    """How an input file of a batch ends: exactly one of these, `pending` until then."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    PENDING = "pending"
