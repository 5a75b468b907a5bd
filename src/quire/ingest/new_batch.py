"""Opens a batch for uploads: checks the request, the size of the start message and the caller's limits."""

import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from quire.batches.submission import SenderDetails, draft_batch, encode_start_message
from quire.ingest.context import MESSAGE_BYTES, IngestContext, bad_request, manifest_key, staging_prefix
from quire.ingest.rules import BatchRequest, read_batch_request
from quire.ledger.submissions import NO_QUOTA, NewSubmission, OwnerQuota, Submission


class Submitter(Struct, frozen=True, kw_only=True):
    """The caller, as far as it matters here. `owner` is the id of an API key; 0 is no limit."""

    owner: str = ""
    tenant: str = ""
    max_batches: int = 0
    quota: OwnerQuota = NO_QUOTA


async def open_batch(
    context: IngestContext, body: Any, submitter: Submitter, *, idempotency_key: str | None = None
) -> Submission:
    """With an idempotency key that was used before: the same batch again."""
    wanted = read_batch_request(body, context.limits)
    new = NewSubmission(
        draft=draft_batch(
            context, context.pipeline, tenant=submitter.tenant, hands_over_to=context.hands_over_to
        ),
        session_id=f"sess_{context.ids.ulid()}",
        uploader=wanted.uploader,
        root_path=wanted.root_path,
        parent_pi=wanted.parent_pi,
        file_count=wanted.file_count,
        total_size=wanted.total_size,
        metadata=wanted.metadata,
        custom_prompts=wanted.custom_prompts,
        owner=submitter.owner,
        idempotency_key=idempotency_key,
        fingerprint=_compute_fingerprint(wanted) if idempotency_key else "",
        max_batches=submitter.max_batches,
        quota=submitter.quota,
    )
    _check_message(new)
    _check_quota(submitter, wanted)
    return await context.submissions.open_submission(new)


def describe_sender(submission: Submission | NewSubmission, batch_id: str) -> SenderDetails:
    return SenderDetails(
        prefix=staging_prefix(batch_id),
        uploader=submission.uploader,
        root_path=submission.root_path,
        parent_pi=submission.parent_pi,
        metadata=submission.metadata,
        custom_prompts=submission.custom_prompts,
    )


def _compute_fingerprint(wanted: Struct) -> str:
    return hashlib.sha256(msgspec.json.encode(wanted, order="deterministic")).hexdigest()


def _check_message(new: NewSubmission) -> None:
    """A start message that is too large is refused now, not after everything has been uploaded."""
    message = encode_start_message(
        describe_sender(new, new.draft.id),
        batch_id=new.draft.id,
        manifest_key=manifest_key(new.draft.id),
        total_files=2**53,
        total_bytes=2**53,
        opened_at=0,
        now=0,
    )
    if len(message) > MESSAGE_BYTES:
        raise bad_request(
            f"metadata and custom_prompts make a message of {len(message)} bytes, the limit is "
            f"{MESSAGE_BYTES}; shorten them, or upload the long part as a file",
            code="too_large",
        )


def _check_quota(submitter: Submitter, wanted: BatchRequest) -> None:
    """More than the caller may ever have: waiting would not help."""
    quota = submitter.quota
    whose = "this key" if submitter.owner else "callers without a key"
    if quota.max_bytes and wanted.total_size > quota.max_bytes:
        raise bad_request(f"Batch size {wanted.total_size} exceeds the limit of {whose}, {quota.max_bytes}")
    if quota.max_files and wanted.file_count > quota.max_files:
        raise bad_request(f"file_count {wanted.file_count} exceeds the limit of {whose}, {quota.max_files}")
