"""The answers of an ingest service as values, and its refusals as errors of `quire.model`.

A server's words are shown to people, so everything that could control a terminal is removed, and long texts
are cut. Must not know: how requests are sent.
"""

import re
import unicodedata
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from quire.model.errors import Misconfigured, Missing, QuireError, Reject, Retry

LONGEST_WORDS = 300
LONGEST_WAIT_SECONDS = 300.0
_AGAIN = {408, 425, 429}
_STORE_WORDS = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)


class OpenedBatch(Struct, frozen=True, kw_only=True):
    batch_id: str
    session_id: str = ""


class PartAddress(Struct, frozen=True, kw_only=True):
    part_number: int
    url: str


class ReceivedPart(Struct, frozen=True, kw_only=True):
    """A part that was sent before."""

    part_number: int
    etag: str
    size: int


class StartedUpload(Struct, frozen=True, kw_only=True):
    """Where to send the bytes of a file: to one URL, or part by part to several. Servers that can resume an
    upload also list the parts they have.
    """

    r2_key: str
    upload_type: Literal["simple", "multipart"]
    presigned_url: str | None = None
    upload_id: str | None = None
    part_size: int | None = None
    presigned_urls: tuple[PartAddress, ...] = ()
    parts: tuple[ReceivedPart, ...] = ()
    completed: bool = False


class ConfirmedPart(Struct, frozen=True, kw_only=True):
    """A part that the store has."""

    part_number: int
    etag: str


class StoredFile(Struct, frozen=True, kw_only=True):
    logical_path: str
    file_size: int
    status: str
    cid: str | None = None


class BatchStatus(Struct, frozen=True, kw_only=True):
    batch_id: str
    status: str
    files: tuple[StoredFile, ...] = ()


class FailedFile(Struct, frozen=True, kw_only=True):
    path: str
    reason: str | None = None
    error_class: str | None = None


class FailedFiles(Struct, frozen=True, kw_only=True):
    files: tuple[FailedFile, ...] = ()


class Finalized(Struct, frozen=True, kw_only=True):
    batch_id: str
    status: str = ""
    files_uploaded: int = 0
    total_bytes: int = 0
    warnings: tuple[str, ...] = ()


class IncompleteUpload(Reject):
    """The batch cannot be closed: announced files have not arrived."""

    code = "not_all_uploaded"


def translate_refusal(status: int, headers: Mapping[str, str], body: bytes, *, now: float) -> QuireError:
    """The error for an answer whose status is not a success."""
    said = _decode_object(body)
    words = f"{status}: {_find_reason(said, body)}"
    if status in _AGAIN or status >= 500:
        delay = _read_delay(headers.get("retry-after", ""), now)
        message = f"the server cannot answer now ({words})"
        return Retry(message, code="server_unavailable", delay_seconds=delay)
    if status in {401, 403}:
        advice = "check upload.key (QUIRE_UPLOAD_KEY or --key-file)"
        return Misconfigured(f"the server does not let us in ({words}); {advice}", code="not_authorised")
    if said is None or status < 400:
        advice = "its answer is not that of an ingest service; check the address given with --to"
        return Misconfigured(f"the server refused ({words}); {advice}", code="wrong_server")
    if status == 404:
        return Missing(f"the server does not know it ({words})")
    if isinstance(said.get("incomplete"), list):
        names = ", ".join(clean_text(str(name)) for name in said["incomplete"][:5])
        return IncompleteUpload(f"the server misses files ({words}): {names}")
    return Reject(f"the server refused ({words})", code="server_refused")


def translate_store_refusal(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float
) -> QuireError:
    """The same for a presigned URL. A permanent error concerns this one file: URLs expire."""
    error = translate_refusal(status, headers, body, now=now)
    if isinstance(error, Retry):
        return error
    return Reject(
        f"the store refused the bytes ({status}: {_find_reason(_decode_object(body), body)})",
        code="server_refused",
    )


def wrong_answer(what: str) -> Misconfigured:
    return Misconfigured(
        f"the server's answer to {what} is not that of an ingest service; check the address given with --to",
        code="wrong_server",
    )


def clean_text(text: str, longest: int = LONGEST_WORDS) -> str:
    """One line without control, format and stray characters, cut when long."""
    kept = "".join(
        " " if unicodedata.category(one) in {"Cc", "Cf", "Cs", "Zl", "Zp"} else one for one in text
    )
    line = " ".join(kept.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _decode_object(body: bytes) -> dict[str, Any] | None:
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _find_reason(said: dict[str, Any] | None, body: bytes) -> str:
    if said is None:
        found = _STORE_WORDS.search(body[:65_536].decode("utf-8", "replace"))
        return clean_text(found[1]) if found else "without a reason"
    problem = [said.get(name) for name in ("title", "detail")]
    error = said.get("error")
    if isinstance(error, dict):
        error = error.get("message")
    parts = [error, *problem, said.get("details")]
    spoken = dict.fromkeys(clean_text(part) for part in parts if isinstance(part, str))
    return clean_text("; ".join(filter(None, spoken))) or "without a reason"


def _read_delay(after: str, now: float) -> float | None:
    """The delay that `Retry-After` asks for, as seconds or as a date."""
    if re.fullmatch(r"[0-9]{1,9}", after):
        return min(float(after), LONGEST_WAIT_SECONDS)
    try:
        moment = parsedate_to_datetime(after).timestamp()
    except (ValueError, OverflowError, TypeError):
        return None
    return min(max(moment - now, 0.0), LONGEST_WAIT_SECONDS)
