"""What is known: batches, files, tasks, attempts, alarms, and messages to be sent.

Small ports on one database. Every writing method is one transaction and durable when it returns; each may be
repeated after a crash: it then does the same again or raises Stale. The ledger stores and fences; the engine
decides which task is tried again and what becomes of a file.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from quire.ledger.flow_port import FlowStore, Known, Only
from quire.ledger.records import RecordStore
from quire.ledger.submissions import SubmissionStore
from quire.ledger.values import (
    AttemptRecord,
    BatchDraft,
    BatchFilter,
    Claim,
    FailedTask,
    FileVersion,
    InputRecord,
    ListedFile,
    Member,
    Move,
    OperatorAction,
    OutboxMessage,
    RetrySelection,
    Settlement,
    SettleResult,
    StepEnd,
    StoredTask,
    StrayKind,
    StrayReport,
    TaskSelection,
    Upload,
    WorkableBatch,
)
from quire.model.batch import Batch, Budget, Position
from quire.model.work import EarlierResult, StepResult

NO_BATCH = 0  # the number under which events stand that concern no single batch


class UploadStore(Protocol):
    """Files that enter a batch, from its opening to its closing, and what becomes of the whole batch then."""

    async def open_batch(self, draft: BatchDraft) -> Batch:
        """Create a batch that accepts uploads."""
        ...

    async def find_run(self, run_key: str) -> Batch | None:
        """The newest batch submitted with this key, whatever its state."""
        ...

    async def record_uploads(self, batch_no: int, uploads: Sequence[Upload]) -> None:
        """Record files that were offered. A path that is recorded already is replaced."""
        ...

    async def list_uploads(self, batch_no: int, *, after: str = "", limit: int) -> list[Upload]:
        """Recorded files in order of path."""
        ...

    async def close_batch(
        self,
        batch_no: int,
        *,
        manifest_key: str,
        total_files: int,
        message: OutboxMessage,
        now: float,
        refused: int = 0,
        passed_over: int = 0,
        revision: int | None = None,
    ) -> Batch:
        """Close the batch and put the message that starts it into the outbox, in one transaction; the event
        is `batch_finalized`. `refused` and `passed_over` count the offered files that failed or were skipped
        on the way in. Raises Stale when the batch is no longer open, and, for a submission closed with its
        `revision`, when its files have changed since.
        """
        ...

    async def mark_delivered(self, batch_no: int, *, now: float) -> None:
        """The batch's results are where they were asked for: a repeated request starts a new batch."""
        ...

    async def abandon_batch(
        self, batch_no: int, *, reason: str, now: float, idle_before: float | None = None
    ) -> bool:
        """End a batch that will not be continued; False when it had ended. With `idle_before`, only an open
        submission that received nothing since that moment is ended, and the answer is False otherwise.
        """
        ...


class BatchStore(Protocol):
    """Batches and their moves. A move is a compare-and-swap on the batch's position."""

    async def get_batch(self, batch_id: str) -> Batch:
        """Raises Missing."""
        ...

    async def get_positions(self, batch_nos: Collection[int]) -> dict[int, Position]:
        """The positions of these batches; unknown numbers are left out."""
        ...

    async def get_start_message(self, batch_no: int) -> str | None:
        """The queue message that started the batch, untouched."""
        ...

    async def take_batches(
        self, member: int, *, limit: int, now: float, only: Only = None, known: Known = None
    ) -> list[Batch]:
        """Batches whose next move is due, at most `limit`; from now on only this member moves them: those it
        holds already, then others that no member holds. They stay with the member until `release_batch` or
        until the member is removed. A removed member gets none.
        """
        ...

    async def release_batch(self, batch_no: int, member: int) -> None:
        """The member no longer holds the batch."""
        ...

    async def apply_move(self, move: Move) -> Batch:
        """Make one move. Raises Stale, changing nothing, when the batch is not where `expect` says."""
        ...

    async def postpone_move(
        self, batch_no: int, expect: Position, *, retries: int, until: float, reason: str, now: float
    ) -> None:
        """A move failed and is tried again later. Raises Stale when the batch is not where `expect` says."""
        ...

    async def next_alarm(self, *, now: float, only: Only = None) -> float | None:
        """The earliest moment after `now` at which something can be done that cannot be done now: a task that
        is due again, a postponed move, a paced dispatch. None: only events bring work.
        """
        ...


class TaskStore(Protocol):
    """Tasks as they are found outside of claims and reports, and cached results."""

    async def load_child_results(
        self, batch_no: int, task_nos: Collection[int]
    ) -> dict[int, tuple[EarlierResult, ...]]:
        """For tasks of directories: the results of the same phase's tasks on the directories right below."""
        ...

    async def get_task(self, batch_no: int, task_no: int) -> StoredTask:
        """One task of whatever phase and round. Raises Missing."""
        ...

    async def list_running(self, member: int) -> list[Claim]:
        """The attempts that this member has started, of batches that still work."""
        ...

    async def load_cached(self, keys: Collection[str]) -> dict[str, StepResult]:
        """Results of earlier runs of the same step on the same bytes."""
        ...

    async def evict_cached(self, keys: Collection[str]) -> None:
        """Delete cached results (their blobs are gone)."""
        ...


class OutboxStore(Protocol):
    """Messages decided in a transaction and sent afterwards."""

    async def list_unsent(self, limit: int, *, after: int = 0) -> list[OutboxMessage]:
        """The oldest messages that are not marked as sent, of those with a number above `after`."""
        ...

    async def mark_sent(self, numbers: Collection[int]) -> None:
        """Call it after the queue has stored these messages for good; until then they are listed again, and
        the queue recognises them by their message id.
        """
        ...


class MemberStore(Protocol):
    """The processes at work on this ledger, and their heartbeats."""

    async def add_member(self, name: str, kind: str, place: str, *, now: float) -> Member:
        """A process begins to work."""
        ...

    async def record_heartbeat(self, member: int, *, now: float) -> bool:
        """False: the member was presumed dead and removed, and must be added anew."""
        ...

    async def list_members(self) -> list[Member]:
        """The members that were not removed."""
        ...

    async def remove_member(self, member: int) -> None:
        """Release the batches that the member holds. Settle its attempts before: while one of them runs in a
        batch that works, the member keeps its row, so that its attempts can be found.
        """
        ...


class ControlStore(Protocol):
    """An operator's actions, each recorded in the batch's events. Stale when the state forbids one."""

    async def pause(self, batch_no: int, action: OperatorAction) -> Batch:
        """No further task starts."""
        ...

    async def resume(self, batch_no: int, action: OperatorAction, *, budget: Budget | None = None) -> Batch:
        """Tasks start again; with a new budget when one is given."""
        ...

    async def cancel(self, batch_no: int, action: OperatorAction) -> Batch:
        """The batch ends here; settled tasks stay settled."""
        ...

    async def reset(self, batch_no: int, action: OperatorAction) -> Batch:
        """The batch ends in error by the operator's decision."""
        ...

    async def set_priority(self, batch_no: int, tier: int, action: OperatorAction) -> Batch: ...

    async def preview_retry(self, batch_no: int, selection: TaskSelection) -> RetrySelection:
        """What `retry_flow` or `reopen` would run. Changes nothing."""
        ...

    async def retry_flow(
        self,
        batch: Batch,
        selection: TaskSelection,
        action: OperatorAction,
        *,
        waiting: Sequence[int],
        names: Sequence[str],
    ) -> Batch:
        """A new round for the selected failed tasks, which run again in their own rows. What later phases
        made of their files is withdrawn; everything else stays. `names` are those of the phases, `waiting`
        the numbers of those that are about folders or the batch. Raises Stale when nothing is selected.
        """
        ...

    async def adopt_ended(self, batch: Batch, *, plan: str, digest: str, phases: Sequence[str]) -> Batch:
        """A batch that an earlier version has run to its end can be retried as one that flows, by this plan.
        Members of that version leave it alone. Raises Stale when it is no longer there.
        """
        ...

    async def reopen(self, batch_no: int, action: OperatorAction, *, status: str) -> Batch:
        """A cancelled batch, or one in error, continues where it stopped. Attempts that were out then are
        tried again; what has failed stays failed until the batch is retried.
        """
        ...

    async def record_action(self, action: OperatorAction, kind: str, data: dict[str, object]) -> None:
        """Record an action that concerns no single batch among the events of `NO_BATCH`."""
        ...


__all__ = [
    "NO_BATCH",
    "AttemptRecord",
    "BatchDraft",
    "BatchFilter",
    "BatchStore",
    "Claim",
    "ControlStore",
    "FailedTask",
    "FileVersion",
    "FlowStore",
    "InputRecord",
    "Known",
    "ListedFile",
    "Member",
    "MemberStore",
    "Move",
    "Only",
    "OperatorAction",
    "OutboxMessage",
    "OutboxStore",
    "RecordStore",
    "RetrySelection",
    "SettleResult",
    "Settlement",
    "StepEnd",
    "StoredTask",
    "StrayKind",
    "StrayReport",
    "SubmissionStore",
    "TaskSelection",
    "TaskStore",
    "Upload",
    "UploadStore",
    "WorkableBatch",
]
