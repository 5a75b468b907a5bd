"""Cleaning: uploads that nobody goes on with, and the staged files of batches that ended long ago.

Promises: nothing is deleted that somebody may still need: not what is being uploaded, not what waits to be
taken over by the next stage. Every clean-up is an event of its batch, and can be looked at beforehand.
"""

from collections.abc import AsyncIterator

from msgspec import Struct

from quire.blobs.landing import Landing
from quire.ledger.reception import Submission
from quire.model.batch import Stage
from quire.model.clock import timestamp
from quire.model.errors import Missing
from quire.service.house import Office
from quire.service.ingest.front import prefix_of

PAGE = 200
DAY_SECONDS = 86_400.0
IDLE = "nothing was uploaded for {days:g} days; open a new batch to send the files again"


class Terms(Struct, frozen=True, kw_only=True):
    """After how many days; 0 is never."""

    idle_upload_days: float = 7.0
    staging_days: float = 30.0


class Due(Struct, frozen=True, kw_only=True):
    """A batch to be cleaned up. `kind`: idle_upload, staging."""

    batch_id: str
    kind: str
    since: str
    files: int
    bytes: int


class Cleaned(Struct, frozen=True, kw_only=True):
    idle_uploads: int = 0
    stagings: int = 0
    objects: int = 0


async def due(office: Office, terms: Terms) -> list[Due]:
    """What a clean-up would take now: at most two hundred of each kind, oldest first."""
    now = office.clock.now()
    found = []
    if terms.idle_upload_days:
        before = now - terms.idle_upload_days * DAY_SECONDS
        idle = await office.ledger.idle_submissions(before=before, limit=PAGE)
        found += [_due("idle_upload", one, one.active_at) for one in idle]
    if terms.staging_days:
        before = now - terms.staging_days * DAY_SECONDS
        ended = await office.ledger.sweepable(before=before, limit=PAGE)
        found += [
            _due("staging", one, one.batch.completed_at or 0.0)
            for one in ended
            if not await _waits_for_takeover(office, one)
        ]
    return found


async def clean(office: Office, landing: Landing, terms: Terms) -> Cleaned:
    """May be repeated, and stopped at any moment."""
    uploads = stagings = objects = 0
    for one in await due(office, terms):
        # Read again: what is due may have been found minutes ago, and gone on since.
        submission = await office.ledger.submission(one.batch_id)
        if one.kind == "idle_upload" and await _abandoned(office, submission, terms):
            # Not noted as swept: URLs may still be valid, and what arrives by them is found the next time.
            objects += await _emptied(office, landing, submission)
            uploads += 1
        elif one.kind == "staging" and submission.batch.ended:
            objects += await _emptied(office, landing, submission)
            await office.ledger.swept(submission.batch.no, now=office.clock.now())
            stagings += 1
    return Cleaned(idle_uploads=uploads, stagings=stagings, objects=objects)


async def _abandoned(office: Office, submission: Submission, terms: Terms) -> bool:
    """False when its sender has come back: it is ended before anything of it is deleted."""
    now = office.clock.now()
    return await office.ledger.abandon(
        submission.batch.no,
        reason=IDLE.format(days=terms.idle_upload_days),
        now=now,
        idle_before=now - terms.idle_upload_days * DAY_SECONDS,
    )


async def _emptied(office: Office, landing: Landing, submission: Submission) -> int:
    """All that lies in the store of it is gone; how many objects that were."""
    batch = submission.batch
    if submission.finalized_at is None:  # otherwise nothing is in parts
        async for upload in _in_parts(office, batch.no):
            await landing.give_up(*upload)
    return await _delete(office, batch.id)


async def _waits_for_takeover(office: Office, submission: Submission) -> bool:
    """Whether the message that hands the batch over may still be in its queue, or dead."""
    batch = submission.batch
    if batch.position.stage is not Stage.DONE or not batch.hands_over_to:
        return False
    queues, queue, ended = office.queues, batch.hands_over_to, batch.completed_at or 0.0
    depth = await queues.depth(queue, now=office.clock.now())
    if depth.leased or depth.delayed or (depth.oldest_at is not None and depth.oldest_at <= ended):
        return True
    try:
        await queues.dead_letter(queue, f"handover-{batch.id}")
    except Missing:
        return False
    return True


async def _in_parts(office: Office, number: int) -> AsyncIterator[tuple[str, str]]:
    after = None
    while page := await office.ledger.arrivals(number, after=after, limit=PAGE):
        after = (page[-1].path.rpartition("/")[0] or "/", page[-1].path)
        for upload in page:
            if upload.upload_id and upload.taken_at is None:
                yield upload.key, upload.upload_id


async def _delete(office: Office, batch_id: str) -> int:
    deleted = 0
    # A page at a time: a store need not list well while what it lists is deleted.
    while keys := await _some(office, prefix_of(batch_id)):
        for key in keys:
            await office.blobs.delete(key)
        deleted += len(keys)
    return deleted


async def _some(office: Office, prefix: str) -> list[str]:
    keys: list[str] = []
    async for stored in office.blobs.list(prefix):
        keys.append(stored.key)
        if len(keys) >= PAGE:
            break
    return keys


def _due(kind: str, submission: Submission, since: float) -> Due:
    return Due(
        batch_id=submission.batch.id,
        kind=kind,
        since=timestamp(since),
        files=submission.files_announced,
        bytes=submission.bytes_taken,
    )
