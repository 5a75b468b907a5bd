"""What is known: batches, files, tasks, attempts, alarms, and what waits to be sent.

Four small doors on one store. Every writing method is one transaction and durable when it returns; every
one may be repeated after a crash: it then either does the same again or raises Stale.
The ledger keeps and fences; which task is tried again and what becomes of a file is decided by the engine.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from msgspec import Struct, field

from quire.model.batch import Batch, FileOutcome, PhaseCounts, Position, TaskState
from quire.model.files import File
from quire.model.pipeline import Added
from quire.model.work import Order, Report, StepResult


class BatchDraft(Struct, frozen=True, kw_only=True):
    id: str
    run_key: str | None
    pipeline: str
    pipeline_version: int
    plan: str
    now: float


class Upload(Struct, frozen=True, kw_only=True):
    """A file that was offered: taken, failed or skipped. `stamp` tells whether its source has changed."""

    path: str
    state: str
    size: int = 0
    stamp: str = ""
    key: str = ""
    digest: str = ""
    content_type: str = ""
    error_class: str = ""
    reason: str = ""


class Letter(Struct, frozen=True, kw_only=True):
    """A message in the outbox. `no` is 0 until it is stored."""

    queue: str
    message_id: str
    body: bytes
    no: int = 0


class ListedFile(Struct, frozen=True):
    no: int
    root_no: int
    file: File


class SettledTask(Struct, frozen=True):
    """A task whose result is to be folded into the file list."""

    task_no: int
    state: TaskState
    tries: int
    listed: ListedFile
    result: StepResult
    error_class: str
    error: str


class Verdict(Struct, frozen=True):
    """What a settled task says about the input file it descends from."""

    root_no: int
    outcome: FileOutcome
    tries: int
    error_class: str | None = None
    reason: str | None = None


class NewFile(Struct, frozen=True):
    no: int
    root_no: int
    added: Added


class Move(Struct, frozen=True, kw_only=True):
    """One move of a batch: from where it must stand, to where, with all that changes on the way."""

    batch_no: int
    expect: Position
    to: Position
    status: str
    now: float
    opens_phase: str | None = None  # name of the phase that `to` enters for the first time
    new_files: Sequence[NewFile] = ()
    retagged: Sequence[tuple[int, tuple[str, ...]]] = ()  # (file_no, tags)
    gone: Sequence[int] = ()  # file numbers that leave the list
    new_tasks: Sequence[tuple[int, int]] = ()  # (task_no, file_no) in phase `to.phase`
    verdicts: Sequence[Verdict] = ()
    skips: tuple[str, str] | None = None  # (error class, reason) of inputs that no task was made for
    last_file: int | None = None
    last_task: int | None = None
    error: str | None = None
    letter: Letter | None = None
    event: tuple[str, dict[str, object]] | None = None


class Claim(Struct, frozen=True):
    """An order on its way out, with what the retry rules need to know when it comes back."""

    order: Order
    failures: int
    interruptions: int
    started_at: float


class Settlement(Struct, frozen=True, kw_only=True):
    """A report and what the engine made of it. `blame` adds to failures, otherwise to interruptions."""

    report: Report
    state: TaskState
    due_at: float | None = None
    blame: bool = False
    cached: bool = False
    cache_key: str | None = None


class Settled(Struct, frozen=True):
    """How many settlements were applied; the rest are kept as strays. `phase_ended`: the last task is in."""

    applied: int
    strays: int
    phase_ended: bool


class InputRecord(Struct, frozen=True, kw_only=True):
    """The end of one input file, for reports."""

    path: str
    outcome: FileOutcome
    size: int
    error_class: str = ""
    reason: str = ""
    attempts: int = 0
    made: list[tuple[str, File]] = field(default_factory=list)  # (role, file), the order they were made in


class Intake(Protocol):
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
        self, batch_no: int, *, manifest_key: str, total_files: int, letter: Letter, now: float
    ) -> Batch:
        """Close the batch and put the message that starts it into the outbox, in one transaction.
        Raises Stale when the batch is not open any more.
        """
        ...

    async def delivered(self, batch_no: int, *, now: float) -> None:
        """Its results lie where they were asked for: a repeated request is a new one."""
        ...

    async def abandon(self, batch_no: int, *, reason: str, now: float) -> None:
        """End a batch that will not be continued. No effect on one that has ended."""
        ...


class Walk(Protocol):
    """A batch moves."""

    async def batch(self, batch_id: str) -> Batch:
        """Where it stands. Raises Missing."""
        ...

    async def apply(self, move: Move) -> Batch:
        """Make one move. Raises Stale, changing nothing, when the batch is not where `expect` says."""
        ...

    async def files(self, batch_no: int, *, after: int, limit: int) -> list[ListedFile]:
        """The present file list, by number."""
        ...

    async def taken(self, batch_no: int, paths: Collection[str]) -> dict[str, int]:
        """How many files of the batch bear each of these case-folded paths, assets and replaced ones
        included: results lie beside each other in one folder. Paths with none are left out.
        """
        ...

    async def settled_tasks(self, batch_no: int, *, phase: int, after: int, limit: int) -> list[SettledTask]:
        """The phase's tasks with their results, by number; all of them are settled when this is asked."""
        ...

    async def claim(self, batch_no: int, *, limit: int, now: float) -> list[Claim]:
        """Begin attempts: tasks due again first, then new ones. The attempt is counted here, before it
        runs, so that one that kills its worker is counted too.
        """
        ...

    async def settle(self, batch_no: int, settlements: Sequence[Settlement], *, now: float) -> Settled:
        """Fold reports. Each is applied only while its attempt is the current one; the batch leaves the
        phase in the same transaction in which the last task settles.
        """
        ...

    async def give_back(self, orders: Sequence[Order]) -> None:
        """Orders that never started: as if they had not been claimed."""
        ...

    async def running(self, batch_no: int) -> list[Claim]:
        """Attempts that are out. After a restart of the only conductor: those that went down with it."""
        ...

    async def cached(self, keys: Collection[str]) -> dict[str, StepResult]:
        """Results of earlier runs of the same step on the same bytes."""
        ...

    async def evict(self, keys: Collection[str]) -> None:
        """Forget cached results (their blobs are gone)."""
        ...


class Post(Protocol):
    """What must be sent, and when to wake."""

    async def outbox(self, limit: int) -> list[Letter]:
        """The oldest letters not yet sent."""
        ...

    async def sent(self, numbers: Collection[int]) -> None:
        """These are in their queue. Called after the queue has them for good; until then they are offered
        again, and the queue recognises them by their message id.
        """
        ...

    async def next_alarm(self, batch_no: int) -> float | None:
        """When the batch wants to be woken."""
        ...

    async def clear_alarm(self, batch_no: int, *, now: float) -> None:
        """The alarm has rung: set it to the next due task, or remove it. An alarm in the future stays."""
        ...


class Records(Protocol):
    """Reading for people. Never inside a decision."""

    async def counts(self, batch_no: int) -> list[PhaseCounts]:
        """From counters, in order of phases; costs the same for any size of batch."""
        ...

    async def inputs(self, batch_no: int, *, after: str = "", limit: int) -> list[InputRecord]:
        """Each offered file with its end, in order of path."""
        ...

    async def events(self, batch_no: int, *, limit: int) -> list[tuple[float, str, dict[str, object]]]:
        """What happened, oldest first."""
        ...


class Ledger(Intake, Walk, Post, Records, Protocol):
    """All four doors."""
