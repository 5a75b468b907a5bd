"""Signed tokens in URLs of Quire's own routes: the token says what its URL allows; nothing else is stored.

Promise: a token that was not signed with this secret, was altered in one character or has expired is refused.
Must not know: files, HTTP.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Literal

import msgspec
from msgspec import Struct

from quire.model.clock import Clock
from quire.model.errors import Misconfigured, Reject

_MAX_TOKEN_LETTERS = 4096
_MIN_SECRET_BYTES = 32
# The secret signs other things too: this prefix keeps the signatures apart. Part of every URL in use.
_PURPOSE = b"quire landing 1\n"


class Grant(Struct, frozen=True, array_like=True):
    """Allows one method on one key until `expires_at`: the whole blob when `part` is 0, else that part.
    `size` is the most bytes of the body; negative: not said.
    """

    method: Literal["PUT", "GET"]
    key: str
    expires_at: int
    upload_id: str = ""
    part: int = 0
    name: str = ""
    size: int = -1


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Grant)


class Tokens:
    def __init__(self, secret: bytes, clock: Clock) -> None:
        """Raises Misconfigured when the secret is too short."""
        if len(secret) < _MIN_SECRET_BYTES:
            raise Misconfigured(
                f"The secret that signs upload URLs has fewer than {_MIN_SECRET_BYTES} bytes: use a longer, "
                "random one.",
                code="bad_settings",
            )
        self._secret = secret
        self._clock = clock

    def sign(self, grant: Grant) -> str:
        """The token: letters, digits, `-`, `_` and one dot, which need no escaping in a URL."""
        payload = base64.urlsafe_b64encode(_encoder.encode(grant)).rstrip(b"=")
        return (payload + b"." + self._signature(payload)).decode()

    def read(self, token: str, *, method: Literal["PUT", "GET"]) -> Grant:
        """Raises Reject with code `bad_signature` or `url_expired`."""
        grant = self._decode(token)
        if grant is None or grant.method != method:
            raise Reject(
                "This URL was altered, is truncated or is not for this request. Use it as it was given.",
                code="bad_signature",
            )
        if self._clock.now() >= grant.expires_at:
            raise Reject("This URL has expired. Ask for a new one.", code="url_expired")
        return grant

    def _decode(self, token: str) -> Grant | None:
        if len(token) > _MAX_TOKEN_LETTERS or not token.isascii():
            return None
        # The encoded text is signed, not the bytes: several base64 texts decode to the same bytes.
        payload, _, signature = token.encode().partition(b".")
        if not hmac.compare_digest(signature, self._signature(payload)):
            return None
        try:
            return _decoder.decode(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
        except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError):
            return None  # signed by another release

    def _signature(self, payload: bytes) -> bytes:
        digest = hmac.new(self._secret, _PURPOSE + payload, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=")
