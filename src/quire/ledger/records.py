"""Reading for people, never inside a decision: the ledger's door for lists, stories and counters."""

from typing import Protocol

from quire.ledger.values import (
    AttemptRecord,
    BatchFilter,
    FailedTask,
    FileStory,
    InputRecord,
    Stray,
)
from quire.model.batch import Batch, FileOutcome, PhaseCounts


class RecordStore(Protocol):
    """Reading for people. Never inside a decision."""

    async def batches(self, wanted: BatchFilter) -> list[Batch]:
        """A page of the list, newest first."""
        ...

    async def message(self, batch_no: int) -> str | None:
        """The queue message that started it, untouched."""
        ...

    async def counts(self, batch_no: int) -> list[PhaseCounts]:
        """From counters, in order of phases; costs the same for any size of batch."""
        ...

    async def failures(self, batch_no: int) -> dict[str, int]:
        """Failed tasks by error class, from counters."""
        ...

    async def failed_tasks(self, batch_no: int, *, after: int = 0, limit: int) -> list[FailedTask]:
        """By number."""
        ...

    async def inputs(
        self,
        batch_no: int,
        *,
        after: str = "",
        limit: int,
        outcome: FileOutcome | None = None,
        error_class: str | None = None,
    ) -> list[InputRecord]:
        """Offered files with their ends, in order of path."""
        ...

    async def story(self, batch_no: int, path: str) -> tuple[list[FileStory], list[AttemptRecord]]:
        """All that happened to one input: the files made of it, and every attempt on any of them."""
        ...

    async def strays(self, batch_no: int, *, limit: int) -> list[Stray]:
        """Reports that changed nothing, oldest first."""
        ...

    async def events(
        self, batch_no: int, *, after: int = 0, limit: int
    ) -> list[tuple[int, float, str, dict[str, object]]]:
        """What happened (number, time, kind, data), oldest first."""
        ...
