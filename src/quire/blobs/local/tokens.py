"""What a URL of ours allows, written into the URL and signed: nothing about it is kept anywhere else.

Promise: a token that was not made with this secret, or was altered in one letter, is refused, whatever it
holds; so is one that has run out. Must not know: files, HTTP.
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
# The secret may sign other things too: what is signed here cannot be taken for them.
_PURPOSE = b"quire landing 1\n"


class Grant(Struct, frozen=True, array_like=True):
    """One method on one key until a moment: the whole blob when `part` is 0, else that part of an upload."""

    method: Literal["PUT", "GET"]
    key: str
    expires_at: int
    upload_id: str = ""
    part: int = 0
    name: str = ""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Grant)


class Tokens:
    def __init__(self, secret: bytes, clock: Clock) -> None:
        """Raises Misconfigured when the secret is too short to be one."""
        if len(secret) < _MIN_SECRET_BYTES:
            raise Misconfigured(
                f"The secret that signs upload URLs has fewer than {_MIN_SECRET_BYTES} bytes: use a longer, "
                "random one.",
                code="bad_settings",
            )
        self._secret = secret
        self._clock = clock

    def sign(self, grant: Grant) -> str:
        """Letters, digits, `-`, `_` and one dot: fit for a URL as they are."""
        said = base64.urlsafe_b64encode(_encoder.encode(grant)).rstrip(b"=")
        return (said + b"." + self._mark(said)).decode()

    def read(self, token: str, *, method: Literal["PUT", "GET"]) -> Grant:
        """Raises Reject with code `bad_signature` or `url_expired`."""
        grant = self._signed(token)
        if grant is None or grant.method != method:
            raise Reject(
                "This URL was altered, is cut off or is not for this request. Use it as it was given.",
                code="bad_signature",
            )
        if self._clock.now() >= grant.expires_at:
            raise Reject("This URL has run out. Ask for a new one.", code="url_expired")
        return grant

    def _signed(self, token: str) -> Grant | None:
        if len(token) > _MAX_TOKEN_LETTERS or not token.isascii():
            return None
        # The letters are signed and compared, not the bytes behind them: several spellings mean the same.
        said, _, mark = token.encode().partition(b".")
        if not hmac.compare_digest(mark, self._mark(said)):
            return None
        try:
            return _decoder.decode(base64.urlsafe_b64decode(said + b"=" * (-len(said) % 4)))
        except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError):
            return None  # signed by us, in another time

    def _mark(self, said: bytes) -> bytes:
        digest = hmac.new(self._secret, _PURPOSE + said, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=")
