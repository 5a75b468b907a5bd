"""URLs that S3 lets in: AWS Signature Version 4, carried in the query.

Promise: of the headers only the host is signed, so whoever has the URL may send any Content-Type and length;
the path and every argument are signed, so nothing in the URL can be altered. Must not know: HTTP, keys of
blobs, what the request is for.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from quire.model.errors import Misconfigured

_ALGORITHM = "AWS4-HMAC-SHA256"


class Signer:
    def __init__(self, *, endpoint: str, region: str, access_key_id: str, secret_access_key: str) -> None:
        """`endpoint` is the address whose host is signed, perhaps with a path. Raises Misconfigured."""
        address = urlsplit(endpoint)
        if address.scheme not in {"http", "https"} or not address.hostname or address.username is not None:
            raise Misconfigured(
                "The endpoint of the store is an address such as https://store.example.org, without a user.",
                code="bad_settings",
            )
        self._scheme = address.scheme
        self._host = _host(address.netloc.lower(), address.scheme)
        self._base = address.path.rstrip("/")
        self._region = region
        self._access_key_id = access_key_id
        self._secret = secret_access_key
        self._day_and_key = ("", b"")

    def __repr__(self) -> str:
        return f"Signer({self._host!r})"

    def url(self, method: str, path: str, *, query: Mapping[str, str], seconds: int, now: float) -> str:
        """`path` begins with a slash and is not escaped; neither is `query`."""
        moment = datetime.fromtimestamp(int(now), tz=UTC).strftime("%Y%m%dT%H%M%SZ")
        day = moment[:8]
        scope = f"{day}/{self._region}/s3/aws4_request"
        arguments = {
            **query,
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{self._access_key_id}/{scope}",
            "X-Amz-Date": moment,
            "X-Amz-Expires": str(seconds),
            "X-Amz-SignedHeaders": "host",
        }
        # S3 escapes everything but the unreserved characters, once, and sorts by the escaped names.
        escaped = sorted((quote(name, safe=""), quote(value, safe="")) for name, value in arguments.items())
        asked = "&".join(f"{name}={value}" for name, value in escaped)
        place = quote(self._base + path, safe="/")
        request = f"{method}\n{place}\n{asked}\nhost:{self._host}\n\nhost\nUNSIGNED-PAYLOAD"
        signed = f"{_ALGORITHM}\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = hmac.new(self._signing_key(day), signed.encode(), hashlib.sha256).hexdigest()
        return f"{self._scheme}://{self._host}{place}?{asked}&X-Amz-Signature={signature}"

    def _signing_key(self, day: str) -> bytes:
        """The same for all URLs of a day: the parts of a large file are thousands."""
        if self._day_and_key[0] != day:
            key = f"AWS4{self._secret}".encode()
            for word in (day, self._region, "s3", "aws4_request"):
                key = hmac.new(key, word.encode(), hashlib.sha256).digest()
            self._day_and_key = (day, key)
        return self._day_and_key[1]


def _host(netloc: str, scheme: str) -> str:
    # Clients leave the usual port out of the Host header, so it must not be signed either.
    usual = ":443" if scheme == "https" else ":80"
    return netloc.removesuffix(usual)
