"""What is known: batches, files, tasks, attempts, alarms, and what waits to be sent.

Small doors on one store. Every writing method is one transaction and durable when it returns; every one may
be repeated after a crash: it then either does the same again or raises Stale.
The ledger keeps and fences; which task is tried again and what becomes of a file is decided by the engine.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from quire.ledger.access import ApiKeyStore
from quire.ledger.hooks import WebhookStore
from quire.ledger.records import RecordStore
from quire.ledger.submissions import SubmissionStore
from quire.ledger.values import (
    AttemptRecord,
    BatchDraft,
    BatchFilter,
    Claim,
    FailedTask,
    FileStory,
    InputRecord,
    ListedFile,
    Member,
    Move,
    NewFile,
    NewTask,
    OperatorAction,
    OutboxMessage,
    RetrySelection,
    Selection,
    SettledTask,
    Settlement,
    SettleResult,
    Stray,
    StrayKind,
    TaskStanding,
    UnitContent,
    Upload,
    Verdict,
    WorkableBatch,
)
from quire.model.batch import Batch, Budget, Position
from quire.model.work import Earlier, Order, StepResult

NO_BATCH = 0  # the number under which events stand that concern no single batch

Only = Collection[int] | None  # these batch numbers, or all
Known = Collection[tuple[str, int]] | None  # batches of these pipelines (name, version), or of all


class UploadStore(Protocol):
    """Files arrive."""

    async def open_batch(self, draft: BatchDraft) -> Batch:
        """A new batch that takes uploads."""
        ...

    async def find_run(self, run_key: str) -> Batch | None:
        """The newest batch submitted with this key, whatever its state."""
        ...

    async def record_uploads(self, batch_no: int, uploads: Sequence[Upload]) -> None:
        """Note what arrived. The same path again replaces the earlier note."""
        ...

    async def forget_uploads(self, batch_no: int, paths: Collection[str]) -> None:
        """Take notes back: these paths are no longer offered."""
        ...

    async def uploads(self, batch_no: int, *, after: str = "", limit: int) -> list[Upload]:
        """In order of path."""
        ...

    async def finalize(
        self,
        batch_no: int,
        *,
        manifest_key: str,
        total_files: int,
        letter: OutboxMessage,
        now: float,
        refused: int = 0,
        passed_over: int = 0,
    ) -> Batch:
        """Close the batch and put the message that starts it into the outbox, in one transaction.
        `refused` and `passed_over`: how many of the offered files failed or were skipped at the door.
        Raises Stale when the batch is not open any more.
        """
        ...

    async def delivered(self, batch_no: int, *, now: float) -> None:
        """Its results lie where they were asked for: a repeated request is a new one."""
        ...

    async def abandon(
        self, batch_no: int, *, reason: str, now: float, idle_before: float | None = None
    ) -> bool:
        """End a batch that will not be continued; False when it had ended. With `idle_before` also when it is
        not a submission that is open and that nothing was sent to since that moment.
        """
        ...


class BatchStore(Protocol):
    """A batch moves."""

    async def batch(self, batch_id: str) -> Batch:
        """Where it stands. Raises Missing."""
        ...

    async def take(
        self, member: int, *, limit: int, now: float, only: Only = None, known: Known = None
    ) -> list[Batch]:
        """Batches whose next move is due, at most `limit`, from now on this member's alone to move: those it
        has already, then others that nobody has. Until `leave`, or until the member is dismissed; one who
        has been dismissed gets none.
        """
        ...

    async def leave(self, batch_no: int, member: int) -> None:
        """Not this member's any more."""
        ...

    async def apply(self, move: Move) -> Batch:
        """Make one move. Raises Stale, changing nothing, when the batch is not where `expect` says."""
        ...

    async def put_off(
        self, batch_no: int, expect: Position, *, retries: int, until: float, reason: str, now: float
    ) -> None:
        """A move failed and is to be tried again. Raises Stale when the batch is not where `expect` says."""
        ...

    async def files(self, batch: Batch, *, after: int, limit: int) -> list[ListedFile]:
        """The present file list of the batch's round as its phase sees it, by number."""
        ...

    async def to_gather(self, batch: Batch, *, whole: bool, after: int, limit: int) -> list[ListedFile]:
        """The files that the phase's units may be made of, by number: all of the list (`whole`, or in the
        first round), or those in directories in which something has changed in this round.
        """
        ...

    async def units(self, batch: Batch, *, after: int, limit: int) -> list[ListedFile]:
        """The units gathered in the batch's phase and round, by number."""
        ...

    async def unit_numbers(self, batch: Batch, paths: Collection[str]) -> dict[str, int]:
        """Which of these paths have a unit already in the batch's phase and round."""
        ...

    async def unit_members(self, batch_no: int, unit_no: int) -> list[ListedFile]:
        """The files that belong to a unit, by path."""
        ...

    async def taken(self, batch_no: int, paths: Collection[str]) -> dict[str, int]:
        """How many files of the batch bear each of these case-folded paths, assets and replaced ones
        included: results lie beside each other in one folder. Paths with none are left out.
        """
        ...

    async def settled_tasks(self, batch: Batch, *, after: int, limit: int) -> list[SettledTask]:
        """The tasks of the batch's phase and round with their results, by number; all of them are settled
        when this is asked.
        """
        ...


class TaskStore(Protocol):
    """Tasks go out and come back."""

    async def workable(
        self,
        *,
        limit: int,
        now: float,
        only: Only = None,
        known: Known = None,
        ageing_seconds: float = 0.0,
    ) -> list[WorkableBatch]:
        """Batches with tasks to start now: first by tier, then by how long they have waited. Every
        `ageing_seconds` of waiting make a batch one tier more urgent; 0: waiting does not count.
        """
        ...

    async def claim(
        self,
        batch_no: int,
        *,
        member: int,
        limit: int,
        now: float,
        pace_seconds: float = 0.0,
        phase: int | None = None,
        round_no: int | None = None,
    ) -> list[Claim]:
        """Begin attempts: tasks due again first, then new ones. The attempt is counted here, before it
        runs, so that one that kills its worker is counted too. No further claim of the batch gives anything
        before `pace_seconds` have passed. Nothing for one who has been dismissed, and nothing when the batch
        is not in `phase` and `round_no` any more, where they are given: somebody else has moved it.
        """
        ...

    async def earlier(self, batch_no: int, task_nos: Collection[int]) -> dict[int, tuple[Earlier, ...]]:
        """For tasks of directories: the results of the same phase's tasks on the directories right below."""
        ...

    async def settle(self, batch_no: int, settlements: Sequence[Settlement], *, now: float) -> SettleResult:
        """Fold reports. Each is applied only while its attempt is the current one; the batch leaves the
        phase in the same transaction in which the last task settles. A success that arrives after its attempt
        was given up for lost time is still taken while the phase runs and no later attempt is out.
        """
        ...

    async def give_back(self, orders: Sequence[Order]) -> None:
        """Orders that never started: as if they had not been claimed."""
        ...

    async def task(self, batch_no: int, task_no: int) -> TaskStanding:
        """One task as it stands, of whatever phase and round. Raises Missing."""
        ...

    async def running(self, member: int) -> list[Claim]:
        """Attempts that are out with this member, of whatever batch still works."""
        ...

    async def standing(self, batch_nos: Collection[int]) -> dict[int, Position]:
        """Where these batches stand."""
        ...

    async def cached(self, keys: Collection[str]) -> dict[str, StepResult]:
        """Results of earlier runs of the same step on the same bytes."""
        ...

    async def evict(self, keys: Collection[str]) -> None:
        """Forget cached results (their blobs are gone)."""
        ...


class OutboxStore(Protocol):
    """What must be sent, and when to wake."""

    async def outbox(self, limit: int) -> list[OutboxMessage]:
        """The oldest letters not yet sent."""
        ...

    async def sent(self, numbers: Collection[int]) -> None:
        """These are in their queue. Called after the queue has them for good; until then they are offered
        again, and the queue recognises them by their message id.
        """
        ...

    async def next_alarm(self, *, now: float, only: Only = None) -> float | None:
        """The earliest moment after `now` at which something can be done that cannot be done now: a task that
        is due again, a move that was put off, a dispatch that was spaced out. None: only events bring work.
        """
        ...


class MemberStore(Protocol):
    """Who is at work."""

    async def enlist(self, name: str, kind: str, place: str, *, now: float) -> Member:
        """A process begins."""
        ...

    async def beat(self, member: int, *, now: float) -> bool:
        """It lives. False: it was taken for dead and dismissed, and must enlist anew."""
        ...

    async def crew(self) -> list[Member]:
        """Who has not been dismissed."""
        ...

    async def dismiss(self, member: int) -> None:
        """It is gone: the batches it moved are anybody's. Its attempts must have been settled before: while
        one is out in a batch that works, it stays in the crew, and its attempts can be found.
        """
        ...


class ControlStore(Protocol):
    """A person intervenes. Each act is kept in the batch's events; Stale when its state forbids it."""

    async def pause(self, batch_no: int, act: OperatorAction) -> Batch:
        """No further task starts."""
        ...

    async def resume(self, batch_no: int, act: OperatorAction, *, budget: Budget | None = None) -> Batch:
        """Tasks start again; with a new budget when one is given."""
        ...

    async def cancel(self, batch_no: int, act: OperatorAction) -> Batch:
        """The batch ends here; what it has settled stays."""
        ...

    async def reset(self, batch_no: int, act: OperatorAction) -> Batch:
        """The batch ends in error, as an operator's decision."""
        ...

    async def prioritise(self, batch_no: int, tier: int, act: OperatorAction) -> Batch: ...

    async def chosen(self, batch_no: int, selection: Selection) -> RetrySelection:
        """What `again` or `reopen` would run. Changes nothing."""
        ...

    async def again(self, move: Move, selection: Selection, act: OperatorAction) -> Batch:
        """A new round for the failed tasks that are selected, from the phase where the first of them failed.
        What later phases made of those files is withdrawn; everything else stays as it is.
        """
        ...

    async def reopen(self, batch_no: int, act: OperatorAction, *, status: str) -> Batch:
        """A cancelled batch, or one in error, goes on where it stood; failed tasks of its phase run again."""
        ...

    async def acted(self, act: OperatorAction, kind: str, data: dict[str, object]) -> None:
        """Something was done that concerns no single batch: kept among the events of `NO_BATCH`."""
        ...


class Ledger(
    UploadStore,
    BatchStore,
    TaskStore,
    OutboxStore,
    MemberStore,
    ControlStore,
    RecordStore,
    SubmissionStore,
    ApiKeyStore,
    WebhookStore,
    Protocol,
):
    """All doors."""


__all__ = [
    "NO_BATCH",
    "ApiKeyStore",
    "AttemptRecord",
    "BatchDraft",
    "BatchFilter",
    "BatchStore",
    "Claim",
    "ControlStore",
    "FailedTask",
    "FileStory",
    "InputRecord",
    "Known",
    "Ledger",
    "ListedFile",
    "Member",
    "MemberStore",
    "Move",
    "NewFile",
    "NewTask",
    "Only",
    "OperatorAction",
    "OutboxMessage",
    "OutboxStore",
    "RecordStore",
    "RetrySelection",
    "Selection",
    "SettleResult",
    "SettledTask",
    "Settlement",
    "Stray",
    "StrayKind",
    "SubmissionStore",
    "TaskStanding",
    "TaskStore",
    "UnitContent",
    "Upload",
    "UploadStore",
    "Verdict",
    "WebhookStore",
    "WorkableBatch",
]
