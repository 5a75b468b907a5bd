"""What the use cases of uploading work with, and the limits they keep."""

import asyncio
import weakref

from msgspec import Struct

from quire.batches.context import BatchContext
from quire.blobs.presigned import PresignedUploads
from quire.engine import handover
from quire.ledger.port import FileStore
from quire.ledger.submissions import Submission, SubmissionStore
from quire.model.batch import Stage
from quire.model.errors import Missing, Reject
from quire.queues.port import QueueStore

MIB = 1 << 20
# From this size on a file comes in parts of this size: numbers that published clients compute with.
MULTIPART_FROM = 5 * MIB
PART_SIZE = 10 * MIB
MESSAGE_BYTES = 128_000
_KNOWN_BATCHES = 10_000


class IngestLimits(Struct, frozen=True, kw_only=True):
    max_batch_bytes: int = 107_374_182_400
    max_file_bytes: int = 5_368_709_120
    max_files: int = 1_000_000
    prompt_characters: int = 60_000
    prompts_characters: int = 80_000
    allowed_extensions: tuple[str, ...] = ()  # none named: all
    url_seconds: int = 86_400
    verify_cid_bytes: int = 64 * MIB  # larger ones are not read again for it; 0: CIDs are not looked at


class UploadContext(BatchContext, frozen=True, kw_only=True):
    """Enough to receive uploads, to archive and to clean up after them."""

    submissions: SubmissionStore
    files: FileStore
    queues: QueueStore


class IngestContext:
    """One per process. Remembers what never changes of a batch: its number and whose it is."""

    def __init__(
        self,
        context: UploadContext,
        presigned: PresignedUploads,
        limits: IngestLimits,
        *,
        pipeline: str,
        hands_over_to: str,
    ) -> None:
        self.office = context
        self.presigned = presigned
        self.limits = limits
        self.pipeline = context.pipelines[pipeline]
        self.hands_over_to = hands_over_to
        self._known: dict[str, tuple[int, str, str]] = {}
        self._busy: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def alone_with(self, key: str) -> asyncio.Lock:
        """Of those who change what lies under a key, one at a time; those in this process, that is."""
        return self._busy.setdefault(key, asyncio.Lock())

    async def number(self, batch_id: str) -> int:
        """Raises Missing."""
        return (await self._looked_up(batch_id))[0]

    async def origin(self, batch_id: str) -> tuple[str, str]:
        """Who opened it and for which tenant, also of batches that came in another way. Raises Missing."""
        try:
            _, owner, tenant = await self._looked_up(batch_id)
        except Missing:
            owner, tenant = "", (await self.office.batches.get_batch(batch_id)).tenant
        return owner, tenant

    async def _looked_up(self, batch_id: str) -> tuple[int, str, str]:
        if batch_id not in self._known:
            await self.submission(batch_id)
        return self._known[batch_id]

    async def submission(self, batch_id: str) -> Submission:
        """Raises Missing."""
        try:
            found = await self.office.submissions.get_submission(batch_id)
        except Missing as error:
            raise Missing("Batch not found", code="unknown_batch") from error
        if len(self._known) >= _KNOWN_BATCHES:
            self._known.clear()
        self._known[batch_id] = (found.batch.no, found.owner, found.batch.tenant)
        return found


def bad_request(words: str, code: str = "bad_request") -> Reject:
    return Reject(words, code=code)


def get_protocol_status(submission: Submission) -> str:
    """In the words of the protocol: uploading, preprocessing, enqueued, completed, failed."""
    batch = submission.batch
    match batch.position.stage:
        case Stage.OPEN:
            return "uploading"
        case Stage.ERROR | Stage.CANCELLED:
            return "failed"
        case Stage.DONE:
            return "enqueued" if batch.hands_over_to else "completed"
        case _:
            return "preprocessing"


def staging_prefix(batch_id: str) -> str:
    return f"staging/{batch_id}/"


def manifest_key(batch_id: str) -> str:
    return f"{prefix_of(batch_id)}_manifest.json"


def original_manifest_key(batch_id: str) -> str:
    return handover.original_key(manifest_key(batch_id))
