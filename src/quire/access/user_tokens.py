"""Tokens of users of the recipe API: JSON Web Tokens that another program has signed with a shared secret.

Promises: only HS256 counts, whatever a token says of itself; signatures are compared in constant time, before
anything else of the token is read; an expired one is refused; a subject is a whole number. Must not know:
HTTP, what a user may see.
"""

import binascii
import hashlib
import hmac
from base64 import urlsafe_b64decode
from typing import Any

import msgspec

from quire.model.clock import Clock
from quire.model.errors import Reject

ALGORITHM = "HS256"
LONGEST_TOKEN = 4096
LEEWAY_SECONDS = 5.0
_MAX_SUBJECT_DIGITS = 18


class UserTokens:
    def __init__(self, secret: bytes, clock: Clock) -> None:
        self._secret = secret
        self._clock = clock

    def identify(self, token: str) -> str:
        """The id of the user, in digits. Raises Reject `unauthorized`, the same for every fault."""
        claims = self._read(token) if len(token) <= LONGEST_TOKEN and token.isascii() else None
        user = None if claims is None or not self._is_valid_now(claims) else _read_subject(claims.get("sub"))
        if user is None:
            raise Reject("This token is not valid; sign in again", code="unauthorized")
        return user

    def _read(self, token: str) -> dict[str, Any] | None:
        """The claims of a token with the right signature; None for any other."""
        signed, _, signature = token.rpartition(".")
        head, _, body = signed.partition(".")
        expected = hmac.digest(self._secret, signed.encode(), hashlib.sha256)
        try:
            if not hmac.compare_digest(_decode(signature), expected):
                return None
            header = msgspec.json.decode(_decode(head), type=dict[str, Any])
            # `crit` names extensions that a reader must know; none is known here.
            if header.get("alg") != ALGORITHM or "crit" in header:
                return None
            return msgspec.json.decode(_decode(body), type=dict[str, Any])
        except (ValueError, RecursionError):
            return None

    def _is_valid_now(self, claims: dict[str, Any]) -> bool:
        now = self._clock.now()
        expires, begins = claims.get("exp"), claims.get("nbf")
        return (expires is None or (_is_number(expires) and now < expires + LEEWAY_SECONDS)) and (
            begins is None or (_is_number(begins) and now >= begins - LEEWAY_SECONDS)
        )


def _decode(text: str) -> bytes:
    """Base64 for URLs without padding. Raises ValueError."""
    if not text or "=" in text:
        raise ValueError("no base64 without padding")
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def _read_subject(subject: object) -> str | None:
    if isinstance(subject, bool) or not isinstance(subject, int | str):
        return None
    text = str(subject)
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_SUBJECT_DIGITS
    return str(int(text)) if is_number else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
