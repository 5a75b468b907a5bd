"""The message that hands a batch over by reference: the same for both queues."""

from typing import Any

import msgspec

from quire.ingest.context import manifest_key, staging_prefix
from quire.ledger.submissions import NewSubmission, Submission
from quire.model.clock import timestamp

_encoder = msgspec.json.Encoder()


def start_message(
    submission: Submission | NewSubmission,
    *,
    batch_id: str,
    files: int,
    total: int,
    opened_at: float,
    now: float,
) -> bytes:
    message: dict[str, Any] = {
        "batch_id": batch_id,
        "manifest_r2_key": manifest_key(batch_id),
        "r2_prefix": staging_prefix(batch_id),
        "uploader": submission.uploader,
        "root_path": submission.root_path,
        "parent_pi": submission.parent_pi,
        "total_files": files,
        "total_bytes": total,
        "uploaded_at": timestamp(opened_at),
        "finalized_at": timestamp(now),
        "metadata": submission.metadata,
    }
    if submission.custom_prompts:
        message["custom_prompts"] = submission.custom_prompts
    return _encoder.encode(message)
