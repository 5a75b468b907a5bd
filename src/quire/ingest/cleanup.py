"""Cleaning: abandons idle uploads and deletes the staged files of batches that ended long ago.

Promises: nothing is deleted that is still needed: no running upload, no batch that the next stage has not
consumed yet, no staged file that an asset refers to, no original whose archive copy is wanted and was not
verified. Every clean-up is an event of its batch and can be previewed.
"""

import logging
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

from quire.blobs import asset_records
from quire.blobs.presigned_uploads import PresignedUploads
from quire.ingest.archive import archive_page, list_staged
from quire.ingest.context import UploadContext
from quire.ledger.submissions import Submission
from quire.model.batch import Stage
from quire.model.clock import timestamp
from quire.model.errors import Missing, Reject, Retry
from quire.model.files import folder_of

_log = logging.getLogger("quire.cleaning")

PAGE = 200
DAY_SECONDS = 86_400.0
IDLE = "nothing was uploaded for {days:g} days; open a new batch to send the files again"


class CleanupPolicy(Struct, frozen=True, kw_only=True):
    """After how many days; 0 is never. `archives`: originals are archived before they are deleted."""

    idle_upload_days: float = 7.0
    staging_days: float = 30.0
    archives: bool = False


class CleanupCandidate(Struct, frozen=True, kw_only=True):
    """A batch that is due for cleaning. `kind`: idle_upload, staging."""

    batch_id: str
    kind: str
    since: str
    files: int
    bytes: int


class CleanupResult(Struct, frozen=True, kw_only=True):
    """`objects` were deleted, `kept` stay because assets refer to them; `postponed` batches could not be
    archived, and nothing more of them was deleted.
    """

    idle_uploads: int = 0
    stagings: int = 0
    objects: int = 0
    kept: int = 0
    archived: int = 0
    postponed: int = 0


class _Tally:
    def __init__(self) -> None:
        self.idle_uploads = self.stagings = self.objects = self.kept = self.archived = self.postponed = 0

    def build_result(self) -> CleanupResult:
        return CleanupResult(**vars(self))


async def list_due(context: UploadContext, policy: CleanupPolicy) -> list[CleanupCandidate]:
    """What a clean-up would delete now: at most two hundred batches of each kind, oldest first."""
    now = context.clock.now()
    found = []
    if policy.idle_upload_days:
        before = now - policy.idle_upload_days * DAY_SECONDS
        idle = await context.submissions.list_idle_submissions(before=before, limit=PAGE)
        found += [_describe_candidate("idle_upload", one, one.active_at) for one in idle]
    if policy.staging_days:
        before = now - policy.staging_days * DAY_SECONDS
        ended = await context.submissions.list_sweepable(before=before, limit=PAGE)
        found += [
            _describe_candidate("staging", one, one.batch.completed_at or 0.0)
            for one in ended
            if not await _awaits_consumer(context, one)
        ]
    return found


async def clean_up(
    context: UploadContext, presigned: PresignedUploads, policy: CleanupPolicy
) -> CleanupResult:
    """May be repeated, and stopped at any moment."""
    tally = _Tally()
    for one in await list_due(context, policy):
        # Read again: the candidates may have been found minutes ago, and continued since.
        submission = await context.submissions.get_submission(one.batch_id)
        if one.kind == "idle_upload" and await _abandon(context, submission, policy):
            # Not marked as swept: URLs may still be valid; what arrives by them is deleted the next time.
            await _empty_staging(context, presigned, submission, tally, archives=False)
            tally.idle_uploads += 1
        elif one.kind == "staging" and submission.batch.ended:
            try:
                await _empty_staging(context, presigned, submission, tally, archives=policy.archives)
            except (Retry, Reject) as error:
                # One batch that cannot be archived must not hold up the others.
                _log.warning("archive_postponed batch_id=%s: %s", one.batch_id, error)
                tally.postponed += 1
                continue
            await context.submissions.mark_swept(submission.batch.no, now=context.clock.now())
            tally.stagings += 1
    return tally.build_result()


async def _abandon(context: UploadContext, submission: Submission, policy: CleanupPolicy) -> bool:
    """End the batch before anything of it is deleted; False when its sender has continued."""
    now = context.clock.now()
    return await context.uploads.abandon_batch(
        submission.batch.no,
        reason=IDLE.format(days=policy.idle_upload_days),
        now=now,
        idle_before=now - policy.idle_upload_days * DAY_SECONDS,
    )


async def _empty_staging(
    context: UploadContext,
    presigned: PresignedUploads,
    submission: Submission,
    tally: _Tally,
    *,
    archives: bool,
) -> None:
    """Delete everything of the batch in the store that is not needed."""
    if submission.finalized_at is None:  # a closed batch has no unfinished parts
        async for upload in _list_multipart(context, submission.batch.no):
            await presigned.abort(*upload)
    await _delete(context, submission, tally, archives=archives)


async def _awaits_consumer(context: UploadContext, submission: Submission) -> bool:
    """Whether the hand-over message may still be in its queue, or among the dead letters."""
    batch = submission.batch
    if batch.position.stage is not Stage.DONE or not batch.hands_over_to:
        return False
    queues, queue, ended = context.queues, batch.hands_over_to, batch.completed_at or 0.0
    depth = await queues.depth(queue, now=context.clock.now())
    if depth.leased or depth.delayed or (depth.oldest_at is not None and depth.oldest_at <= ended):
        return True
    try:
        await queues.get_dead_letter(queue, f"handover-{batch.id}")
    except Missing:
        return False
    return True


async def _list_multipart(context: UploadContext, number: int) -> AsyncIterator[tuple[str, str]]:
    after = None
    while page := await context.submissions.list_arrivals(number, after=after, limit=PAGE):
        after = (folder_of(page[-1].path), page[-1].path)
        for upload in page:
            if upload.upload_id and upload.taken_at is None:
                yield upload.key, upload.upload_id


async def _delete(context: UploadContext, submission: Submission, tally: _Tally, *, archives: bool) -> None:
    batch, after = submission.batch, ""
    # A page at a time: a store need not list well while what it lists is deleted.
    while page := await list_staged(context, batch.id, after):
        after = page[-1]
        places: dict[str, str] = {}
        # A batch that was never closed has no originals.
        if archives and submission.finalized_at is not None:
            made = await archive_page(context, batch, page)
            places = {one.original_r2_key: one.asset_id for one in made}
            tally.archived += len(made)
        deletable = await _list_deletable(context, page, places)
        for key in deletable:
            await context.blobs.delete(key)
        tally.objects += len(deletable)
        tally.kept += len(page) - len(deletable)


async def _list_deletable(context: UploadContext, page: Sequence[str], places: dict[str, str]) -> list[str]:
    """The keys that no asset needs: none refers to them, or its original is in the archive."""
    free = []
    for key in page:
        held = await asset_records.find_holder(context.blobs, key)
        if held is None or (held and places.get(key) == held):
            free.append(key)
    return free


def _describe_candidate(kind: str, submission: Submission, since: float) -> CleanupCandidate:
    return CleanupCandidate(
        batch_id=submission.batch.id,
        kind=kind,
        since=timestamp(since),
        files=submission.files_announced,
        bytes=submission.bytes_taken,
    )
