"""Tokens of attempts that somebody outside completes: each names one attempt and is signed, so that whoever
was given it can answer for this attempt and for no other.

Pure: the secret is handed in. A token is a word for URLs and messages, and opaque to those who carry it.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence

from msgspec import Struct

from quire.model.errors import Reject

MAX_CHARACTERS = 200
_TOKEN = re.compile(
    r"(?P<batch>[0-9A-Za-z]{1,64})\.(?P<task>[0-9]{1,18})\.(?P<attempt>[0-9]{1,9})\.(?P<sign>[0-9a-f]{64})"
)


class TokenAddress(Struct, frozen=True):
    """The attempt that a token names. `task_no` is the key of the task in the ledger."""

    batch_id: str
    task_no: int
    attempt: int


def issue_token(secret: bytes, address: TokenAddress) -> str:
    return f"{address.batch_id}.{address.task_no}.{address.attempt}.{_sign(secret, address)}"


def read_token(secrets: Sequence[bytes], token: str) -> TokenAddress:
    """The attempt of a token that was issued with one of these secrets, compared in constant time. Raises
    Reject with code `bad_signature`.
    """
    found = _TOKEN.fullmatch(token) if len(token) <= MAX_CHARACTERS else None
    if found is not None:
        address = TokenAddress(found["batch"], int(found["task"]), int(found["attempt"]))
        if any(hmac.compare_digest(_sign(one, address), found["sign"]) for one in secrets):
            return address
    raise Reject("this token was not issued here", code="bad_signature")


def _sign(secret: bytes, address: TokenAddress) -> str:
    named = f"answer\0{address.batch_id}\0{address.task_no}\0{address.attempt}"
    return hmac.new(secret, named.encode(), hashlib.sha256).hexdigest()
