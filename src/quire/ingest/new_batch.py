"""Opening a batch."""

import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from quire.batches.plans import freeze_pipeline
from quire.ingest.context import MESSAGE_BYTES, IngestContext, bad_request
from quire.ingest.messages import start_message
from quire.ingest.rules import read_batch_request
from quire.ledger.port import BatchDraft
from quire.ledger.submissions import NewSubmission, Submission
from quire.model.ids import BatchId


class Submitter(Struct, frozen=True, kw_only=True):
    """Who asks, as far as it matters here. `owner` is the id of a key; 0 is no limit."""

    owner: str = ""
    tenant: str = ""
    max_batches: int = 0
    max_bytes: int = 0


async def open_batch(
    context: IngestContext, said: Any, asker: Submitter, *, idempotency_key: str | None = None
) -> Submission:
    """With an idempotency key that was used before: the same batch again."""
    wanted = read_batch_request(said, context.limits)
    office = context.office
    new = NewSubmission(
        draft=BatchDraft(
            id=BatchId(office.ids.ulid()),
            run_key=None,
            pipeline=context.pipeline.name,
            pipeline_version=context.pipeline.version,
            plan=freeze_pipeline(context.pipeline),
            now=office.clock.now(),
            tier=office.defaults.tier,
            tenant=asker.tenant or office.defaults.tenant,
            budget=office.defaults.budget,
            hands_over_to=context.hands_over_to,
        ),
        session_id=f"sess_{office.ids.ulid()}",
        uploader=wanted.uploader,
        root_path=wanted.root_path,
        parent_pi=wanted.parent_pi,
        file_count=wanted.file_count,
        total_size=wanted.total_size,
        metadata=wanted.metadata,
        custom_prompts=wanted.custom_prompts,
        owner=asker.owner,
        idempotency_key=idempotency_key,
        fingerprint=_compute_fingerprint(wanted) if idempotency_key else "",
        max_batches=asker.max_batches,
        max_bytes=asker.max_bytes,
    )
    _check_message(new)
    _check_bytes(asker, wanted.total_size)
    return await office.submissions.open_submission(new)


def _compute_fingerprint(wanted: Struct) -> str:
    return hashlib.sha256(msgspec.json.encode(wanted, order="deterministic")).hexdigest()


def _check_message(new: NewSubmission) -> None:
    """Now, and not when everything has been uploaded."""
    size = len(start_message(new, batch_id=new.draft.id, files=2**53, total=2**53, opened_at=0, now=0))
    if size > MESSAGE_BYTES:
        raise bad_request(
            f"metadata and custom_prompts make a message of {size} bytes, the limit is {MESSAGE_BYTES}; "
            "shorten them, or upload the long part as a file",
            code="too_large",
        )


def _check_bytes(asker: Submitter, size: int) -> None:
    """More than it may ever have: no use in coming again."""
    if asker.max_bytes and size > asker.max_bytes:
        raise bad_request(f"Batch size {size} exceeds the limit of this key, {asker.max_bytes}")
