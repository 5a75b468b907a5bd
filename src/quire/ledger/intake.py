"""The door for batches that flow while their files still come in: `quire run` lists a folder, then stores its
files and gives each its first tasks.

A folder's names are written in one transaction before any of its files gets a task, for what results are
called depends on them. The intake is a source of tasks: the batch cannot end before it is closed.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from msgspec import Struct

from quire.ledger.flow_values import Follower
from quire.ledger.values import Upload
from quire.model.batch import Batch
from quire.model.files import File

# Roles of inputs that are listed and not (or not yet) documents of the batch.
AWAITED = "awaited"  # its bytes are being stored
NAME = "name"  # a folder, or a file that was refused or is not taken: only its name counts


class FolderNames(Struct, frozen=True, kw_only=True):
    """The names right in a folder: files that will be taken, and files and folders (with a slash at their
    end) that only keep their names. `refusals` are files that are not accepted, with the reason.
    """

    awaited: Sequence[str]
    names: Sequence[str] = ()
    refusals: Sequence[Upload] = ()


class ListedName(Struct, frozen=True):
    """A name that was listed. `role`: awaited, input or name."""

    no: int
    path: str
    role: str


class TakenFile(Struct, frozen=True):
    """A listed file whose bytes are stored, with its first tasks (None: no step takes it), or one that could
    not be read.
    """

    no: int
    upload: Upload
    file: File | None
    first: Follower | None = None


class FinishedInput(Struct, frozen=True):
    """An input, whether it has walked to its end, and the files made of it."""

    no: int
    path: str
    finished: bool
    made: list[tuple[str, File]]


class IntakeStore(Protocol):
    async def begin_intake(
        self,
        batch: Batch,
        *,
        phases: Sequence[str],
        waits_at: int | None,
        now: float,
        delays: Sequence[float] = (),
    ) -> Batch:
        """An open batch begins to flow; its intake is the first source. `delays` are seconds, by phase,
        before its first task starts. Raises Stale when it has begun.
        """
        ...

    async def list_folder(self, batch_no: int, folder: FolderNames, *, now: float) -> list[ListedName]:
        """Write the names of a folder; the answer has those of files. May be repeated. Raises Stale when the
        intake is closed or the batch has ended, or when the folder was listed with other names before.
        """
        ...

    async def list_names(self, batch_no: int, *, after: int, limit: int) -> list[ListedName]:
        """The listed names by number, folders with a slash at their end."""
        ...

    async def take_files(self, batch_no: int, files: Sequence[TakenFile], *, now: float) -> None:
        """Record listed files and their first tasks. May be repeated. Raises Stale as above."""
        ...

    async def close_intake(
        self,
        batch_no: int,
        *,
        manifest_key: str,
        total_files: int,
        message: bytes,
        refused: int,
        passed_over: int,
        now: float,
    ) -> Batch:
        """All files are there; the event is `batch_finalized`. Raises Stale as above."""
        ...

    async def list_runs(self, run_key: str) -> list[Batch]:
        """All batches submitted with this key, oldest first."""
        ...

    async def list_finished(
        self, batch_no: int, *, after: int, numbers: Collection[int], limit: int
    ) -> tuple[list[FinishedInput], int]:
        """Those of `numbers` and the inputs that follow on `after`, whether they have walked to their ends,
        and up to which number the latter were looked at.
        """
        ...

    async def list_withdrawn(self, batch_no: int, *, after: int, limit: int) -> list[tuple[int, File]]:
        """Results that a later round withdrew, by number, whose paths belong to no other result."""
        ...
