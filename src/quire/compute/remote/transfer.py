"""The line of a worker that runs elsewhere: bytes by presigned URLs, and one call home.

Promises: passing faults (no connection, 429, 5xx) are tried again, later each time and not for ever; files
are streamed; no URL is ever in a message, as each is a secret. Must not know: what a task is.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import httpx

from quire.model.errors import Missing, Reject, Retry

PIECE_BYTES = 1 << 20
ATTEMPTS = 6
FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 15.0
SHORT_SECONDS = 5.0
MOST_READ_BYTES = 1 << 20
_JSON = {"content-type": "application/json"}

T = TypeVar("T")


class ErrandLine:
    """A context manager. `sleep` and `fraction` are time and chance, handed in."""

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

    async def fetch(self, url: str, target: Path) -> None:
        """Raises Missing, Reject, or Retry when it does not work again and again."""

        async def once() -> None:
            async with self._http.stream("GET", url) as response:
                _check(response, "the input")
                with target.open("wb") as file:
                    async for piece in response.aiter_raw(PIECE_BYTES):
                        file.write(piece)

        await self._tried(once)

    async def put(self, url: str, source: Path, content_type: str) -> None:
        """Raises as `fetch` does. May be repeated."""
        headers = {"content-type": content_type, "content-length": str(_size(source))}

        async def once() -> None:
            _check(await self._http.put(url, content=_pieces(source), headers=headers), "an output")

        await self._tried(once)

    async def post(self, url: str, body: bytes, what: str) -> None:
        """JSON to an address that takes it. Raises as `fetch` does; `what` is for people."""

        async def once() -> None:
            _check(await self._http.post(url, content=body, headers=_JSON), what)

        await self._tried(once)

    async def ask(self, url: str, body: bytes, what: str, *, once: bool = False) -> bytes:
        """As `post`, with what is answered; `once`: a passing fault is not waited for."""
        timeout = httpx.Timeout(SHORT_SECONDS) if once else self._http.timeout

        async def asked() -> bytes:
            async with self._http.stream(
                "POST", url, content=body, headers=_JSON, timeout=timeout
            ) as response:
                _check(response, what)
                read = bytearray()
                async for piece in response.aiter_bytes():
                    read += piece
                    if len(read) > MOST_READ_BYTES:
                        raise Reject(f"{what} was answered with too much", code="task_refused")
                return bytes(read)

        return await self._tried(asked, attempts=1 if once else ATTEMPTS)

    async def _tried(self, work: Callable[[], Awaitable[T]], attempts: int = ATTEMPTS) -> T:
        for attempt in count(1):
            try:
                return await work()
            except httpx.TransportError as error:
                passing = Retry(f"no answer: {type(error).__name__}", code="no_answer")
                passing.__cause__ = error
            except httpx.InvalidURL as error:
                raise Reject("an address of the task is none", code="bad_task") from error
            except Retry as error:
                passing = error
            if attempt == attempts:
                raise passing
            delay = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** (attempt - 1))
            await self._sleep(delay * (0.5 + self._fraction() / 2))
        raise AssertionError


def _check(response: httpx.Response, what: str) -> None:
    status = response.status_code
    if response.is_success:
        return
    if status == 404:
        raise Missing(f"{what} is not there (404)")
    if status in {408, 429} or status >= 500:
        raise Retry(f"{what} was answered with {status}", code="no_answer")
    raise Reject(f"{what} was refused with {status}", code="task_refused")


def _size(source: Path) -> int:
    return source.stat().st_size


async def _pieces(source: Path) -> AsyncIterator[bytes]:
    with source.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
