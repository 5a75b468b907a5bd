"""Signs URLs for S3: AWS Signature Version 4 in the query.

Promise: of the headers the host is signed, and the Content-Length where it is said: the store then refuses a
body of any other length; the client may send any Content-Type. The path and every query argument are signed,
so the URL cannot be altered. Must not know: HTTP, keys of blobs, the
purpose of a request.
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
        """`endpoint` is the address whose host is signed; it may have a path. Raises Misconfigured."""
        address = urlsplit(endpoint)
        if address.scheme not in {"http", "https"} or not address.hostname or address.username is not None:
            raise Misconfigured(
                "The store's endpoint must be an address such as https://store.example.org, without a user.",
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

    def url(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        seconds: int,
        now: float,
        length: int | None = None,
    ) -> str:
        """A signed URL. `path` begins with a slash; neither `path` nor `query` is escaped. With `length` it
        is good for a body of exactly so many bytes.
        """
        headers = {"host": self._host} if length is None else {"content-length": length, "host": self._host}
        names = ";".join(headers)  # in order
        moment = datetime.fromtimestamp(int(now), tz=UTC).strftime("%Y%m%dT%H%M%SZ")
        day = moment[:8]
        scope = f"{day}/{self._region}/s3/aws4_request"
        arguments = {
            **query,
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{self._access_key_id}/{scope}",
            "X-Amz-Date": moment,
            "X-Amz-Expires": str(seconds),
            "X-Amz-SignedHeaders": names,
        }
        # S3 escapes everything but the unreserved characters, once, and sorts by the escaped names.
        escaped = sorted((quote(name, safe=""), quote(value, safe="")) for name, value in arguments.items())
        query_text = "&".join(f"{name}={value}" for name, value in escaped)
        escaped_path = quote(self._base + path, safe="/")
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        request = f"{method}\n{escaped_path}\n{query_text}\n{lines}\n{names}\nUNSIGNED-PAYLOAD"
        signed = f"{_ALGORITHM}\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = hmac.new(self._signing_key(day), signed.encode(), hashlib.sha256).hexdigest()
        return f"{self._scheme}://{self._host}{escaped_path}?{query_text}&X-Amz-Signature={signature}"

    def _signing_key(self, day: str) -> bytes:
        """The signing key of a day, kept because a large file needs thousands of URLs."""
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
