"""Counts the bytes of uploads while they arrive in this process.

Promise: a body is cut off at the byte with which it exceeds its limit, or with which its upload exceeds the
size that was announced, whatever its headers say and however many parts arrive at once; one URL receives only
a few large bodies at a time, so that temporary files are bounded, too. Other processes count for themselves:
what becomes a part is checked again where parts are stored. Must not know: files, URLs.
"""

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from quire.model.errors import Reject, Retry

AT_ONCE = 4  # large bodies of one URL: a client may send again while its broken connection is not yet noticed

_Place = tuple[str, str, int]  # key, id of the multipart upload, number of the part


class Meter:
    """The bytes of one body. `whole` counts them together with those of the other parts."""

    def __init__(self, max_bytes: int, whole: "UploadBytes | None" = None, part: int = 0) -> None:
        self.size = 0
        self.max_bytes = max_bytes
        self._whole = whole
        self._part = part

    def expect(self, length: int) -> None:
        """Raises Reject `too_large` for a length that cannot be accepted, before anything has arrived."""
        room = self.max_bytes if self._whole is None else min(self.max_bytes, self._whole.room(self._part))
        if length > room:
            raise too_large(room)

    def count(self, size: int) -> None:
        """Raises Reject `too_large`."""
        self.size += size
        if self.size > self.max_bytes:
            raise too_large(self.max_bytes)
        if self._whole is not None:
            self._whole.update(self._part)


class UploadBytes:
    """The bytes of a multipart upload: of each part the stored ones, or those that arrive to replace them."""

    def __init__(self, max_bytes: int, stored: Mapping[int, int]) -> None:
        self._max_bytes = max_bytes
        self._stored = dict(stored)
        self._counted = dict(stored)
        self._total = sum(stored.values())
        self._arriving: dict[int, list[Meter]] = {}

    def room(self, part: int) -> int:
        """How large this part may be beside the others."""
        return max(0, self._max_bytes - self._total + self._counted.get(part, 0))

    def update(self, part: int) -> None:
        """Raises Reject `too_large` when the upload has become larger than announced."""
        self._recount(part)
        if self._total > self._max_bytes:
            raise too_large(self._max_bytes)

    @contextmanager
    def receiving(self, part: int, max_bytes: int) -> Iterator[Meter]:
        """Count a body as this part; when it fails, what was stored before counts again."""
        meter = Meter(max_bytes, self, part)
        self._arriving.setdefault(part, []).append(meter)
        try:
            yield meter
            self._stored[part] = meter.size
        finally:
            self._arriving[part].remove(meter)
            self._recount(part)

    def _recount(self, part: int) -> None:
        # The largest, not the sum: a part that is sent again is there once in the end.
        sizes = [meter.size for meter in self._arriving[part]] or [self._stored.get(part, 0)]
        self._total += max(sizes) - self._counted.get(part, 0)
        self._counted[part] = max(sizes)


class Arrivals:
    """All bodies that this process is receiving."""

    def __init__(self) -> None:
        self._bodies: dict[_Place, int] = {}
        self._uploads: weakref.WeakValueDictionary[str, UploadBytes] = weakref.WeakValueDictionary()

    @contextmanager
    def one_more(self, key: str, upload_id: str, part: int) -> Iterator[None]:
        """Raises Retry `rate_limited`."""
        place = (key, upload_id, part)
        if self._bodies.get(place, 0) >= AT_ONCE:
            raise Retry(
                f"{AT_ONCE} bodies are being sent to this URL already; send again when they have failed",
                code="rate_limited",
                delay_seconds=1,
            )
        self._bodies[place] = self._bodies.get(place, 0) + 1
        try:
            yield
        finally:
            self._bodies[place] -= 1
            if not self._bodies[place]:
                del self._bodies[place]

    def join_upload(self, upload_id: str, max_bytes: int, stored: Mapping[int, int]) -> UploadBytes:
        """The count that all bodies of an upload share; begun from what is stored when it is the first."""
        return self._uploads.setdefault(upload_id, UploadBytes(max_bytes, stored))


def too_large(max_bytes: int) -> Reject:
    return Reject(
        f"This is more than the {max_bytes} bytes that are accepted here: the size that was announced for "
        "the file, or the limit of a file or part. Announce the file again with its true size.",
        code="too_large",
    )
