"""The door for files that arrive over HTTP: a sender opens a batch, announces each file, and closes it.

Every writing method is one transaction and durable when it returns. What is announced is kept beside what the
other ways in take note of (`Upload`, states `awaited` and `taken`): after the end of the uploads a batch is a
batch, however it came in.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from quire.ledger.values import BatchDraft, OutboxMessage, Upload
from quire.model.batch import Batch

AWAITED = "awaited"  # announced; the bytes may be on their way
TAKEN = "taken"


class OwnerQuota(Struct, frozen=True, kw_only=True):
    """How much an owner may have; 0: any number. With `counts_kept` also of batches that have ended, as long
    as their files are staged.
    """

    max_bytes: int = 0
    max_files: int = 0
    counts_kept: bool = False


NO_QUOTA = OwnerQuota()


class UploadLimits(Struct, frozen=True, kw_only=True):
    """How much may be announced: in a batch, and in all of its owner."""

    max_files: int = 0
    max_bytes: int = 0
    owner: OwnerQuota = NO_QUOTA


NO_LIMITS = UploadLimits()


class NewSubmission(Struct, frozen=True, kw_only=True):
    """A batch that is opened by a sender. `idempotency_key` names the request, `fingerprint` its content."""

    draft: BatchDraft
    session_id: str
    uploader: str
    root_path: str
    parent_pi: str
    file_count: int
    total_size: int
    metadata: dict[str, Any] = field(default_factory=dict)
    custom_prompts: dict[str, str] = field(default_factory=dict)
    owner: str = ""  # id of the API key that opened it
    idempotency_key: str | None = None
    fingerprint: str = ""
    max_batches: int = 0  # of this owner that have not ended, with this one; 0: any number
    quota: OwnerQuota = NO_QUOTA


class Submission(Struct, frozen=True, kw_only=True):
    """What a sender said of its batch, and how much of it has arrived. `revision` grows with every change of
    the announced files.
    """

    batch: Batch
    session_id: str
    uploader: str
    root_path: str
    parent_pi: str
    file_count: int
    total_size: int
    metadata: dict[str, Any] = field(default_factory=dict)
    custom_prompts: dict[str, str] = field(default_factory=dict)
    owner: str = ""
    files_announced: int = 0
    files_taken: int = 0
    bytes_taken: int = 0
    revision: int = 0
    active_at: float = 0.0
    finalized_at: float | None = None
    swept_at: float | None = None


class OwnerLoad(Struct, frozen=True):
    """What an owner has: batches that have not ended, and their bytes and files. Of an open batch those that
    its files were announced with, or those said at its opening, if these are more; of others those received.
    """

    batches: int
    bytes: int
    files: int


class SubmissionStore(Protocol):
    """Files arrive over HTTP."""

    async def open_submission(self, new: NewSubmission) -> Submission:
        """A new batch that takes uploads, with the event `batch_opened`. With an idempotency key that this
        owner has used: that batch, untouched, when the fingerprint is the same; otherwise Reject with code
        `idempotency_conflict`. Raises Retry `quota` when the owner would have more open than it may.
        """
        ...

    async def get_submission(self, batch_id: str) -> Submission:
        """Raises Missing, also for a batch that came in another way."""
        ...

    async def announce_upload(
        self, batch_no: int, upload: Upload, *, now: float, limits: UploadLimits = NO_LIMITS
    ) -> Upload | None:
        """A file is to come (state `awaited`). Announced again it takes the place of the earlier one, also of
        one that has been taken: the answer is the earlier one. Raises Stale when the batch is not open any
        more, Reject `path_collides` when the path is the folder of another one or lies below one, Reject
        `too_large` when the batch would exceed its limits, Retry `quota` when its owner would. Then nothing
        is changed; announcements that come at once count each other.
        """
        ...

    async def get_upload(self, batch_no: int, path: str) -> Upload:
        """Raises Missing."""
        ...

    async def record_received(self, batch_no: int, upload: Upload, *, now: float) -> None:
        """It lies in the store: the note becomes `upload` (state `taken`). No effect when it is noted so
        already. Raises Stale when the file was announced anew since `upload.stamp` or withdrawn, or the batch
        is not open.
        """
        ...

    async def withdraw_upload(
        self, batch_no: int, path: str, *, now: float, awaited_only: bool = False
    ) -> Upload | None:
        """The file does not come after all; what was noted of it. With `awaited_only` one that has been taken
        stays, and the answer is None. Raises Stale when the batch is not open.
        """
        ...

    async def list_awaited(self, batch_no: int, *, limit: int) -> list[Upload]:
        """Announced files that have not been taken, in order of path."""
        ...

    async def list_arrivals(
        self, batch_no: int, *, after: tuple[str, str] | None, limit: int
    ) -> list[Upload]:
        """All of them, in order of (folder, path), those after the named pair only. The folder is the path up
        to its last `/`, and `/` at the top.
        """
        ...

    async def accept_processed(
        self, batch_no: int, uploads: Sequence[Upload], *, message: OutboxMessage, now: float
    ) -> Submission:
        """A foreign orchestrator has preprocessed the batch: these files take the place of those that were
        uploaded, totals are theirs, the batch is done, the letter goes out; all in one transaction. What our
        own engine did of it so far is dropped. Raises Stale unless it is closed and has not ended.
        """
        ...

    async def measure_load(self, owner: str, *, counts_kept: bool = False) -> OwnerLoad: ...

    async def list_idle_submissions(self, *, before: float, limit: int) -> list[Submission]:
        """Open ones that nothing was sent to since, oldest first."""
        ...

    async def list_sweepable(self, *, before: float, limit: int) -> list[Submission]:
        """Ended before that moment and not swept yet, oldest first."""
        ...

    async def mark_swept(self, batch_no: int, *, now: float) -> None:
        """Its staging is gone; event `staging_swept`."""
        ...
