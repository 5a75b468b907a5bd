"""Requests to S3 that obstore does not offer: signs, sends and retries them, and parses the XML answers.

Promise: an answer is bounded in bytes and time; XML with a DTD is refused; errors are worded as in `errors`,
without URLs or credentials. Every request given to `send` may be sent twice. Must not know: uploads.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from xml.etree import ElementTree as ET

import httpx
from msgspec import Struct

from quire.blobs.s3.errors import TRANSIENT, UNAVAILABLE
from quire.blobs.s3.signing import Signer
from quire.model.clock import Clock
from quire.model.errors import Misconfigured, Missing, QuireError, Retry

_ATTEMPTS = 4
_CONNECTIONS = 16
_MAX_ANSWER_BYTES = 1 << 20
_SIGNED_SECONDS = 900  # servers allow clocks to differ by as much

Pause = Callable[[float], Awaitable[None]]


class S3Response(Struct, frozen=True):
    """`fields` are the texts of all elements, the root's name under ""; `rows` the same for each child of the
    root that has children. `code` is the error code in the body, which is possible with status 200, too.
    """

    status: int
    headers: Mapping[str, str]
    fields: Mapping[str, str]
    code: str
    rows: tuple[Mapping[str, str], ...] = ()

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300 and not self.code


class S3Requests:
    def __init__(
        self,
        signer: Signer,
        clock: Clock,
        *,
        bucket: str,
        timeout_seconds: float,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Connects to nothing yet."""
        self._signer = signer
        self._clock = clock
        self._bucket = bucket
        self._timeout_seconds = timeout_seconds
        self._pause = pause
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout_seconds, connect=10.0),
            limits=httpx.Limits(max_connections=_CONNECTIONS),
            headers={"Accept-Encoding": "identity", "User-Agent": "quire"},
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str | None = None,
        about: tuple[str, str],
    ) -> S3Response:
        """The server's answer, whether success or error; `error_of` words an error. Raises Retry when several
        attempts get no useful answer. `about` is an action and a key, for messages.
        """
        headers = {"Content-Type": content_type} if content_type else {}
        attempt = 0
        while True:
            attempt += 1
            now = self._clock.now()
            url = self._signer.url(method, path, query=query, seconds=_SIGNED_SECONDS, now=now)
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    answer = await self._send_once(method, url, headers, body)
            except (httpx.TransportError, TimeoutError) as error:
                if attempt >= _ATTEMPTS:
                    raise self._no_answer(about, type(error).__name__) from error
            else:
                if not _is_transient(answer) or attempt >= _ATTEMPTS:
                    return answer
            await self._pause(0.1 * 2**attempt * (0.5 + secrets.randbelow(1000) / 1000))

    async def _send_once(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> S3Response:
        async with self._client.stream(method, url, headers=headers, content=body) as response:
            read = bytearray()
            async for piece in response.aiter_bytes():
                read += piece
                if len(read) > _MAX_ANSWER_BYTES:
                    break
        fields, rows = _parse_xml(bytes(read))
        failed = response.status_code >= 300 or fields.get("") == "Error"
        code = fields.get("Code", "?") if failed else ""
        return S3Response(response.status_code, dict(response.headers), fields, code, rows)

    def _no_answer(self, about: tuple[str, str], reason: str) -> Retry:
        return Retry(
            f"Cannot {about[0]} {about[1]!r} in bucket {self._bucket!r} ({reason}). "
            "Is the endpoint right and the server up? It may work on the next try.",
            code=UNAVAILABLE,
        )

    def error_of(self, answer: S3Response, about: tuple[str, str]) -> QuireError:
        """The error that an unsuccessful answer means to the caller."""
        result = f"{answer.status} {answer.code}".removesuffix("?").strip()
        for fits, kind, advice, word in _error_table(answer):
            if fits:
                what = f"Cannot {about[0]} {about[1]!r} in bucket {self._bucket!r} ({result})."
                return kind(f"{what} {advice}", code=word)
        return self._no_answer(about, result)


def _error_table(answer: S3Response) -> tuple[tuple[bool, type[QuireError], str, str], ...]:
    """The same words as in `errors`, which classifies the client's exceptions: the first row that fits."""
    status, code = answer.status, answer.code
    final = 300 <= status < 500 and status not in TRANSIENT
    denied = "Check keys, region and rights on the bucket."
    return (
        (code == "NoSuchBucket", Misconfigured, "Create the bucket or correct its name.", "no_bucket"),
        (status == 404, Missing, "There is no such blob or upload.", "missing"),
        (code == "RequestTimeTooSkewed", Misconfigured, "Set this machine's clock.", "clock_skew"),
        (status in {401, 403}, Misconfigured, denied, "storage_denied"),
        (status == 501, Misconfigured, "Use a store that can do this.", "broken_store"),
        (final, Misconfigured, "Check endpoint, region and bucket.", "storage_refused"),
    )


def _is_transient(answer: S3Response) -> bool:
    if answer.status in TRANSIENT or (answer.status >= 500 and answer.status != 501):
        return True
    return answer.status == 200 and answer.code in {"InternalError", "SlowDown", "ServiceUnavailable"}


def _parse_xml(body: bytes) -> tuple[dict[str, str], tuple[dict[str, str], ...]]:
    """Fields and rows of an answer; nothing when it is not XML.

    Decoded first: a parser given bytes might find a DTD in an encoding that the search for it misses.
    """
    try:
        text = body.decode().strip()  # S3 sends blanks first while it joins parts
        if len(body) > _MAX_ANSWER_BYTES or "<!" in text or not text.startswith("<"):
            return {}, ()
        root = ET.fromstring(text)  # noqa: S314 - bounded, and without DTD and entities
    except (UnicodeDecodeError, ET.ParseError):
        return {}, ()
    return _texts(root), tuple(_texts(child) for child in root if len(child))


def _texts(root: ET.Element) -> dict[str, str]:
    found = {_local_name(element.tag): (element.text or "").strip() for element in root.iter()}
    return {**found, "": _local_name(root.tag)}


def _local_name(tag: str) -> str:
    return tag.rpartition("}")[2]
