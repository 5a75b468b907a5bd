"""The status of an uploaded batch in the protocol's format, streamed whatever its size."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from quire.ingest.context import IngestContext, get_protocol_status
from quire.ledger.port import Upload
from quire.ledger.submissions import TAKEN, Submission
from quire.model.clock import timestamp
from quire.model.files import folder_of

PAGE = 1000
_encoder = msgspec.json.Encoder()


class UploadLine(Struct, frozen=True, kw_only=True):
    """A file as its client described it."""

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


async def stream_status(context: IngestContext, batch_id: str, *, files: bool = True) -> AsyncIterator[bytes]:
    """The status as JSON, piece by piece. Raises Missing before the first piece."""
    submission = await context.get_submission(batch_id)
    head = _encoder.encode(build_submission_line(submission))
    if not files:
        yield head
        return
    pieces = bytearray(head[:-1] + b',"files":[')
    after, comma = None, b""
    while page := await context.submissions.list_arrivals(submission.batch.no, after=after, limit=PAGE):
        after = (folder_of(page[-1].path), page[-1].path)
        for upload in page:
            pieces += comma + _encoder.encode(build_upload_line(upload))
            comma = b","
        if len(page) < PAGE:
            break
        yield bytes(pieces)
        pieces.clear()
    pieces += b"]}"
    yield bytes(pieces)


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
