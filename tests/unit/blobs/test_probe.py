"""Stores that lie are refused by name of the promise they break; honest ones pass."""

import asyncio

import pytest

from quire.blobs.local import LocalBlobs
from quire.blobs.port import IfAbsent, IfVersion
from quire.blobs.probe import probe
from quire.blobs.s3 import S3Blobs
from quire.model.errors import Misconfigured, Missing, Stale
from quire.system import SystemIds


class IgnoresIfNoneMatch(LocalBlobs):
    async def put(self, key, data, *, condition=None, **labels):
        return await super().put(
            key, data, condition=None if condition == IfAbsent() else condition, **labels
        )


class IgnoresIfMatch(LocalBlobs):
    async def put(self, key, data, *, condition=None, **labels):
        kept = None if isinstance(condition, IfVersion) else condition
        return await super().put(key, data, condition=kept, **labels)


class RefusesEverySwap(LocalBlobs):
    async def put(self, key, data, *, condition=None, **labels):
        if isinstance(condition, IfVersion):
            raise Stale("never")
        return await super().put(key, data, condition=condition, **labels)


class CreatesOnSwapOfNothing(LocalBlobs):
    async def put(self, key, data, *, condition=None, **labels):
        try:
            await self.head(key)
        except Missing:
            condition = None
        return await super().put(key, data, condition=condition, **labels)


class LetsBothRacersWin(LocalBlobs):
    """Looks first and writes afterwards: right for one at a time, wrong for two."""

    async def put(self, key, data, *, condition=None, **labels):
        if condition == IfAbsent():
            found = [stored.key async for stored in self.list()]
            await asyncio.sleep(0)
            if key in found:
                raise Stale("exists")
            condition = None
        return await super().put(key, data, condition=condition, **labels)


class DropsMetadata(LocalBlobs):
    async def put(self, key, data, *, metadata=None, **rest):  # noqa: ARG002
        return await super().put(key, data, **rest)


class AnswersFromCache(LocalBlobs):
    def __init__(self, root):
        super().__init__(root)
        self._cache = {}

    async def get(self, key):
        if key not in self._cache:
            self._cache[key] = await super().get(key)
        return self._cache[key]


class ListsLate(LocalBlobs):
    async def list(self, prefix="", *, after=""):  # noqa: ARG002
        for stored in ():
            yield stored


@pytest.mark.parametrize(
    ("liar", "promise"),
    [
        (IgnoresIfNoneMatch, "a second create of the same key is refused"),
        (IgnoresIfMatch, "a compare-and-swap with an old version is refused"),
        (RefusesEverySwap, "a compare-and-swap with the current version is accepted"),
        (CreatesOnSwapOfNothing, "a compare-and-swap of a missing key is refused"),
        (LetsBothRacersWin, "exactly one of several simultaneous creates succeeds"),
        (DropsMetadata, "content type and metadata are returned"),
        (AnswersFromCache, "a blob can be read as soon as it is written or overwritten"),
        (ListsLate, "a blob is listed as soon as it is written"),
    ],
)
async def test_a_liar_is_refused_by_name_of_the_broken_promise(tmp_path, liar, promise):
    with pytest.raises(Misconfigured) as refused:
        await probe(liar(tmp_path / "blobs"), SystemIds())
    assert refused.value.code == "broken_store"
    assert promise in str(refused.value)
    assert "Use a store with conditional writes" in str(refused.value)
    left = [stored.key async for stored in LocalBlobs(tmp_path / "blobs").list()]
    assert left == []


async def test_only_the_broken_promise_is_named(tmp_path):
    with pytest.raises(Misconfigured) as refused:
        await probe(DropsMetadata(tmp_path / "blobs"), SystemIds())
    assert "If-Match" not in str(refused.value)


async def test_an_honest_store_passes(tmp_path):
    kept = await probe(LocalBlobs(tmp_path / "blobs"), SystemIds())
    assert [promise.ok for promise in kept] == [True] * 8
    assert [path.name for path in (tmp_path / "blobs").iterdir() if not path.name.startswith(".")] == []


@pytest.mark.service
async def test_an_honest_s3_passes(s3_server):
    blobs = S3Blobs(
        bucket=s3_server.bucket,
        endpoint=s3_server.endpoint,
        access_key_id=s3_server.access_key_id,
        secret_access_key=s3_server.secret_access_key,
        allow_http=True,
    )
    assert len(await probe(blobs, SystemIds())) == 8
