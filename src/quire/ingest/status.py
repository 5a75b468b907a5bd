"""The status of an uploaded batch in the protocol's format, streamed whatever its size.

Promise: `files` is the present list of the batch: what was announced and sent, until its phases have come to
their end; from then on what they have made of it, as the manifest has it, as if another orchestrator had sent
that list. Must not know: HTTP.
"""

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from quire.engine.handover import read_final_list
from quire.ingest.context import IngestContext, get_protocol_status
from quire.ledger.port import Upload
from quire.ledger.submissions import TAKEN, Submission
from quire.model.batch import Batch, Stage
from quire.model.clock import timestamp
from quire.model.files import File, folder_of
from quire.model.pipelines import stored_plan

PAGE = 1000
_encoder = msgspec.json.Encoder()


class UploadLine(Struct, frozen=True, kw_only=True):
    """A file as its client described it, or as the phases have left it."""

    r2_key: str
    file_name: str
    file_size: int
    logical_path: str
    content_type: str
    processing_config: dict[str, Any]
    upload_type: str
    status: str
    completed_at: str | UnsetType = UNSET
    cid: str | UnsetType = UNSET
    source_file: str | UnsetType = UNSET
    preprocessor_tags: tuple[str, ...] | UnsetType = UNSET


class SubmissionLine(Struct, frozen=True, kw_only=True):
    """The status without the files."""

    batch_id: str
    session_id: str
    status: str
    uploader: str
    root_path: str
    parent_pi: str
    file_count: int
    files_uploaded: int
    total_size: int
    total_bytes_uploaded: int
    created_at: str
    enqueued_at: str | None
    metadata: dict[str, Any]
    custom_prompts: dict[str, str]
    error: str | UnsetType = UNSET


class StatusFiles(StrEnum):
    """Which files a status lists."""

    PRESENT = "present"
    UPLOADED = "uploaded"  # as they were sent, also after the phases
    NONE = "false"


async def stream_status(
    context: IngestContext, batch_id: str, *, files: StatusFiles = StatusFiles.PRESENT
) -> AsyncIterator[bytes]:
    """The status as JSON, piece by piece. Raises Missing before the first piece."""
    submission = await context.get_submission(batch_id)
    head = _encoder.encode(build_submission_line(submission))
    if files is StatusFiles.NONE:
        yield head
        return
    replaced = files is StatusFiles.PRESENT and _are_files_replaced(submission.batch)
    listed = _list_final if replaced else _list_uploads
    pieces = bytearray(head[:-1] + b',"files":[')
    comma = b""
    async for page in listed(context, submission):
        for line in page:
            pieces += comma + _encoder.encode(line)
            comma = b","
        yield bytes(pieces)
        pieces.clear()
    yield bytes(pieces + b"]}")


def _are_files_replaced(batch: Batch) -> bool:
    """Once the phases have ended, the list is theirs; a later round goes on from it."""
    return batch.position.stage is Stage.DONE or batch.position.round > 1


async def _list_uploads(context: IngestContext, submission: Submission) -> AsyncIterator[list[UploadLine]]:
    after = None
    while page := await context.submissions.list_arrivals(submission.batch.no, after=after, limit=PAGE):
        after = (folder_of(page[-1].path), page[-1].path)
        yield [build_upload_line(upload) for upload in page]
        if len(page) < PAGE:
            break


async def _list_final(context: IngestContext, submission: Submission) -> AsyncIterator[list[UploadLine]]:
    async def report_alive() -> None:
        """Nothing waits for a sign of life here."""

    batch = submission.batch
    phases = len((stored_plan(batch) or context.pipelines[batch.pipeline]).phases)
    at = timestamp(batch.updated_at if batch.completed_at is None else batch.completed_at)
    async for files in read_final_list(context.flow, batch, phases, report_alive):
        yield [_build_final_line(file, at) for file in files]


def _build_final_line(file: File, at: str) -> UploadLine:
    return UploadLine(
        r2_key=file.key,
        file_name=file.name,
        file_size=file.size,
        logical_path=file.path,
        content_type=file.content_type,
        processing_config=file.processing_config,
        upload_type="simple",
        status="completed",
        completed_at=at,
        cid=file.cid or UNSET,
        source_file=file.source_file or UNSET,
        preprocessor_tags=file.tags or UNSET,
    )


def build_submission_line(submission: Submission) -> SubmissionLine:
    batch = submission.batch
    finalized = submission.finalized_at
    return SubmissionLine(
        batch_id=batch.id,
        session_id=submission.session_id,
        status=get_protocol_status(submission),
        uploader=submission.uploader,
        root_path=submission.root_path,
        parent_pi=submission.parent_pi,
        file_count=submission.file_count,
        files_uploaded=submission.files_taken,
        total_size=submission.total_size,
        total_bytes_uploaded=submission.bytes_taken,
        created_at=timestamp(batch.created_at),
        enqueued_at=None if finalized is None else timestamp(finalized),
        metadata=submission.metadata,
        custom_prompts=submission.custom_prompts,
        error=UNSET if batch.error is None else batch.error,
    )


def build_upload_line(upload: Upload) -> UploadLine:
    return UploadLine(
        r2_key=upload.key,
        file_name=upload.path.rpartition("/")[2],
        file_size=upload.size,
        logical_path=upload.path,
        content_type=upload.content_type,
        processing_config=upload.config,
        upload_type="multipart" if upload.upload_id else "simple",
        status="completed" if upload.state == TAKEN else "uploading",
        completed_at=UNSET if upload.taken_at is None else timestamp(upload.taken_at),
        cid=upload.cid or UNSET,
        source_file=upload.source_file or UNSET,
        preprocessor_tags=upload.tags or UNSET,
    )
