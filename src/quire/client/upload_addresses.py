"""Checks the addresses that a server gives for a file, before a byte is sent to one.

Promise: bytes go only to an address of http or https whose path ends with the key that the server has
promised for this file, or that is signed by Quire's own store for that key. A misconfigured server, or a
proxy that mixes up its answers, cannot put one file in the place of another. No address is ever in a message:
whoever has it may write there. Must not know: how bytes are sent.
"""

import binascii
import re
import unicodedata
from base64 import urlsafe_b64decode
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

import msgspec

from quire.client.answers import clean_text
from quire.model.errors import Misconfigured

_ADVICE = "Nothing was sent. Check the address given with --to, and tell the operator of that server"
_LONGEST_URL = 16_384
_OWN_ROUTE = "/blobs/"  # of Quire's own store, whose addresses hold the key in a signed token


def check_key(key: str, batch_id: str, logical_path: str) -> None:
    """Is this the key that the protocol promises for the file? Raises Misconfigured `wrong_server`."""
    if _normalize(key) != _normalize(f"staging/{batch_id}{logical_path}"):
        raise _refuse(f"the server promised {clean_text(repr(key))}, not the place of this file in its batch")


def check_address(url: str, key: str) -> None:
    """Raises Misconfigured `wrong_server` unless the address is one of the key: below a bucket or a prefix
    (`/bucket/prefix/{key}`), or at the host of the bucket (`/{key}`).
    """
    parts = _split(url)
    path = _decode(parts.path)
    if path is None or any(segment in {".", ".."} for segment in path.split("/")):
        raise _refuse("the address for the bytes has a path that cannot be read with certainty")
    found = _find_key_in_token(path) if _OWN_ROUTE in path else None
    if found == key or path.endswith(f"/{key}"):
        return
    # Without the path: of a store that is not ours it may be a secret, as a token of ours is.
    led = f"leads to {clean_text(repr(found))}" if found is not None else "leads elsewhere"
    raise _refuse(
        f"the address for the bytes, at {clean_text(parts.netloc)}, {led}, not to the promised key "
        f"{clean_text(repr(key))}"
    )


def _normalize(key: str) -> str:
    """Servers may write a name in another form of Unicode, and two slashes as one."""
    return re.sub("/+", "/", unicodedata.normalize("NFC", key))


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url) if len(url) <= _LONGEST_URL and url.isprintable() else None
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise _refuse("the address for the bytes is not one of http or https")
    if parts.username is not None or parts.password is not None or "\\" in url:
        raise _refuse("the address for the bytes holds a user or a backslash")
    return parts


def _decode(path: str) -> str | None:
    """Once, as a store does: a plus is a plus. None for what is not UTF-8."""
    try:
        return unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return None


def _find_key_in_token(path: str) -> str | None:
    """The key that a token of Quire's own store allows to write; None when it is no such token. The store
    checks the signature.
    """
    payload = path.rpartition(_OWN_ROUTE)[2].partition(".")[0].encode()
    try:
        grant = msgspec.msgpack.decode(urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)), type=list)
    except (binascii.Error, msgspec.MsgspecError, UnicodeDecodeError, ValueError):
        return None
    written = len(grant) >= 2 and grant[0] == "PUT" and isinstance(grant[1], str)
    return grant[1] if written else None


def _refuse(what: str) -> Misconfigured:
    return Misconfigured(f"{what}. {_ADVICE}", code="wrong_server")
