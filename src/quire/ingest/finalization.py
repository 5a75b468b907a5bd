"""Closes an uploaded batch: writes its manifest and puts the message that starts it into the outbox.

Promise: a batch is closed once, however many clients ask and however often; the manifest lists exactly what
the ledger had when the batch was closed, and that is what was stored when it was measured before. Concurrent
requests write the manifest by compare-and-swap, so a slow one cannot replace a newer list by an older one.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct, structs

from quire.batches.submission import PAGE, close_batch, read_condition
from quire.blobs.port import Condition
from quire.ingest.context import IngestContext, bad_request, get_protocol_status, manifest_key
from quire.ingest.measurement import await_lost
from quire.ingest.new_batch import describe_sender
from quire.ledger.port import Upload
from quire.ledger.submissions import Submission
from quire.model.batch import Stage
from quire.model.errors import Reject, Retry, Stale
from quire.model.files import folder_of

TRIES = 5
SHOWN_INCOMPLETE = 1000


class IncompleteBatch(Reject):
    """Announced files have not arrived; `names` are their file names."""

    code = "incomplete"

    def __init__(self, names: list[str]) -> None:
        super().__init__("Not all files completed")
        self.names = names


class ClosedBatch(Struct, frozen=True, kw_only=True):
    """`files` and `size` are those of the moment in which the batch was closed."""

    submission: Submission
    files: int
    size: int

    @property
    def warnings(self) -> list[str]:
        """Where the received files differ from what the sender announced when it opened the batch."""
        files, size, warnings = self.submission.file_count, self.submission.total_size, []
        if self.files != files:
            warnings.append(f"{files} files were announced at init, {self.files} arrived")
        if self.size != size:
            warnings.append(f"{size} bytes were announced at init, {self.size} arrived")
        return warnings


async def finalize(context: IngestContext, batch_id: str, *, skip_incomplete: bool = False) -> ClosedBatch:
    """Close the batch; a batch that is closed already gets the same answer again. With `skip_incomplete`,
    files that have not arrived are withdrawn first. Raises IncompleteBatch otherwise, Missing for an unknown
    batch, and Retry when its files keep changing.
    """
    for _ in range(TRIES):
        submission = await context.get_submission(batch_id)
        if submission.batch.position.stage is not Stage.OPEN:
            return await _repeat_answer(context, submission)
        # Before the uploads are listed: any manifest written after this moment makes our write fail.
        condition = await read_condition(context.blobs, manifest_key(batch_id))
        submission = await context.get_submission(batch_id)
        if submission.batch.position.stage is not Stage.OPEN:
            continue  # another request has closed it: the condition would let us replace its manifest
        if submission.files_taken < submission.files_announced:
            with suppress(Stale):  # another request has closed the batch
                await _handle_incomplete(context, submission, skip=skip_incomplete)
            continue
        if not submission.files_announced:
            raise bad_request("No files uploaded in this batch")
        try:
            if await await_lost(context, submission):
                continue
            closed = await _close(context, submission, condition)
        except Stale:
            continue  # a file arrived in the meantime, or another request has closed the batch
        return ClosedBatch(submission=closed, files=closed.files_taken, size=closed.bytes_taken)
    raise Retry("the batch's files keep changing; finalize when all uploads have ended", delay_seconds=1)


async def _handle_incomplete(context: IngestContext, submission: Submission, *, skip: bool) -> None:
    submissions, number = context.submissions, submission.batch.no
    awaited = await submissions.list_awaited(number, limit=SHOWN_INCOMPLETE)
    if awaited and not skip:
        raise IncompleteBatch([upload.path.rpartition("/")[2] for upload in awaited])
    while awaited:
        for upload in awaited:
            now = context.clock.now()
            # A file that is confirmed at this moment stays: its sender was told that it arrived.
            gone = await submissions.withdraw_upload(number, upload.path, now=now, awaited_only=True)
            if gone is not None:
                with suppress(
                    Retry, Reject
                ):  # what is left is deleted when the batch is measured or cleaned up
                    if gone.upload_id:
                        await context.presigned.abort(gone.key, gone.upload_id)
                    await context.blobs.delete(gone.key)
        awaited = await submissions.list_awaited(number, limit=SHOWN_INCOMPLETE)


async def _close(context: IngestContext, submission: Submission, condition: Condition) -> Submission:
    batch = await close_batch(
        submission.batch,
        context.pipeline,
        uploads=context.uploads,
        blobs=context.blobs,
        clock=context.clock,
        manifest_key=manifest_key(submission.batch.id),
        pages=_list_arrivals(context, submission.batch.no),
        sender=describe_sender(submission, submission.batch.id),
        condition=condition,
        revision=submission.revision,
    )
    return structs.replace(submission, batch=batch, finalized_at=batch.updated_at)


async def _list_arrivals(context: IngestContext, number: int) -> AsyncIterator[Sequence[Upload]]:
    after = None
    while page := await context.submissions.list_arrivals(number, after=after, limit=PAGE):
        after = (folder_of(page[-1].path), page[-1].path)
        yield page


async def _repeat_answer(context: IngestContext, submission: Submission) -> ClosedBatch:
    if submission.finalized_at is None:
        raise bad_request(
            f"Batch status is {get_protocol_status(submission)}, cannot finalize", code="not_uploading"
        )
    # From the start message: the files may be others by now, and a repeated request gets the same answer.
    message = msgspec.json.decode(await context.batches.get_start_message(submission.batch.no) or "{}")
    return ClosedBatch(
        submission=submission,
        files=message.get("total_files", submission.files_taken),
        size=message.get("total_bytes", submission.bytes_taken),
    )
