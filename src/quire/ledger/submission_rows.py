"""From rows to submissions and back, for every ledger on SQL.

As in `rows`: one order of columns in all adapters. Must not know: any database.
"""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import structs

from quire.ledger.rows import Row, encode_config, encode_tags, file_columns, read_batch, upload_columns
from quire.ledger.submissions import TAKEN, NewSubmission, OwnerLoad, Submission
from quire.ledger.values import Upload
from quire.model.errors import Reject, Retry, Stale
from quire.model.files import File, folder_of

UPLOAD_COLUMNS = (
    *("path", "state", "size", "stamp", "key", "digest", "content_type", "error_class", "reason"),
    *("cid", "config", "upload_id", "taken_at", "source_file", "tags", "folder"),
)


class SubmissionRow(NamedTuple):
    session_id: str
    uploader: str
    root_path: str
    parent_pi: str
    file_count: int
    total_size: int
    metadata: str
    custom_prompts: str
    owner: str
    files_announced: int
    files_taken: int
    bytes_taken: int
    revision: int
    active_at: float
    finalized_at: float | None
    swept_at: float | None


def submission_columns(new: NewSubmission) -> Row:
    """As `insert_submission` wants them after the batch's number."""
    return (
        *(new.session_id, new.uploader, new.root_path, new.parent_pi, new.file_count, new.total_size),
        *(json.dumps(new.metadata), json.dumps(new.custom_prompts), new.owner, new.idempotency_key),
        *(new.fingerprint, new.draft.now),
    )


def read_submission(columns: Row) -> Submission:
    """From the columns of a submission, then those of its batch."""
    row = SubmissionRow._make(columns[: len(SubmissionRow._fields)])
    batch = columns[len(SubmissionRow._fields) :]
    return Submission(
        **{
            **row._asdict(),
            "batch": read_batch(batch, row.session_id),
            "metadata": json.loads(row.metadata),
            "custom_prompts": json.loads(row.custom_prompts),
        }
    )


def announced_columns(upload: Upload) -> Row:
    """All columns of an upload after the batch's number: `UPLOAD_COLUMNS`."""
    return (
        *upload_columns(upload),
        *(upload.cid, encode_config(upload.config), upload.upload_id, upload.taken_at),
        *(upload.source_file, encode_tags(upload.tags), folder_of(upload.path)),
    )


def input_columns(upload: Upload) -> Row:
    """The columns from path on of the input file that an upload is."""
    return file_columns(
        File(
            key=upload.key,
            path=upload.path,
            name=name_of(upload.path),
            size=upload.size,
            content_type=upload.content_type,
            digest=upload.digest,
            cid=upload.cid,
            source_file=upload.source_file,
            tags=upload.tags,
            processing_config=upload.config,
        )
    )


def mark_taken(upload: Upload, now: float) -> Upload:
    taken_at = now if upload.taken_at is None else upload.taken_at
    return structs.replace(upload, state=TAKEN, taken_at=taken_at)


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def list_folders_above(path: str) -> list[str]:
    """Every path that must not be a file for this one to be one."""
    return [path[:place] for place, sign in enumerate(path) if sign == "/" and place]


def keep_last(uploads: Iterable[Upload]) -> Sequence[Upload]:
    """One for each path: the last one counts."""
    return list({upload.path: upload for upload in uploads}.values())


def build_collision_error(path: str, other: str) -> Reject:
    return Reject(
        f"{path} and {other} cannot both be files: one would be the folder of the other; rename one of them",
        code="path_collides",
    )


def build_idempotency_error(key: str) -> Reject:
    return Reject(
        f"the idempotency key {key!r} was used for another request; use a new one",
        code="idempotency_conflict",
    )


def check_quota(new: NewSubmission, load: OwnerLoad) -> None:
    """Raises Retry `quota`."""
    if new.max_batches and load.batches >= new.max_batches:
        raise _build_quota_error(
            f"{load.batches} batches that have not ended, the limit is {new.max_batches}"
        )
    if new.max_bytes and load.bytes + new.total_size > new.max_bytes:
        raise _build_quota_error(
            f"{load.bytes} bytes in batches that have not ended, the limit is {new.max_bytes}"
        )


def _build_quota_error(words: str) -> Retry:
    return Retry(f"this key has {words}; come again when one has ended", code="quota", delay_seconds=60)


def build_not_open_error(batch_no: int) -> Stale:
    return Stale(f"batch {batch_no} is not open any more")


def build_reannounced_error(batch_no: int, path: str) -> Stale:
    return Stale(
        f"{path} of batch {batch_no} was announced anew or withdrawn meanwhile", code="announced_anew"
    )
