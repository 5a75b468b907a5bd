"""The HTTP client of a remote worker: files by presigned URLs, and the callback.

Promises: passing faults (no connection, 429, 5xx) are tried again, later each time and not for ever; files
are streamed; no message contains a URL, because each is a secret. Must not know: what a task is.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import httpx

from quire.model.backoff import backoff_seconds
from quire.model.errors import DamagedBlob, Missing, Reject, Retry

PIECE_BYTES = 1 << 20
ATTEMPTS = 6
FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 15.0
SHORT_SECONDS = 5.0
MAX_ANSWER_BYTES = 1 << 20
_JSON = {"content-type": "application/json"}

T = TypeVar("T")


class TransferClient:
    """A context manager. `sleep` and `fraction` supply time and randomness."""

    def __init__(
        self,
        *,
        sleep: Callable[[float], Awaitable[None]],
        fraction: Callable[[], float],
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._sleep = sleep
        self._fraction = fraction
        self._http = httpx.AsyncClient(timeout=httpx.Timeout(60.0, connect=15.0), transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def fetch(self, url: str, target: Path, digest: str = "") -> None:
        """Raises Missing, Reject, or Retry when all attempts fail; DamagedBlob for other bytes than those
        with this SHA-256, where one is given.
        """

        async def once() -> None:
            hashed = hashlib.sha256()
            async with self._http.stream("GET", url) as response:
                if response.status_code == 500 and await _tells_damage(response):
                    raise damaged("input")
                _check(response, "the input")
                with target.open("wb") as file:
                    async for piece in response.aiter_raw(PIECE_BYTES):
                        hashed.update(piece)
                        file.write(piece)
            if digest and hashed.hexdigest() != digest:
                raise damaged("input")

        await self._with_retries(once)

    async def put(self, url: str, source: Path, content_type: str) -> None:
        """Raises as `fetch` does. May be repeated."""
        headers = {"content-type": content_type, "content-length": str(_size(source))}

        async def once() -> None:
            _check(await self._http.put(url, content=_pieces(source), headers=headers), "an output")

        await self._with_retries(once)

    async def post(self, url: str, body: bytes, what: str) -> None:
        """Post JSON. Raises as `fetch` does; `what` names the request in errors."""

        async def once() -> None:
            _check(await self._http.post(url, content=body, headers=_JSON), what)

        await self._with_retries(once)

    async def ask(self, url: str, body: bytes, what: str, *, once: bool = False) -> bytes:
        """Like `post`, and returns the answer; with `once` there is only one attempt."""
        timeout = httpx.Timeout(SHORT_SECONDS) if once else self._http.timeout

        async def request() -> bytes:
            async with self._http.stream(
                "POST", url, content=body, headers=_JSON, timeout=timeout
            ) as response:
                _check(response, what)
                read = bytearray()
                async for piece in response.aiter_bytes():
                    read += piece
                    if len(read) > MAX_ANSWER_BYTES:
                        raise Reject(f"the answer to {what} is too large", code="task_refused")
                return bytes(read)

        return await self._with_retries(request, attempts=1 if once else ATTEMPTS)

    async def _with_retries(self, work: Callable[[], Awaitable[T]], attempts: int = ATTEMPTS) -> T:
        for attempt in count(1):
            try:
                return await work()
            except httpx.TransportError as error:
                passing = Retry(f"no answer: {type(error).__name__}", code="no_answer")
                passing.__cause__ = error
            except httpx.InvalidURL as error:
                raise Reject("a URL of the task is invalid", code="bad_task") from error
            except Retry as error:
                passing = error
            if attempt == attempts:
                raise passing
            delay = backoff_seconds(
                attempt, first=FIRST_DELAY_SECONDS, longest=LONGEST_DELAY_SECONDS, fraction=self._fraction()
            )
            await self._sleep(delay)
        raise AssertionError


def _check(response: httpx.Response, what: str) -> None:
    status = response.status_code
    if response.is_success:
        return
    if status == 404:
        raise Missing(f"{what} does not exist (404)")
    if status in {408, 429} or status >= 500:
        raise Retry(f"{what} was answered with {status}", code="no_answer")
    raise Reject(f"{what} was refused with {status}", code="task_refused")


async def _tells_damage(response: httpx.Response) -> bool:
    """Whether Quire's own server says that its stored copy is damaged: asking again does not help then."""
    told = bytearray()
    async for piece in response.aiter_bytes():
        told += piece
        if len(told) > MAX_ANSWER_BYTES:
            break
    return b'"DamagedBlob"' in told


def damaged(what: str) -> DamagedBlob:
    return DamagedBlob(
        f"Quire's stored copy of the {what} is damaged: its bytes no longer have the digest they were stored "
        "with. The file that was sent is not to blame. Run the folder again or send the file again: then the "
        "copy is replaced; look after the disk of the store."
    )


def _size(source: Path) -> int:
    return source.stat().st_size


async def _pieces(source: Path) -> AsyncIterator[bytes]:
    with source.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
