"""Pictures that came over HTTP, kept in the blob store until their job is done: messages carry no pictures.

A reference to one has the kind `db` and names its job and index. Promises: a name leads to nothing but such
a picture; one that no job has taken is deleted after a day. Must not know: HTTP.
"""

import re

from ulid import ULID

from quire.blobs.port import Blobs
from quire.model.errors import Missing, Reject

KEPT_SECONDS = 86_400.0
_FOLDER = "ocr/incoming/"
_PREFIX = "quire-ocr:"
_NAME = re.compile(r"([0-7][0-9A-HJKMNP-TV-Z]{25})/([0-9]{1,3})")


class StoredPictures:
    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def put(self, job_id: str, index: int, data: bytes) -> str:
        """Store the picture and return the value of a reference to it. Raises what the store raises."""
        await self._blobs.put(_key_of(job_id, index), data)
        return f"{_PREFIX}{job_id}/{index}"

    @staticmethod
    def owns(value: str) -> bool:
        """Whether a reference of the kind `db` is one to a picture here."""
        return value.startswith(_PREFIX)

    async def read(self, value: str, *, max_bytes: int) -> bytes:
        """Raises Missing, Reject `too_large`, and what the store raises."""
        found = _NAME.fullmatch(value.removeprefix(_PREFIX))
        if not self.owns(value) or found is None:
            raise Missing("there is no such picture", code="missing")
        key = _key_of(found[1], int(found[2]))
        if (await self._blobs.head(key)).size > max_bytes:
            raise Reject(f"the picture is larger than {max_bytes} bytes", code="too_large")
        return await self._blobs.get(key)

    async def forget(self, job_id: str, count: int) -> None:
        """Delete the pictures of a job. May be repeated."""
        for index in range(count):
            await self._blobs.delete(_key_of(job_id, index))

    async def sweep(self, *, now: float) -> int:
        """Delete pictures of jobs that were sent more than a day ago; returns how many."""
        deleted = 0
        async for blob in self._blobs.list(_FOLDER):
            job_id = blob.key.removeprefix(_FOLDER).partition("/")[0]
            if _sent_at(job_id) < now - KEPT_SECONDS:
                await self._blobs.delete(blob.key)
                deleted += 1
        return deleted


def _key_of(job_id: str, index: int) -> str:
    return f"{_FOLDER}{job_id}/{index}"


def _sent_at(job_id: str) -> float:
    """The time that is part of the id; what is no id of ours counts as old."""
    try:
        return float(ULID.from_str(job_id).timestamp)
    except ValueError:
        return 0.0
