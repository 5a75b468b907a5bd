"""What all presigned URLs must do, as tests: part of `PresignedUploadsSuite`. Must not know: any store."""

import asyncio
import contextlib
import hashlib
import random
import string
from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlsplit

import httpx
import pytest

from quire.blobs.port import Blobs
from quire.blobs.presigned_uploads import CompletedPart, PresignedUploads
from quire.model.errors import Reject

MIB = 1 << 20
KEY = "staging/01KA/fonds/box 7/page 001.tif"


def noise(size: int, seed: int = 7) -> bytes:
    return random.Random(seed).randbytes(size)


class PresignedUrlsSuite:
    @pytest.fixture
    async def web(self) -> AsyncIterator[httpx.AsyncClient]:
        async with httpx.AsyncClient(timeout=60) as client:
            yield client

    async def test_an_altered_url_is_refused(
        self, presigned: PresignedUploads, blobs: Blobs, base_url: str, web: httpx.AsyncClient
    ) -> None:
        upload_id = await presigned.begin(KEY, content_type="image/tiff")
        part = (await presigned.sign_parts(KEY, upload_id, parts=1, seconds=60, base_url=base_url))[0]
        whole = await presigned.sign_put(KEY, seconds=60, base_url=base_url)
        for url in (part, whole):
            address = urlsplit(url)
            begin = url.index(address.path) + 1
            altered = [url[:at] + _other(url[at]) + url[at + 1 :] for at in range(begin, len(url))]
            altered += [url[:-1], url + "A", url[:-8], url[: len(url) // 2]]
            for one in altered:
                # Some servers close the connection when a request is no longer valid HTTP.
                with contextlib.suppress(httpx.RemoteProtocolError):
                    answer = await web.put(one, content=b"never")
                    assert answer.status_code in {400, 403, 404, 405, 501}, one[begin:]
        assert [stored async for stored in blobs.list()] == []
        with pytest.raises(Reject):
            await presigned.join(
                KEY, upload_id, [CompletedPart(1, hashlib.sha256(b"never").hexdigest()[:32])]
            )

    async def test_a_url_runs_out(
        self,
        presigned: PresignedUploads,
        late: PresignedUploads,
        blobs: Blobs,
        base_url: str,
        web: httpx.AsyncClient,
    ) -> None:
        await blobs.put("there", b"x")
        upload_id = await presigned.begin(KEY, content_type="image/tiff")
        for url in (
            await late.sign_put(KEY, seconds=1, base_url=base_url),
            *await late.sign_parts(KEY, upload_id, parts=2, seconds=1, base_url=base_url),
        ):
            assert (await web.put(url, content=b"x")).status_code == 403
        reading = await late.sign_get("there", seconds=1, base_url=base_url, name="x")
        assert (await web.get(reading)).status_code == 403
        assert [stored.key async for stored in blobs.list()] == ["there"]
        longer = await late.sign_put(KEY, seconds=2 * 3600, base_url=base_url)
        assert (await web.put(longer, content=b"x")).status_code == 200

    @pytest.mark.parametrize("seconds", [0, -1, 7 * 24 * 3600 + 1])
    async def test_no_url_lives_for_ever(
        self, presigned: PresignedUploads, base_url: str, seconds: int
    ) -> None:
        with pytest.raises(Reject):
            await presigned.sign_put(KEY, seconds=seconds, base_url=base_url)
        with pytest.raises(Reject):
            await presigned.sign_get(KEY, seconds=seconds, base_url=base_url, name="x")
        with pytest.raises(Reject):
            await presigned.sign_parts(KEY, "0" * 32, parts=1, seconds=seconds, base_url=base_url)

    async def test_parts_are_numbered_to_ten_thousand(
        self, presigned: PresignedUploads, base_url: str
    ) -> None:
        upload_id = await presigned.begin(KEY, content_type="image/tiff")
        urls = await presigned.sign_parts(KEY, upload_id, parts=10_000, seconds=60, base_url=base_url)
        assert len(set(urls)) == 10_000
        for parts in (0, 10_001):
            with pytest.raises(Reject):
                await presigned.sign_parts(KEY, upload_id, parts=parts, seconds=60, base_url=base_url)

    async def test_a_url_is_for_one_method(
        self, presigned: PresignedUploads, blobs: Blobs, base_url: str, web: httpx.AsyncClient
    ) -> None:
        await blobs.put(KEY, b"before")
        writing = await presigned.sign_put(KEY, seconds=60, base_url=base_url)
        reading = await presigned.sign_get(KEY, seconds=60, base_url=base_url, name="x")
        for method, url in (
            ("GET", writing),
            ("POST", writing),
            ("DELETE", writing),
            ("PUT", reading),
            ("DELETE", reading),
        ):
            answer = await web.request(method, url, content=b"no" if method in {"PUT", "POST"} else None)
            assert answer.status_code in {403, 405}, (method, answer.status_code)
        assert await blobs.get(KEY) == b"before"

    async def test_half_an_upload_leaves_nothing(
        self, presigned: PresignedUploads, blobs: Blobs, base_url: str, web: httpx.AsyncClient
    ) -> None:
        await blobs.put("kept/key", b"before")
        upload_id = await presigned.begin(KEY, content_type="image/tiff")
        part = (await presigned.sign_parts(KEY, upload_id, parts=1, seconds=60, base_url=base_url))[0]
        for key, url in (
            (KEY, await presigned.sign_put(KEY, seconds=60, base_url=base_url)),
            ("kept/key", await presigned.sign_put("kept/key", seconds=60, base_url=base_url)),
            (KEY, part),
        ):
            await _cut(url, b"x" * 3 * MIB, announced=4 * MIB)
            found = [stored.key async for stored in blobs.list()]
            assert found == ["kept/key"], key
        assert await blobs.get("kept/key") == b"before"
        parts = await self.send_parts(presigned, base_url, web, KEY, upload_id, [b"whole"])
        await presigned.join(KEY, upload_id, parts)
        assert await blobs.get(KEY) == b"whole"

    async def send_parts(
        self,
        presigned: PresignedUploads,
        base_url: str,
        web: httpx.AsyncClient,
        key: str,
        upload_id: str,
        bodies: Sequence[bytes],
    ) -> list[CompletedPart]:
        """Send the parts, three at a time; return them as a client knows them."""
        urls = await presigned.sign_parts(key, upload_id, parts=len(bodies), seconds=60, base_url=base_url)
        some = asyncio.Semaphore(3)

        async def send(number: int, url: str, body: bytes) -> CompletedPart:
            async with some:
                answer = await web.put(url, content=body)
            assert answer.status_code == 200
            return CompletedPart(number, answer.headers["etag"].strip('"'))

        numbered = zip(range(1, len(bodies) + 1), urls, bodies, strict=True)
        return list(await asyncio.gather(*(send(*one) for one in numbered)))


def _other(message: str) -> str:
    """Another character of the same kind."""
    for kind in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
        if message in kind:
            return kind[(kind.index(message) + 1) % len(kind)]
    return "-" if message == "_" else "_"


async def _cut(url: str, body: bytes, *, announced: int) -> None:
    """Send a truncated PUT; return when the server has noticed."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    target = f"{address.path}?{address.query}" if address.query else address.path
    head = f"PUT {target} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: {announced}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    writer.write_eof()
    await reader.read()
    writer.close()
    await writer.wait_closed()
