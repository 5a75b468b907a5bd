"""What the OCR service needs of others: a store of pictures, a reader, and a place for the states of jobs."""

from pathlib import Path
from typing import Protocol

from msgspec import Struct

from quire.model.page_text import PageText


class PictureBuckets(Protocol):
    """Buckets of other programs, with pictures in them."""

    async def read(self, bucket: str, key: str, *, max_bytes: int) -> bytes:
        """The whole object. Raises Missing, also for a bucket that may not be read; Reject `too_large`;
        Retry, Reject or Misconfigured when the store does not give it. May be repeated.
        """
        ...


class PictureWish(Struct, frozen=True, kw_only=True):
    """How a picture is to be read. With `places` also where its words stand; `tiers` are the engines to ask,
    empty: those of the settings.
    """

    language: str = "en"
    places: bool = False
    tiers: tuple[str, ...] = ()


class PictureTextReader(Protocol):
    """Reads the text of pictures, several at once."""

    async def read(self, path: Path, wish: PictureWish) -> PageText:
        """The text of a picture in a file of the reader's folder. A crash or a hang of an engine costs this
        picture alone. Raises Reject for a picture that cannot be read, Retry when another try may help.
        """
        ...


class JobStates(Protocol):
    """What callers may know of jobs they have sent over HTTP, for a day. A state is JSON."""

    async def save(self, job_id: str, state: bytes, *, seconds: float) -> None:
        """Replace the state; it is forgotten after so many seconds. Raises Unavailable."""
        ...

    async def load(self, job_id: str) -> bytes | None:
        """None: there is no such job, or it is forgotten. Raises Unavailable."""
        ...
