"""A client of the batch upload protocol, for any server that speaks it as published.

Promise: transient errors (no connection, 5xx, 429) are retried with growing delays, a limited number of
times; every other error is raised with the server's words. The key is sent to the service alone, never to
presigned URLs, and neither is ever in a message. Must not know: folders, when to resume, terminals.
"""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import cache
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec
from msgspec import Struct

from quire.client.answers import (
    BatchStatus,
    ConfirmedPart,
    FailedFile,
    FailedFiles,
    Finalized,
    OpenedBatch,
    StartedUpload,
    clean_text,
    translate_refusal,
    translate_store_refusal,
    wrong_answer,
)
from quire.model.backoff import backoff_seconds
from quire.model.clock import Clock
from quire.model.errors import Misconfigured, QuireError, Reject, Retry

LARGEST_ANSWER_BYTES = 512 << 20
LARGEST_REFUSAL_BYTES = 64 << 10

Body = Callable[[], AsyncIterator[bytes]]  # the bytes from their beginning, as often as they are asked for
T = TypeVar("T", bound=Struct)
A = TypeVar("A")


class ClientRetries(Struct, frozen=True, kw_only=True):
    """Delays double from the first to the longest; jitter makes each up to a quarter longer or shorter."""

    attempts: int = 5
    first_delay_seconds: float = 1.0
    longest_delay_seconds: float = 30.0


class FileAnnouncement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    file_name: str
    file_size: int
    logical_path: str
    content_type: str
    processing_config: dict[str, Any]
    cid: str | None = None
    resume: bool = False


class IngestClient:
    """One for each upload; a context manager. `key` is a bearer token, empty for servers without keys."""

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
        fraction: Callable[[], float],
        retries: ClientRetries | None = None,
        agent: str = "quire",
        connections: int = 20,
    ) -> None:
        self._url = url.rstrip("/")
        self._key = {"Authorization": f"Bearer {key}"} if key else {}
        self._clock = clock
        self._sleep = sleep
        self._fraction = fraction
        self._retries = retries or ClientRetries()
        self._http = httpx.AsyncClient(
            verify=_load_certificates(),
            headers={"User-Agent": agent},
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            timeout=httpx.Timeout(60.0, connect=15.0, pool=None),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def init(self, body: Mapping[str, Any], idempotency_key: str | None) -> OpenedBatch:
        """Open a batch. On servers with idempotency keys, the same key gives the same batch again."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return await self._request("POST", "init", OpenedBatch, body, headers)

    async def status(self, batch_id: str) -> BatchStatus:
        """With the files as they were sent, on servers that remember them. Raises Missing when the server
        does not know the batch.
        """
        return await self._request("GET", f"{_quote_id(batch_id)}/status?files=uploaded", BatchStatus)

    async def failed(self, batch_id: str, *, limit: int) -> tuple[FailedFile, ...]:
        """Uploaded files that failed on the server; empty for servers that do not list them."""
        try:
            path = f"{_quote_id(batch_id)}/files?state=failed&limit={limit}"
            return (await self._request("GET", path, FailedFiles)).files
        except Reject:
            return ()

    async def start(self, batch_id: str, file: FileAnnouncement) -> StartedUpload:
        """Announce a file; with `resume`, a server that can continues an earlier upload of it. Not to be
        repeated: an original server would count the file twice.
        """
        return await self._request("POST", f"{_quote_id(batch_id)}/files/start", StartedUpload, file)

    async def complete(
        self, batch_id: str, r2_key: str, upload_id: str | None = None, parts: Sequence[ConfirmedPart] = ()
    ) -> None:
        """Confirm that the bytes were sent. May be repeated."""
        body: dict[str, Any] = {"r2_key": r2_key}
        if upload_id is not None:
            body |= {"upload_id": upload_id, "parts": sorted(parts, key=lambda part: part.part_number)}
        await self._request("POST", f"{_quote_id(batch_id)}/files/complete", _Done, body)

    async def finalize(self, batch_id: str, *, skip_incomplete: bool = False) -> Finalized:
        """Close the batch. Raises IncompleteUpload when announced files have not arrived."""
        body = {"skip_incomplete": True} if skip_incomplete else {}
        return await self._request("POST", f"{_quote_id(batch_id)}/finalize", Finalized, body)

    async def put(self, url: str, body: Body, size: int, content_type: str | None = None) -> str:
        """Send bytes to a URL that `start` gave; the store's ETag, without quotes."""
        headers = {"Content-Length": str(size)}
        if content_type is not None:
            headers["Content-Type"] = content_type

        async def once() -> str:
            async with self._open_exchange("PUT", url, headers, body()) as response:
                if not response.is_success:
                    said = await _read_limited(response, LARGEST_REFUSAL_BYTES)
                    raise translate_store_refusal(
                        response.status_code, response.headers, said, now=self._clock.now()
                    )
                await _read_limited(response, LARGEST_REFUSAL_BYTES)
                return str(response.headers.get("etag", "")).strip('"')

        return await self._retry(once)

    async def _request(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object = None,
        more: Mapping[str, str] | None = None,
    ) -> T:
        headers = self._key | dict(more or {})
        content = None
        if body is not None:
            content = msgspec.json.encode(body)
            headers["Content-Type"] = "application/json"

        async def once() -> T:
            async with self._open_exchange(
                method, f"{self._url}/api/batches/{path}", headers, content
            ) as response:
                if not response.is_success:
                    said = await _read_limited(response, LARGEST_REFUSAL_BYTES)
                    raise translate_refusal(
                        response.status_code, response.headers, said, now=self._clock.now()
                    )
                said = await _read_limited(response, LARGEST_ANSWER_BYTES)
            try:
                return msgspec.json.decode(said, type=answer)
            except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
                raise wrong_answer(path.partition("?")[0].rpartition("/")[2]) from error

        return await self._retry(once)

    def _open_exchange(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | AsyncIterator[bytes] | None
    ) -> "_Exchange":
        return _Exchange(self._http, method, url, headers, content)

    async def _retry(self, once: Callable[[], Awaitable[A]]) -> A:
        for attempt in count(1):
            try:
                return await once()
            except Retry as error:
                if attempt >= self._retries.attempts:
                    message = (
                        f"{error}; gave up after {attempt} attempts; run the same command again to continue"
                    )
                    raise Retry(message, code=error.code) from error
                await self._sleep(self._compute_delay(attempt, error))
        raise AssertionError  # pragma: no cover - the loop has no end of its own

    def _compute_delay(self, attempt: int, error: Retry) -> float:
        if error.delay_seconds is not None:
            return error.delay_seconds
        retries = self._retries
        delay = backoff_seconds(
            attempt, first=retries.first_delay_seconds, longest=retries.longest_delay_seconds
        )
        return delay * (0.75 + self._fraction() / 2)


class _Done(Struct, frozen=True):
    success: bool = True


class _Exchange:
    """A request in progress; transport errors become errors of `quire.model`."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | AsyncIterator[bytes] | None,
    ) -> None:
        self._http = http
        self._asked = (method, url, headers, content)
        self._response: httpx.Response | None = None

    async def __aenter__(self) -> httpx.Response:
        method, url, headers, content = self._asked
        try:
            request = self._http.build_request(method, url, headers=headers, content=content)
            self._response = await self._http.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise _translate_error(error) from error
        return self._response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._response is not None:
            await self._response.aclose()
        if isinstance(error, httpx.HTTPError):
            raise _translate_error(error) from error


@cache
def _load_certificates() -> ssl.SSLContext:
    """The certificates of the system, read once: reading takes a tenth of a second."""
    return httpx.create_ssl_context()


def _translate_error(error: Exception) -> QuireError:
    words = clean_text(str(error)) or type(error).__name__
    if "CERTIFICATE_VERIFY" in words:
        return Misconfigured(f"the server's certificate cannot be trusted ({words})", code="wrong_server")
    if isinstance(error, httpx.TransportError) and not isinstance(
        error, httpx.UnsupportedProtocol | httpx.LocalProtocolError
    ):
        return Retry(f"the server cannot be reached ({words})", code="server_unavailable")
    return Misconfigured("an address cannot be used; give --to as https://host", code="wrong_server")


async def _read_limited(response: httpx.Response, most: int) -> bytes:
    """At most that many bytes: a server may send without end."""
    read = bytearray()
    async for piece in response.aiter_bytes():
        read += piece
        if len(read) > most:
            if response.is_success:
                raise wrong_answer("a request (it has no end)")
            break
    return bytes(read)


def _quote_id(batch_id: str) -> str:
    return quote(batch_id, safe="")
