"""What all presigned uploads must do, as tests. Run it by a subclass with these fixtures:

    class TestMyPresignedUploads(PresignedUploadsSuite):
        blobs         the store behind it, empty
        presigned     the uploads on that store, with the real clock
        late          the same, with a clock that is an hour behind: URLs for less than an hour have expired
        base_url      where Quire's own routes are served, "" when URLs lead elsewhere

URLs are used as clients use them, by plain HTTP. Runs under pytest with pytest-asyncio in auto mode.
Must not know: any store.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from urllib.parse import unquote

import httpx
import pytest

from quire.blobs.port import Blobs
from quire.blobs.presigned_uploads import CompletedPart, PresignedUploads, StoredPart
from quire.model.errors import Missing, Reject
from quire.testing.blobs_suite import AWKWARD_KEYS, BAD_KEYS
from quire.testing.presigned_urls_suite import KEY, MIB, PresignedUrlsSuite, noise


class PresignedUploadsSuite(PresignedUrlsSuite):
    @pytest.mark.parametrize(
        "content_type", [None, "", "image/tiff", "application/x-www-form-urlencoded", "multipart/form-data"]
    )
    async def test_one_put_makes_one_blob(
        self,
        presigned: PresignedUploads,
        blobs: Blobs,
        base_url: str,
        web: httpx.AsyncClient,
        content_type: str | None,
    ) -> None:
        url = await presigned.sign_put(KEY, seconds=60, base_url=base_url)
        headers = {} if content_type is None else {"Content-Type": content_type}
        answer = await web.put(url, content=b"a=1&b=%20", headers=headers)
        assert answer.status_code == 200
        assert answer.headers["etag"].strip('"')
        assert await blobs.get(KEY) == b"a=1&b=%20"
        assert [stored.key async for stored in blobs.list()] == [KEY]

    @pytest.mark.parametrize("size", [0, 1, MIB, 5 * MIB - 1])
    async def test_bytes_are_stored_as_they_were_sent(
        self, presigned: PresignedUploads, blobs: Blobs, base_url: str, web: httpx.AsyncClient, size: int
    ) -> None:
        body = noise(size)
        answer = await web.put(await presigned.sign_put(KEY, seconds=60, base_url=base_url), content=body)
        assert answer.status_code == 200
        assert await blobs.get(KEY) == body

    @pytest.mark.parametrize("size", [5, 2 * MIB])
    @pytest.mark.parametrize("chunked", [True, False])
    async def test_a_body_larger_than_announced_is_not_stored(
        self,
        presigned: PresignedUploads,
        blobs: Blobs,
        base_url: str,
        web: httpx.AsyncClient,
        size: int,
        chunked: bool,
    ) -> None:
        upload_id = await presigned.begin("in/parts", content_type="image/tiff", size=size)
        url = await presigned.sign_put(KEY, seconds=60, base_url=base_url, size=size)
        (part,) = await presigned.sign_parts(
            "in/parts", upload_id, parts=1, seconds=60, base_url=base_url, size=size
        )

        async def pieces() -> AsyncIterator[bytes]:
            yield noise(size)
            yield b"x"

        for one in (url, part):
            refused = await web.put(one, content=pieces() if chunked else noise(size) + b"x")
            assert 400 <= refused.status_code < 500
        assert [stored.key async for stored in blobs.list()] == []
        assert await presigned.list_parts("in/parts", upload_id) == []
        sent = [await web.put(one, content=noise(size)) for one in (url, part)]
        assert [answer.status_code for answer in sent] == [200, 200]
        joined = await presigned.join("in/parts", upload_id, [CompletedPart(1, sent[1].headers["etag"])])
        assert (joined.size, (await blobs.head(KEY)).size) == (size, size)

    @pytest.mark.parametrize("announced", [True, False], ids=["an uploader's", "a worker's"])
    async def test_a_second_put_replaces_the_first(
        self,
        presigned: PresignedUploads,
        blobs: Blobs,
        base_url: str,
        web: httpx.AsyncClient,
        announced: bool,
    ) -> None:
        url = await presigned.sign_put(KEY, seconds=60, base_url=base_url, announced=announced)
        first, second = [await web.put(url, content=body) for body in (b"first", b"second")]
        assert first.headers["etag"] != second.headers["etag"]
        assert await blobs.get(KEY) == b"second"

    @pytest.mark.parametrize("key", AWKWARD_KEYS)
    async def test_awkward_keys_go_in_and_out(
        self, presigned: PresignedUploads, blobs: Blobs, base_url: str, web: httpx.AsyncClient, key: str
    ) -> None:
        url = await presigned.sign_put(key, seconds=60, base_url=base_url)
        assert url.isascii()
        assert not set(url) & set(' "<>\\^`{|}#')
        assert (await web.put(url, content=key.encode())).status_code == 200
        assert await blobs.get(key) == key.encode()
        assert [stored.key async for stored in blobs.list()] == [key]
        reading = await presigned.sign_get(key, seconds=60, base_url=base_url, name=key.rpartition("/")[2])
        assert (await web.get(reading)).content == key.encode()
        joined = f"joined/{key}"
        upload_id = await presigned.begin(joined, content_type="image/tiff")
        parts = await self.send_parts(presigned, base_url, web, joined, upload_id, [b"one part"])
        assert (await presigned.join(joined, upload_id, parts)).key == joined
        assert await blobs.get(joined) == b"one part"

    @pytest.mark.parametrize("key", [*BAD_KEYS, ".tmp/x", ".META/x", ".locks/y", ".parts/z"])
    async def test_bad_and_reserved_keys_are_refused(
        self, presigned: PresignedUploads, base_url: str, key: str
    ) -> None:
        calls = (
            presigned.sign_put(key, seconds=60, base_url=base_url),
            presigned.sign_get(key, seconds=60, base_url=base_url, name="x"),
            presigned.begin(key, content_type="image/tiff"),
            presigned.sign_parts(key, "0" * 32, parts=1, seconds=60, base_url=base_url),
            presigned.list_parts(key, "0" * 32),
            presigned.join(key, "0" * 32, [CompletedPart(1, "0" * 32)]),
            presigned.abort(key, "0" * 32),
        )
        for call in calls:
            with pytest.raises(Reject) as refused:
                await call
            assert refused.value.code == "bad_key"

    async def test_a_get_is_saved_under_its_name(
        self, presigned: PresignedUploads, blobs: Blobs, base_url: str, web: httpx.AsyncClient
    ) -> None:
        await blobs.put(KEY, b"<script>", content_type="text/html")
        name = 'Fönds "7" % ☂.html'
        answer = await web.get(await presigned.sign_get(KEY, seconds=60, base_url=base_url, name=name))
        assert (answer.status_code, answer.content) == (200, b"<script>")
        assert answer.headers["content-type"] == "application/octet-stream"
        disposition = answer.headers["content-disposition"]
        assert disposition.startswith("attachment; ")
        assert unquote(disposition.rpartition("''")[2]) == name

    @pytest.mark.parametrize(
        "sizes",
        [
            [6 * MIB],
            [1],
            [6_000_000, 6_000_000],
            [10 * MIB, 10 * MIB, 1234],
            [5 * MIB, 7 * MIB + 1, 6 * MIB, 1],
        ],
    )
    async def test_parts_of_any_size_become_one_blob(
        self,
        presigned: PresignedUploads,
        blobs: Blobs,
        base_url: str,
        web: httpx.AsyncClient,
        sizes: Sequence[int],
    ) -> None:
        body = noise(sum(sizes))
        ends = [sum(sizes[:count]) for count in range(len(sizes) + 1)]
        upload_id = await presigned.begin(KEY, content_type="image/tiff")
        pieces = [body[begin:end] for begin, end in pairwise(ends)]
        parts = await self.send_parts(presigned, base_url, web, KEY, upload_id, pieces)
        assert [stored async for stored in blobs.list()] == []
        quoted = [CompletedPart(part.number, f'"{part.etag}"') for part in reversed(parts)]
        stored = await presigned.join(KEY, upload_id, quoted)
        assert (stored.key, stored.size) == (KEY, len(body))
        head = await blobs.head(KEY)
        assert (head.size, head.version, head.content_type) == (len(body), stored.version, "image/tiff")
        hashed = hashlib.sha256()
        async for piece in blobs.stream(KEY):
            hashed.update(piece)
        assert hashed.digest() == hashlib.sha256(body).digest()
        assert [stored.key async for stored in blobs.list()] == [KEY]

    async def test_parts_arrive_in_any_order_and_may_be_sent_again(
        self, presigned: PresignedUploads, blobs: Blobs, base_url: str, web: httpx.AsyncClient
    ) -> None:
        bodies = [noise(5 * MIB, number) for number in range(3)]
        upload_id = await presigned.begin(KEY, content_type="image/tiff")
        urls = await presigned.sign_parts(KEY, upload_id, parts=3, seconds=60, base_url=base_url)
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        etags = {}
        assert (await web.put(urls[1], content=noise(6 * MIB, 99))).status_code == 200
        for number in (3, 1, 2):
            answer = await web.put(urls[number - 1], content=bodies[number - 1], headers=form)
            assert answer.status_code == 200
            etags[number] = answer.headers["etag"]
        await presigned.join(KEY, upload_id, [CompletedPart(number, etag) for number, etag in etags.items()])
        assert await blobs.get(KEY) == b"".join(bodies)

    async def test_what_has_arrived_can_be_asked_for(
        self, presigned: PresignedUploads, blobs: Blobs, base_url: str, web: httpx.AsyncClient
    ) -> None:
        upload_id = await presigned.begin(KEY, content_type="image/tiff")
        assert await presigned.list_parts(KEY, upload_id) == []
        urls = await presigned.sign_parts(KEY, upload_id, parts=12, seconds=60, base_url=base_url)
        etags = {}
        for number, size in ((11, 7), (2, 9), (2, 5 * MIB), (1, 5 * MIB + 1)):
            body = noise(size, number)
            etags[number] = (await web.put(urls[number - 1], content=body)).headers["etag"].strip('"')
        sizes = {1: 5 * MIB + 1, 2: 5 * MIB, 11: 7}
        wanted = [StoredPart(number, etags[number], size) for number, size in sizes.items()]
        # A part that was sent twice may be left out.
        assert await presigned.list_parts(KEY, upload_id) in (wanted, [wanted[0], wanted[2]])
        for key, wrong in (("other/key", upload_id), (KEY, "0" * 32)):
            with pytest.raises(Missing):
                await presigned.list_parts(key, wrong)
        await presigned.join(KEY, upload_id, [CompletedPart(part.number, part.etag) for part in wanted])
        assert (await blobs.head(KEY)).size == sum(sizes.values())
        given_up = await presigned.begin(KEY, content_type="image/tiff")
        await presigned.abort(KEY, given_up)
        for gone in (upload_id, given_up):
            with pytest.raises(Missing):
                await presigned.list_parts(KEY, gone)

    async def test_a_missing_part_or_another_etag_joins_nothing(
        self, presigned: PresignedUploads, blobs: Blobs, base_url: str, web: httpx.AsyncClient
    ) -> None:
        upload_id = await presigned.begin(KEY, content_type="image/tiff")
        urls = await presigned.sign_parts(KEY, upload_id, parts=3, seconds=60, base_url=base_url)
        etag = (await web.put(urls[0], content=b"x" * 5 * MIB)).headers["etag"]
        for parts in (
            [],
            [CompletedPart(1, etag), CompletedPart(2, etag)],
            [CompletedPart(1, "0" * 32)],
            [CompletedPart(1, "../../etc<&>")],
            [CompletedPart(1, "")],
            [CompletedPart(1, "é")],
            [CompletedPart(1, etag), CompletedPart(1, etag)],
            [CompletedPart(0, etag)],
            [CompletedPart(10_001, etag)],
        ):
            with pytest.raises(Reject) as refused:
                await presigned.join(KEY, upload_id, parts)
            assert refused.value.code == "bad_parts", parts
        assert [stored async for stored in blobs.list()] == []
        await presigned.join(KEY, upload_id, [CompletedPart(1, etag)])
        assert (await blobs.head(KEY)).size == 5 * MIB

    async def test_an_upload_is_joined_once_under_its_own_key(
        self, presigned: PresignedUploads, blobs: Blobs, base_url: str, web: httpx.AsyncClient
    ) -> None:
        upload_id = await presigned.begin(KEY, content_type="image/tiff")
        parts = await self.send_parts(presigned, base_url, web, KEY, upload_id, [b"x"])
        for key, wrong in (("other/key", upload_id), (KEY, "0" * 32)):
            with pytest.raises(Missing):
                await presigned.join(key, wrong, parts)
            await presigned.abort(key, wrong)
        first = await presigned.join(KEY, upload_id, parts)
        # S3 remembers a completed upload for a while and repeats its answer.
        with contextlib.suppress(Missing):
            assert (await presigned.join(KEY, upload_id, parts)).version == first.version
        assert (await blobs.head(KEY)).version == first.version
        assert [stored.key async for stored in blobs.list()] == [KEY]
        await presigned.abort(KEY, upload_id)
        assert await blobs.get(KEY) == b"x"

    async def test_of_two_joins_at_once_one_joins(
        self, presigned: PresignedUploads, blobs: Blobs, base_url: str, web: httpx.AsyncClient
    ) -> None:
        upload_id = await presigned.begin(KEY, content_type="image/tiff")
        parts = await self.send_parts(presigned, base_url, web, KEY, upload_id, [noise(5 * MIB), b"x"])
        calls = (presigned.join(KEY, upload_id, parts) for _ in range(3))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        joined = [outcome for outcome in outcomes if not isinstance(outcome, Missing)]
        assert joined
        assert not [outcome for outcome in joined if isinstance(outcome, BaseException)]
        assert await blobs.get(KEY) == noise(5 * MIB) + b"x"

    async def test_what_is_given_up_is_gone(
        self, presigned: PresignedUploads, blobs: Blobs, base_url: str, web: httpx.AsyncClient
    ) -> None:
        upload_id = await presigned.begin(KEY, content_type="image/tiff")
        other = await presigned.begin(KEY, content_type="image/tiff")
        assert other != upload_id
        urls = await presigned.sign_parts(KEY, upload_id, parts=2, seconds=60, base_url=base_url)
        kept = await self.send_parts(presigned, base_url, web, KEY, other, [b"kept"])
        etag = (await web.put(urls[0], content=b"x")).headers["etag"]
        for _ in range(2):
            await presigned.abort(KEY, upload_id)
        assert (await web.put(urls[1], content=b"x")).status_code == 404
        with pytest.raises(Missing):
            await presigned.join(KEY, upload_id, [CompletedPart(1, etag)])
        assert [stored async for stored in blobs.list()] == []
        await presigned.join(KEY, other, kept)
        assert await blobs.get(KEY) == b"kept"
