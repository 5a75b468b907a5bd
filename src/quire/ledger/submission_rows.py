"""Between rows and the values of the reception, for every ledger on SQL.

As in `rows`: the same columns in the same order in all adapters. Must not know: any database.
"""

import json
from collections.abc import Iterable, Sequence

from msgspec import structs

from quire.ledger.rows import Row, batch_of, config_column, file_columns, tags_column, upload_columns
from quire.ledger.submissions import (
    TAKEN,
    Load,
    NewSubmission,
    Submission,
)
from quire.ledger.values import Upload
from quire.model.errors import Reject, Retry, Stale
from quire.model.files import File, folder_of

_COLUMNS = 16  # of a submission; those of its batch follow
UPLOAD_COLUMNS = (
    *("path", "state", "size", "stamp", "key", "digest", "content_type", "error_class", "reason"),
    *("cid", "config", "upload_id", "taken_at", "source_file", "tags", "folder"),
)


def submission_columns(new: NewSubmission) -> Row:
    """As `insert_submission` wants them after the batch's number."""
    return (
        *(new.session_id, new.uploader, new.root_path, new.parent_pi, new.file_count, new.total_size),
        *(json.dumps(new.metadata), json.dumps(new.custom_prompts), new.owner, new.idempotency_key),
        *(new.fingerprint, new.draft.now),
    )


def submission_of(row: Row) -> Submission:
    return Submission(
        batch=batch_of(row[_COLUMNS:], row[_COLUMNS]),
        session_id=row[0],
        uploader=row[1],
        root_path=row[2],
        parent_pi=row[3],
        file_count=row[4],
        total_size=row[5],
        metadata=json.loads(row[6]),
        custom_prompts=json.loads(row[7]),
        owner=row[8],
        files_announced=row[9],
        files_taken=row[10],
        bytes_taken=row[11],
        revision=row[12],
        active_at=row[13],
        finalized_at=row[14],
        swept_at=row[15],
    )


def announced_columns(upload: Upload) -> Row:
    """All columns of an upload after the batch's number: `UPLOAD_COLUMNS`."""
    return (
        *upload_columns(upload),
        *(upload.cid, config_column(upload.config), upload.upload_id, upload.taken_at),
        *(upload.source_file, tags_column(upload.tags), folder_of(upload.path)),
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


def as_taken(upload: Upload, now: float) -> Upload:
    taken_at = now if upload.taken_at is None else upload.taken_at
    return structs.replace(upload, state=TAKEN, taken_at=taken_at)


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def folders_above(path: str) -> list[str]:
    """Every path that must not be a file for this one to be one."""
    return [path[:place] for place, sign in enumerate(path) if sign == "/" and place]


def last_of_each(uploads: Iterable[Upload]) -> Sequence[Upload]:
    """One for each path: the last one counts."""
    return list({upload.path: upload for upload in uploads}.values())


def collides(path: str, other: str) -> Reject:
    return Reject(
        f"{path} and {other} cannot both be files: one would be the folder of the other; rename one of them",
        code="path_collides",
    )


def conflicts(key: str) -> Reject:
    return Reject(
        f"the idempotency key {key!r} was used for another request; use a new one",
        code="idempotency_conflict",
    )


def check_quota(new: NewSubmission, load: Load) -> None:
    """Raises Retry `quota`."""
    if new.max_batches and load.batches >= new.max_batches:
        raise _over(f"{load.batches} batches that have not ended, the limit is {new.max_batches}")
    if new.max_bytes and load.bytes + new.total_size > new.max_bytes:
        raise _over(f"{load.bytes} bytes in batches that have not ended, the limit is {new.max_bytes}")


def _over(words: str) -> Retry:
    return Retry(f"this key has {words}; come again when one has ended", code="quota", delay_seconds=60)


def not_open(batch_no: int) -> Stale:
    return Stale(f"batch {batch_no} is not open any more")


def announced_anew(batch_no: int, path: str) -> Stale:
    return Stale(
        f"{path} of batch {batch_no} was announced anew or withdrawn meanwhile", code="announced_anew"
    )
