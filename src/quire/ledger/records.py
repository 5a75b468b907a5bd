"""Reading for people, never inside a decision: the ledger's door for lists, stories and counters."""

from collections.abc import Collection
from typing import Protocol

from quire.ledger.values import AttemptRecord, BatchFilter, FailedTask, FileVersion, InputRecord, StrayReport
from quire.model.batch import Batch, FileOutcome, PhaseCounts
from quire.model.files import BlobUse


class RecordStore(Protocol):
    """Reading for people. Never inside a decision."""

    async def list_batches(self, wanted: BatchFilter) -> list[Batch]:
        """A page of the list, newest first."""
        ...

    async def list_older_members(self) -> list[str]:
        """The names of processes of an earlier version that are at work: while there are any, batches that
        such a version has begun are not taken over.
        """
        ...

    async def get_start_message(self, batch_no: int) -> str | None:
        """The queue message that started it, untouched."""
        ...

    async def count_tasks(self, batch_no: int) -> list[PhaseCounts]:
        """From counters, in order of phases; costs the same for any size of batch."""
        ...

    async def count_failures(self, batch_no: int) -> dict[str, int]:
        """Failed tasks by error class, from counters."""
        ...

    async def list_failed_tasks(self, batch_no: int, *, after: int = 0, limit: int) -> list[FailedTask]:
        """By number."""
        ...

    async def list_first_failed(self, batch_no: int, *, limit: int) -> list[FailedTask]:
        """The same for people: by phase, path and branch, whatever failed first. Of more than 10,000 only
        those with the lowest numbers are looked at.
        """
        ...

    async def list_inputs(
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

    async def get_file_history(
        self, batch_no: int, path: str
    ) -> tuple[list[FileVersion], list[AttemptRecord]]:
        """All that happened to one input: the files made of it, and every attempt on any of them."""
        ...

    async def find_uses(self, digests: Collection[str], *, limit: int) -> list[BlobUse]:
        """Files that have these bytes, once for each key of a blob, of the newest batch. Looks through all
        files: for repairs, which are rare.
        """
        ...

    async def list_stray_reports(self, batch_no: int, *, limit: int) -> list[StrayReport]:
        """Reports that changed nothing, oldest first."""
        ...

    async def list_events(
        self, batch_no: int, *, after: int = 0, limit: int
    ) -> list[tuple[int, float, str, dict[str, object]]]:
        """What happened (number, time, kind, data), oldest first."""
        ...
