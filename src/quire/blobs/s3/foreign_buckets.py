"""Reads single objects of buckets that are not Quire's own, by way of obstore.

Promises: only the buckets that were named are asked for anything; no more is received than asked for, however
large the object says it is. Must not know: what the objects are.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from quire.blobs import keys
from quire.blobs.s3.client import open_store
from quire.blobs.s3.errors import translate_errors
from quire.model.errors import Missing, Reject

if TYPE_CHECKING:
    from obstore.store import S3Store

_PIECE_BYTES = 1 << 18
_MOST_STORES = 64
ANY_BUCKET = "*"


class ForeignBuckets:
    def __init__(
        self,
        buckets: Collection[str],
        *,
        endpoint: str = "",
        access: Mapping[str, str],
        path_style: bool = True,
        allow_http: bool = False,
        timeout_seconds: float = 30.0,
    ) -> None:
        """`access` has region and keys, or is empty for a store that asks for none. `*` among the buckets
        permits every bucket that these keys may read. Connects to nothing yet.
        """
        self._buckets = frozenset(buckets)
        self._endpoint = endpoint
        self._access = dict(access)
        if not self._access.get("access_key_id"):
            self._access["skip_signature"] = "true"
        if not path_style:
            self._access["virtual_hosted_style_request"] = "true"
        self._allow_http = allow_http
        self._timeout_seconds = timeout_seconds
        self._stores: dict[str, S3Store] = {}

    async def read(self, bucket: str, key: str, *, max_bytes: int) -> bytes:
        """Raises Missing, also for a bucket that is not permitted; Reject `too_large`; and what the store
        raises.
        """
        if bucket not in self._buckets and ANY_BUCKET not in self._buckets:
            raise Missing(f"the bucket {bucket[:63]!r} is not among those that may be read", code="missing")
        keys.check(key)
        with translate_errors("read", key, bucket):
            found = await self._open(bucket).get_async(key)
            if found.meta["size"] > max_bytes:
                raise _too_large(max_bytes)
            read = bytearray()
            async for piece in found.stream(min_chunk_size=_PIECE_BYTES):
                read += bytes(piece)
                if len(read) > max_bytes:
                    raise _too_large(max_bytes)
        return bytes(read)

    def _open(self, bucket: str) -> "S3Store":
        if bucket not in self._stores:
            if len(self._stores) >= _MOST_STORES:  # `*`: strangers choose the names
                self._stores.pop(next(iter(self._stores)))
            self._stores[bucket] = open_store(
                bucket,
                self._endpoint or None,
                self._access,
                allow_http=self._allow_http,
                seconds=self._timeout_seconds,
            )
        return self._stores[bucket]


def _too_large(max_bytes: int) -> Reject:
    return Reject(f"the object is larger than {max_bytes} bytes", code="too_large")
