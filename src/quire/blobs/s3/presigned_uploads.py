"""Presigned uploads into an S3 bucket: Quire signs, the store receives. Needs no extra.

Promise: everything in `blobs.presigned_uploads`. S3 adds a rule: every part but the last has at least 5 MiB.
Must not know: settings, clients.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from xml.sax.saxutils import escape

from quire.blobs import keys
from quire.blobs.labels import check_labels
from quire.blobs.port import BlobInfo
from quire.blobs.presigned_rules import (
    MAX_PARTS,
    attachment,
    bad_parts,
    check_count,
    check_seconds,
    sort_parts,
)
from quire.blobs.presigned_uploads import CompletedPart, StoredPart
from quire.blobs.s3.requests import Pause, S3Requests, S3Response
from quire.blobs.s3.signing import Signer
from quire.model.clock import Clock
from quire.model.errors import Misconfigured, Missing

_PAGE = 1000
_BAD_PARTS = frozenset({"InvalidPart", "InvalidPartOrder", "EntityTooSmall", "MalformedXML"})


class S3PresignedUploads:
    def __init__(
        self,
        *,
        clock: Clock,
        bucket: str,
        endpoint: str | None = None,
        public_endpoint: str | None = None,
        region: str = "us-east-1",
        access_key_id: str,
        secret_access_key: str,
        prefix: str = "",
        allow_http: bool = False,
        timeout_seconds: float = 60,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Connects to nothing yet. `public_endpoint` is the store's address as uploaders reach it, when that
        is not `endpoint`; without both it is AWS. Raises Misconfigured.
        """
        own = endpoint or f"https://s3.{region}.amazonaws.com"
        shown = public_endpoint or own
        if not allow_http and not all(address.startswith("https://") for address in (own, shown)):
            raise Misconfigured(
                "The store's endpoint is not https: an eavesdropper could use the URLs. Use `allow_http` "
                "only on a network that you trust.",
                code="bad_settings",
            )
        access = {"region": region, "access_key_id": access_key_id, "secret_access_key": secret_access_key}
        self._clock = clock
        self._bucket = bucket
        self._prefix = keys.folder(prefix)
        self._public = Signer(endpoint=shown, **access)
        signer = Signer(endpoint=own, **access)
        self._requests = S3Requests(
            signer, clock, bucket=bucket, timeout_seconds=timeout_seconds, pause=pause
        )

    def __repr__(self) -> str:
        # Not the endpoint: people write credentials into URLs.
        return f"S3PresignedUploads(bucket={self._bucket!r}, prefix={self._prefix!r})"

    async def sign_put(
        self,
        key: str,
        *,
        seconds: int,
        base_url: str,  # noqa: ARG002
        announced: bool = True,  # noqa: ARG002
        size: int | None = None,
    ) -> str:
        return self._sign("PUT", key, {}, seconds, length=size)

    async def sign_get(self, key: str, *, seconds: int, base_url: str, name: str) -> str:  # noqa: ARG002
        # S3 cannot send `nosniff`; browsers neither show nor run an attachment of unknown type.
        answered = {
            "response-content-disposition": attachment(name),
            "response-content-type": "application/octet-stream",
        }
        return self._sign("GET", key, answered, seconds)

    async def begin(self, key: str, *, content_type: str, size: int | None = None) -> str:  # noqa: ARG002
        """Repeated when the answer is lost: the first upload then remains, without parts."""
        labels = check_labels(content_type, None)
        about = ("begin an upload of", key)
        answer = await self._requests.send(
            "POST", self._path(key), query={"uploads": ""}, content_type=labels.content_type, about=about
        )
        if not answer.is_success:
            raise self._requests.error_of(answer, about)
        upload_id = answer.fields.get("UploadId")
        if not upload_id:
            raise Misconfigured(
                f"The store began an upload of {key!r} and returned no id: it does not speak S3.",
                code="broken_store",
            )
        return upload_id

    async def sign_parts(
        self,
        key: str,
        upload_id: str,
        *,
        parts: int,
        seconds: int,
        base_url: str,  # noqa: ARG002
        size: int | None = None,
    ) -> list[str]:
        # Clients choose the sizes of several parts; only that of a single one is known beforehand.
        length = size if parts == 1 else None
        return [
            self._sign("PUT", key, {"partNumber": str(number), "uploadId": upload_id}, seconds, length=length)
            for number in range(1, check_count(parts) + 1)
        ]

    async def list_parts(self, key: str, upload_id: str) -> list[StoredPart]:
        about = ("list the parts of", key)
        path, found, after = self._path(key), list[StoredPart](), 0
        while True:
            query = {"uploadId": upload_id, "max-parts": str(_PAGE), "part-number-marker": str(after)}
            answer = await self._requests.send("GET", path, query=query, about=about)
            if not answer.is_success:
                raise self._no_upload(answer, about)
            page, following = _parse_page(answer, key)
            found += page
            if following is None:
                return _drop_repeated(found)
            if not after < following <= MAX_PARTS:  # each page advances, so the loop ends
                raise _not_s3(key)
            after = following

    async def join(self, key: str, upload_id: str, parts: Sequence[CompletedPart]) -> BlobInfo:
        """Repeated when the answer is lost; Missing may then mean that the parts are joined: check with
        `head`. Some servers remember the upload for a while and repeat their answer.
        """
        listed = "".join(
            f"<Part><PartNumber>{part.number}</PartNumber><ETag>&quot;{escape(part.etag)}&quot;</ETag></Part>"
            for part in sort_parts(parts)
        )
        namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
        body = f'<CompleteMultipartUpload xmlns="{namespace}">{listed}</CompleteMultipartUpload>'
        about = ("join the parts of", key)
        answer = await self._requests.send(
            "POST",
            self._path(key),
            query={"uploadId": upload_id},
            body=body.encode(),
            content_type="application/xml",
            about=about,
        )
        if answer.code in _BAD_PARTS:
            raise bad_parts(f"{key!r} has a part that is missing, too small or has another ETag")
        if not answer.is_success:
            raise self._no_upload(answer, about)
        return await self._head(key)

    async def abort(self, key: str, upload_id: str) -> None:
        about = ("abort an upload of", key)
        answer = await self._requests.send(
            "DELETE", self._path(key), query={"uploadId": upload_id}, about=about
        )
        if not answer.is_success and not isinstance(refusal := self._no_upload(answer, about), Missing):
            raise refusal

    async def close(self) -> None:
        """Release the connections. May be repeated."""
        await self._requests.close()

    async def _head(self, key: str) -> BlobInfo:
        """Joining does not return the size."""
        about = ("look at", key)
        answer = await self._requests.send("HEAD", self._path(key), query={}, about=about)
        if not answer.is_success:
            raise self._requests.error_of(answer, about)
        modified = answer.headers.get("last-modified")
        return BlobInfo(
            key=key,
            size=int(answer.headers.get("content-length", "0")),
            version=answer.headers.get("etag", ""),
            modified_at=parsedate_to_datetime(modified).timestamp() if modified else 0.0,
            content_type=answer.headers.get("content-type"),
        )

    def _no_upload(self, answer: S3Response, about: tuple[str, str]) -> Exception:
        if answer.code == "NoSuchUpload":
            return Missing(f"There is no upload of {about[1]!r} with this id: it was completed or aborted.")
        return self._requests.error_of(answer, about)

    def _sign(
        self, method: str, key: str, query: dict[str, str], seconds: int, *, length: int | None = None
    ) -> str:
        path, now = self._path(key), self._clock.now()
        return self._public.url(
            method, path, query=query, seconds=check_seconds(seconds), now=now, length=length
        )

    def _path(self, key: str) -> str:
        return f"/{self._bucket}/{keys.check(self._prefix + keys.check(key))}"


def _parse_page(answer: S3Response, key: str) -> tuple[list[StoredPart], int | None]:
    """Parts, and the number after which the next page begins. Raises Misconfigured when it is not a list."""
    rows = [row for row in answer.rows if row[""] == "Part"]
    try:
        if answer.fields.get("") != "ListPartsResult":
            raise _not_s3(key)
        page = [StoredPart(int(row["PartNumber"]), row["ETag"].strip('"'), int(row["Size"])) for row in rows]
        truncated = answer.fields.get("IsTruncated") == "true"
        return page, int(answer.fields["NextPartNumberMarker"]) if truncated else None
    except (KeyError, ValueError) as error:
        raise _not_s3(key) from error


def _drop_repeated(parts: Sequence[StoredPart]) -> list[StoredPart]:
    """Drop parts that are listed twice: SeaweedFS lists both versions of a part that was sent again."""
    times = Counter(part.number for part in parts)
    return sorted((part for part in parts if times[part.number] == 1), key=lambda part: part.number)


def _not_s3(key: str) -> Misconfigured:
    return Misconfigured(
        f"The store did not return a list of the parts of {key!r}: it does not speak S3.", code="broken_store"
    )
