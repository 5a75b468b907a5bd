"""The components and limits of the upload protocol, and the names it gives to keys and states."""

import asyncio
import weakref

from msgspec import Struct, field

from quire.batches.context import BatchContext
from quire.blobs.presigned_uploads import PresignedUploads
from quire.engine import handover
from quire.ledger.port import FlowStore
from quire.ledger.submissions import Submission, SubmissionStore
from quire.model.batch import Stage
from quire.model.errors import Missing, Reject
from quire.model.plan import Plan
from quire.queues.port import QueueStore

MIB = 1 << 20
# Files from this size on are uploaded in parts of this size: published clients rely on both numbers.
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
    allowed_extensions: tuple[str, ...] = ()  # empty: all
    url_seconds: int = 86_400
    verify_cid_bytes: int = (
        64 * MIB
    )  # larger files are not read to verify their CID; 0: CIDs are not verified


class UploadContext(BatchContext, frozen=True, kw_only=True):
    """Enough to receive uploads, to archive and to clean up after them."""

    submissions: SubmissionStore
    flow: FlowStore
    queues: QueueStore


class IngestContext(UploadContext, frozen=True, kw_only=True):
    """An upload context with the rules of one server. Caches what never changes of a batch: its number, its
    owner and its tenant.
    """

    presigned: PresignedUploads
    limits: IngestLimits
    pipeline: Plan
    hands_over_to: str = ""
    known_batches: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    locks: weakref.WeakValueDictionary[str, asyncio.Lock] = field(default_factory=weakref.WeakValueDictionary)

    def lock_key(self, key: str) -> asyncio.Lock:
        """A lock for everything in this process that changes the blob under a key."""
        return self.locks.setdefault(key, asyncio.Lock())

    async def get_number(self, batch_id: str) -> int:
        """Raises Missing."""
        return (await self._look_up(batch_id))[0]

    async def get_origin(self, batch_id: str) -> tuple[str, str]:
        """Owner and tenant of a batch, also of one that was not uploaded over HTTP. Raises Missing."""
        try:
            _, owner, tenant = await self._look_up(batch_id)
        except Missing:
            owner, tenant = "", (await self.batches.get_batch(batch_id)).tenant
        return owner, tenant

    async def get_submission(self, batch_id: str) -> Submission:
        """Raises Missing."""
        try:
            found = await self.submissions.get_submission(batch_id)
        except Missing as error:
            raise Missing("Batch not found", code="unknown_batch") from error
        if len(self.known_batches) >= _KNOWN_BATCHES:
            self.known_batches.clear()
        self.known_batches[batch_id] = (found.batch.no, found.owner, found.batch.tenant)
        return found

    async def _look_up(self, batch_id: str) -> tuple[int, str, str]:
        if batch_id not in self.known_batches:
            await self.get_submission(batch_id)
        return self.known_batches[batch_id]


def build_ingest_context(
    context: UploadContext,
    presigned: PresignedUploads,
    limits: IngestLimits,
    *,
    pipeline: str,
    hands_over_to: str,
) -> IngestContext:
    shared = {name: getattr(context, name) for name in UploadContext.__struct_fields__}
    return IngestContext(
        **shared,
        presigned=presigned,
        limits=limits,
        pipeline=context.pipelines[pipeline],
        hands_over_to=hands_over_to,
    )


def bad_request(words: str, code: str = "bad_request") -> Reject:
    return Reject(words, code=code)


def get_protocol_status(submission: Submission) -> str:
    """The status in the protocol: uploading, preprocessing, enqueued, completed, failed."""
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
    return f"{staging_prefix(batch_id)}_manifest.json"


def original_manifest_key(batch_id: str) -> str:
    return handover.original_key(manifest_key(batch_id))
