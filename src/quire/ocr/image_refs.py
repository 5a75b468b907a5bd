"""From a reference to a picture to its bytes: a file below the image folder, an object, an address, an id.

Promises: nothing is read that must not be read (other folders, other buckets, internal addresses), and never
more than the limit; every failure has a code of the OCR contract. A Retry may work later, a Reject will not.
Must not know: what is in the pictures.
"""

import asyncio
import re
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from quire.model.envelopes import ImageRef, OcrErrorCode
from quire.model.errors import Misconfigured, Missing, QuireError, Reject, Retry
from quire.ocr.port import PictureBuckets
from quire.ocr.stored_pictures import StoredPictures
from quire.tools.guarded_fetch import GuardedFetcher
from quire.tools.rooted_files import FileTooLargeError, read_below

MAX_IMAGE_BYTES = 20_000_000
LONGEST_VALUE = 8000
DATABASE_ID = "{id}"  # what an id takes the place of in the address of the database's pictures

_BUCKET_SCHEMES = ("s3://", "minio://")
_WEB_SCHEMES = ("http://", "https://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
_PATH_STEPS = frozenset({".", ".."})  # would lead to another address than that of a picture
_TOO_LARGE = "too_large"
_CODES = {_TOO_LARGE: OcrErrorCode.UNSUPPORTED_MEDIA}


class ImageSources(Struct, frozen=True, kw_only=True):
    """Where pictures may come from. What is None is not there: references to it are not found.

    root:         folder that paths are relative to; absolute paths must lie within
    buckets:      for `s3://` and `minio://`
    fetcher:      for `http://` and `https://`
    stored:       what came over HTTP, as references of the kind `db`
    database_url: address of a picture of the kind `db`, with `{id}` where its id goes
    database:     fetches from there; the operator has chosen the address
    """

    root: Path | None = None
    buckets: PictureBuckets | None = None
    fetcher: GuardedFetcher | None = None
    stored: StoredPictures | None = None
    database_url: str = ""
    database: GuardedFetcher | None = None
    max_bytes: int = MAX_IMAGE_BYTES
    timeout_seconds: float = 30.0


def is_web_address(ref: ImageRef) -> bool:
    """Whether anybody could fetch it, as against what only this service can read."""
    return ref.kind in {"s3", "minio"} and ref.value.startswith(_WEB_SCHEMES)


async def load_image(sources: ImageSources, ref: ImageRef) -> bytes:
    """The bytes of the picture. Raises Reject or Retry, with a code of the contract."""
    try:
        async with asyncio.timeout(sources.timeout_seconds):
            found = await _load(sources, ref)
    except TimeoutError as error:
        raise _unread(f"the picture did not arrive within {sources.timeout_seconds:g} s") from error
    if not found:
        raise Reject("the picture is empty (0 bytes)", code=OcrErrorCode.UNSUPPORTED_MEDIA)
    return found


async def _load(sources: ImageSources, ref: ImageRef) -> bytes:
    if not ref.value or len(ref.value) > LONGEST_VALUE:
        raise _not_found("the reference is empty or too long")
    if ref.kind == "local_path":
        return await asyncio.to_thread(_load_file, sources, ref.value)
    if ref.kind == "db":
        return await _load_from_database(sources, ref.value)
    if ref.value.startswith(_WEB_SCHEMES):
        if sources.fetcher is None:
            raise _not_found("pictures are not fetched from web addresses here")
        return await _fetch(sources, sources.fetcher, ref.value)
    return await _load_object(sources, ref.value)


def _load_file(sources: ImageSources, name: str) -> bytes:
    if sources.root is None:
        raise _not_found("pictures are not read from files here")
    try:
        return read_below(sources.root, name, max_bytes=sources.max_bytes)
    except FileNotFoundError as error:
        # The same words for what is outside: nobody learns which files there are.
        raise _not_found("there is no such picture below the image folder") from error
    except FileTooLargeError as error:
        raise _too_large(sources) from error
    except OSError as error:
        raise _unread(f"the picture cannot be read ({error.strerror or type(error).__name__})") from error


async def _load_object(sources: ImageSources, value: str) -> bytes:
    scheme = next((one for one in _BUCKET_SCHEMES if value.startswith(one)), "")
    bucket, slash, key = value.removeprefix(scheme).partition("/")
    if not scheme or not slash or not key or not _BUCKET.fullmatch(bucket):
        raise _not_found("write s3://bucket/key or minio://bucket/key")
    if sources.buckets is None:
        raise _not_found("pictures are not read from buckets here")
    try:
        return await sources.buckets.read(bucket, key, max_bytes=sources.max_bytes)
    except QuireError as error:
        raise _translate(error) from error


async def _load_from_database(sources: ImageSources, picture_id: str) -> bytes:
    if sources.stored is not None and sources.stored.owns(picture_id):
        try:
            return await sources.stored.read(picture_id, max_bytes=sources.max_bytes)
        except QuireError as error:
            raise _translate(error) from error
    if not sources.database_url or sources.database is None:
        raise _not_found("this service knows no database of pictures")
    if picture_id in _PATH_STEPS:
        raise _not_found("this is no id of a picture")
    address = sources.database_url.replace(DATABASE_ID, quote(picture_id, safe=""))
    return await _fetch(sources, sources.database, address, redirects=0)


async def _fetch(sources: ImageSources, fetcher: GuardedFetcher, url: str, *, redirects: int = 5) -> bytes:
    try:
        found = await fetcher.fetch(
            url, max_bytes=sources.max_bytes, timeout_seconds=sources.timeout_seconds, redirects=redirects
        )
    except QuireError as error:
        raise _translate(error) from error
    if found.is_success:
        return found.body
    words = f"the address answers with status {found.status}"
    raise _unread(words) if found.status >= 500 or found.status in {408, 425, 429} else _not_found(words)


def _translate(error: QuireError) -> QuireError:
    """An error of a store or of the network as one of the contract. Names of buckets and keys are the
    caller's own; what a misconfigured store says is for the operator.
    """
    if isinstance(error, Retry):
        return _unread(str(error))
    if isinstance(error, Missing):
        return _not_found("there is no such object, or it may not be read")
    if isinstance(error, Misconfigured):
        return _not_found(f"the store does not give it ({error.code})")
    return Reject(str(error), code=_CODES.get(error.code, OcrErrorCode.IMAGE_NOT_FOUND))


def _not_found(why: str) -> Reject:
    return Reject(why, code=OcrErrorCode.IMAGE_NOT_FOUND)


def _unread(why: str) -> Retry:
    return Retry(why, code=OcrErrorCode.FILE_READ_ERROR)


def _too_large(sources: ImageSources) -> Reject:
    return Reject(
        f"the picture is larger than {sources.max_bytes} bytes", code=OcrErrorCode.UNSUPPORTED_MEDIA
    )
