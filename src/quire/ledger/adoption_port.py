"""The door to batches of the former form, which went from phase to phase, all documents together. They go on
as batches that flow: each is adopted once, a chunk of its documents at a time.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from msgspec import Struct

from quire.ledger.flow_values import Effects
from quire.ledger.values import ListedFile
from quire.model.batch import Batch, FileOutcome, TaskState
from quire.model.work import StepResult


class FormerTask(Struct, frozen=True):
    """The task of a document in the phase that its batch was in. `folded`: what it made is in the list."""

    no: int
    state: TaskState
    tries: int
    result: StepResult
    error_class: str
    error: str
    folded: bool


class FormerDocument(Struct, frozen=True):
    """A file of a batch of the former form. `takes_part`: it is in the list, and the batch's present round is
    about it, from phase `enters` on.
    """

    listed: ListedFile
    born: int
    enters: int
    takes_part: bool
    outcome: FileOutcome | None
    task: FormerTask | None


class AdoptedDocument(Struct, frozen=True):
    """What becomes of a document: effects, with doubts about results as `FlowStore.apply_joins` takes them;
    or its task of this number is left to be done; or neither, for a file that no step takes.
    """

    root_no: int
    effects: Effects | None = None
    doubts: tuple[tuple[int, str, str], ...] = ()
    open_task: int | None = None


class AdoptionStore(Protocol):
    async def take_former(
        self,
        member: int,
        *,
        pipelines: Collection[str],
        limit: int,
        now: float,
        only: Collection[int] | None = None,
    ) -> list[Batch]:
        """Take batches of the former form in the midst of their work. See `BatchStore.take_batches`."""
        ...

    async def adopt_batch(
        self, batch: Batch, *, plan: str, digest: str, phases: Sequence[str], waits_at: int | None, now: float
    ) -> Batch | None:
        """The batch flows from now on, by this plan; adopting its documents is a source. Attempts that were
        out have ended as interrupted. None while members of an earlier version are at work. Raises Stale when
        it has moved.
        """
        ...

    async def list_former(self, batch: Batch, *, limit: int) -> list[FormerDocument]:
        """The next files of a batch that is being adopted, by number."""
        ...

    async def adopt_documents(
        self, batch: Batch, adopted: Sequence[AdoptedDocument], *, cursor: int, complete: bool, now: float
    ) -> Batch:
        """Files up to `cursor` are adopted. Raises Stale when others came first. Tasks that are left get
        numbers with their phase; the former ones are found by `find_adopted`.
        """
        ...

    async def find_adopted(self, batch_no: int, task_no: int) -> int | None:
        """The number that a task has got when its batch was adopted."""
        ...
