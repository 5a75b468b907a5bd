"""Body and answer of `files/start`.

Without `resume` the answer is exactly as published. With it, the answer lists the parts in the store.
"""

from msgspec import UNSET, Struct, UnsetType

from quire.ingest.context import PART_SIZE
from quire.ingest.file_upload import UploadTicket


class ProcessingConfig(Struct, frozen=True, kw_only=True):
    """Unknown keys are kept."""

    ocr: bool
    describe: bool
    pinax: bool
    reorganize: bool | UnsetType = UNSET
    cheimarros: bool | UnsetType = UNSET


class StartBody(Struct, frozen=True, kw_only=True):
    """`resume`: continue an earlier upload of the same file, where possible."""

    file_name: str
    file_size: int
    logical_path: str
    processing_config: ProcessingConfig
    content_type: str | UnsetType = UNSET
    cid: str | UnsetType = UNSET
    resume: bool | UnsetType = UNSET


class PartUrl(Struct, frozen=True, kw_only=True):
    part_number: int
    url: str


class StoredPartLine(Struct, frozen=True, kw_only=True):
    part_number: int
    etag: str
    size: int


class StartAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`parts` and `completed` tell a client that resumes what it need not send again."""

    r2_key: str
    upload_type: str
    presigned_url: str | UnsetType = UNSET
    upload_id: str | UnsetType = UNSET
    part_size: int | UnsetType = UNSET
    presigned_urls: list[PartUrl] | UnsetType = UNSET
    parts: list[StoredPartLine] | UnsetType = UNSET
    completed: bool | UnsetType = UNSET


def build_start_answer(ticket: UploadTicket) -> StartAnswer:
    in_parts = bool(ticket.upload_id)
    numbered = [PartUrl(part_number=no, url=url) for no, url in enumerate(ticket.urls, start=1)]
    return StartAnswer(
        r2_key=ticket.key,
        upload_type="multipart" if in_parts else "simple",
        presigned_url=ticket.urls[0] if ticket.urls and not in_parts else UNSET,
        upload_id=ticket.upload_id or UNSET,
        part_size=PART_SIZE if in_parts else UNSET,
        presigned_urls=numbered if in_parts else UNSET,
        parts=UNSET
        if ticket.there is None
        else [StoredPartLine(part_number=one.number, etag=one.etag, size=one.size) for one in ticket.there],
        completed=ticket.completed or UNSET,
    )
