"""Batches and where they stand.

A batch is rows, not one document; this is the row that says how far the walk has come. `Position` is the
part that moves: every move of a batch is a compare-and-swap on it, so that two conductors, or one that
died and came back, cannot make the same move twice.
"""

from enum import StrEnum

from msgspec import Struct

from quire.model.ids import BatchId


class Stage(StrEnum):
    OPEN = "open"  # files are still arriving
    QUEUED = "queued"  # the manifest is stored, the message is on its way
    FILLING = "filling"  # the manifest's files are being written as rows
    DISCOVERING = "discovering"  # the phase's tasks are being found
    WORKING = "working"  # tasks run
    TRANSFORMING = "transforming"  # results are being folded into the file list
    DONE = "done"
    ERROR = "error"
    CANCELLED = "cancelled"


TERMINAL = frozenset({Stage.DONE, Stage.ERROR, Stage.CANCELLED})


class Position(Struct, frozen=True):
    """`phase` counts from 1; 0 is the intake. `cursor` is how far the current stage has come."""

    stage: Stage
    phase: int = 0
    cursor: int = 0


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
    last_task: int
    created_at: float
    updated_at: float
    completed_at: float | None = None
    delivered_at: float | None = None
    error: str | None = None

    @property
    def ended(self) -> bool:
        return self.position.stage in TERMINAL


class PhaseCounts(Struct, frozen=True, kw_only=True):
    """Counters kept beside the rows: status never counts rows."""

    phase: int
    name: str
    total: int
    done: int
    failed: int
    cached: int

    @property
    def settled(self) -> int:
        return self.done + self.failed


class TaskState(StrEnum):
    READY = "ready"  # never tried
    RUNNING = "running"  # an attempt is out
    WAITING = "waiting"  # will be tried again when due
    DONE = "done"
    FAILED = "failed"


class FileOutcome(StrEnum):
    """How an input file of a batch ends; exactly one of these."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
