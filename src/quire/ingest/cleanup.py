"""Cleaning: uploads that nobody goes on with, and the staged files of batches that ended long ago.

Promises: nothing is deleted that somebody may still need: not what is being uploaded, not what waits to be
taken over by the next stage, not a staged file that an asset leads to, not an original whose archive copy is
to be and was not verified. Every clean-up is an event of its batch, and can be looked at beforehand.
"""

import logging
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

from quire.blobs import asset_records
from quire.blobs.presigned import PresignedUploads
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
    """After how many days; 0 is never. `archives`: originals are copied to the archive before they go."""

    idle_upload_days: float = 7.0
    staging_days: float = 30.0
    archives: bool = False


class CleanupCandidate(Struct, frozen=True, kw_only=True):
    """A batch to be cleaned up. `kind`: idle_upload, staging."""

    batch_id: str
    kind: str
    since: str
    files: int
    bytes: int


class CleanupResult(Struct, frozen=True, kw_only=True):
    """`objects` were deleted, `kept` stay because assets lead to them; of the `postponed` batches the archive
    could not be written, and nothing more was deleted.
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

    def cleaned(self) -> CleanupResult:
        return CleanupResult(**vars(self))


async def due(context: UploadContext, terms: CleanupPolicy) -> list[CleanupCandidate]:
    """What a clean-up would take now: at most two hundred of each kind, oldest first."""
    now = context.clock.now()
    found = []
    if terms.idle_upload_days:
        before = now - terms.idle_upload_days * DAY_SECONDS
        idle = await context.submissions.list_idle_submissions(before=before, limit=PAGE)
        found += [_describe_candidate("idle_upload", one, one.active_at) for one in idle]
    if terms.staging_days:
        before = now - terms.staging_days * DAY_SECONDS
        ended = await context.submissions.list_sweepable(before=before, limit=PAGE)
        found += [
            _describe_candidate("staging", one, one.batch.completed_at or 0.0)
            for one in ended
            if not await _awaits_consumer(context, one)
        ]
    return found


async def clean_up(
    context: UploadContext, presigned: PresignedUploads, terms: CleanupPolicy
) -> CleanupResult:
    """May be repeated, and stopped at any moment."""
    tally = _Tally()
    for one in await due(context, terms):
        # Read again: what is due may have been found minutes ago, and gone on since.
        submission = await context.submissions.get_submission(one.batch_id)
        if one.kind == "idle_upload" and await _abandon(context, submission, terms):
            # Not noted as swept: URLs may still be valid, and what arrives by them is found the next time.
            await _empty_staging(context, presigned, submission, tally, archives=False)
            tally.idle_uploads += 1
        elif one.kind == "staging" and submission.batch.ended:
            try:
                await _empty_staging(context, presigned, submission, tally, archives=terms.archives)
            except (Retry, Reject) as error:
                # One batch that cannot be archived must not keep the others.
                _log.warning("archive_postponed batch_id=%s: %s", one.batch_id, error)
                tally.postponed += 1
                continue
            await context.submissions.mark_swept(submission.batch.no, now=context.clock.now())
            tally.stagings += 1
    return tally.cleaned()


async def _abandon(context: UploadContext, submission: Submission, terms: CleanupPolicy) -> bool:
    """False when its sender has come back: it is ended before anything of it is deleted."""
    now = context.clock.now()
    return await context.uploads.abandon_batch(
        submission.batch.no,
        reason=IDLE.format(days=terms.idle_upload_days),
        now=now,
        idle_before=now - terms.idle_upload_days * DAY_SECONDS,
    )


async def _empty_staging(
    context: UploadContext,
    presigned: PresignedUploads,
    submission: Submission,
    tally: _Tally,
    *,
    archives: bool,
) -> None:
    """All that lies in the store of it and that nobody needs is gone."""
    if submission.finalized_at is None:  # otherwise nothing is in parts
        async for upload in _list_multipart(context, submission.batch.no):
            await presigned.abort(*upload)
    await _delete(context, submission, tally, archives=archives)


async def _awaits_consumer(context: UploadContext, submission: Submission) -> bool:
    """Whether the message that hands the batch over may still be in its queue, or dead."""
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
        # Uploads that were never closed are nobody's originals.
        if archives and submission.finalized_at is not None:
            made = await archive_page(context, batch, page)
            places = {one.original_r2_key: one.asset_id for one in made}
            tally.archived += len(made)
        doomed = await _list_deletable(context, page, places)
        for key in doomed:
            await context.blobs.delete(key)
        tally.objects += len(doomed)
        tally.kept += len(page) - len(doomed)


async def _list_deletable(context: UploadContext, page: Sequence[str], places: dict[str, str]) -> list[str]:
    """Those that no asset needs: none leads to them, or it finds its original in the archive."""
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
