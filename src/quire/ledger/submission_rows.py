"""From rows to submissions and back, for every ledger on SQL.

As in `rows`: one order of columns in all adapters. Must not know: any database.
"""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import structs

from quire.ledger.rows import Row, encode_config, encode_tags, file_columns, read_batch, upload_columns
from quire.ledger.submissions import TAKEN, NewSubmission, OwnerLoad, OwnerQuota, Submission, UploadLimits
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


class UploadCounts(NamedTuple):
    """What a submission amounts to after a change of its files."""

    owner: str
    file_count: int
    total_size: int
    files_announced: int
    bytes_announced: int


def check_batch_limits(counts: UploadCounts, limits: UploadLimits) -> None:
    """Raises Reject `too_large`."""
    if limits.max_bytes and counts.bytes_announced > limits.max_bytes:
        raise Reject(
            f"the files of this batch would have {counts.bytes_announced} bytes, the limit is "
            f"{limits.max_bytes}; put some of them into another batch",
            code="too_large",
        )
    if limits.max_files and counts.files_announced > limits.max_files:
        raise Reject(
            f"this batch would have {counts.files_announced} files, the limit is {limits.max_files}; put some"
            " of them into another batch",
            code="too_large",
        )


def exceeds_opening(counts: UploadCounts, quota: OwnerQuota) -> bool:
    """Whether a batch has more than was said at its opening, which its owner's load has counted since then:
    only then need the load be measured again.
    """
    more_bytes = counts.bytes_announced > counts.total_size
    more_files = counts.files_announced > counts.file_count
    return bool((quota.max_bytes and more_bytes) or (quota.max_files and more_files))


def check_new_batch(new: NewSubmission, load: OwnerLoad) -> None:
    """Raises Retry `quota`."""
    if new.max_batches and load.batches >= new.max_batches:
        raise _build_quota_error(
            new.owner, f"{load.batches} batches that have not ended, the limit is {new.max_batches}"
        )
    wanted = OwnerLoad(load.batches, load.bytes + new.total_size, load.files + new.file_count)
    check_quota(new.owner, wanted, new.quota)


def check_quota(owner: str, load: OwnerLoad, quota: OwnerQuota) -> None:
    """Raises Retry `quota` for a load that is beyond it."""
    where = "in batches that have not ended or are still staged" if quota.counts_kept else ""
    where = where or "in batches that have not ended"
    for most, size, unit in ((quota.max_bytes, load.bytes, "bytes"), (quota.max_files, load.files, "files")):
        if most and size > most:
            raise _build_quota_error(owner, f"{size} {unit} {where} with this, the limit is {most}")


def _build_quota_error(owner: str, words: str) -> Retry:
    if owner:
        text = f"this key has {words}; come again when one has ended"
    else:
        text = f"callers without a key have {words}; use an API key, or come again when one has ended"
    return Retry(text, code="quota", delay_seconds=60)


def build_not_open_error(batch_no: int) -> Stale:
    return Stale(f"batch {batch_no} is not open any more")


def build_reannounced_error(batch_no: int, path: str) -> Stale:
    return Stale(
        f"{path} of batch {batch_no} was announced anew or withdrawn meanwhile", code="announced_anew"
    )
