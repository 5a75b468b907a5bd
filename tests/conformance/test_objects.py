"""The suite of stores for state: in memory, on a folder, on a real S3 server by either adapter."""

import pytest

from quire.blobs.local import LocalBlobs
from quire.blobs.objects import BlobObjects
from quire.blobs.s3 import S3Blobs
from quire.blobs.s3.objects import S3Objects
from quire.system import SystemClock, SystemIds
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.objects_suite import ObjectsSuite, keys_of


def access(server, ids):
    return {
        "bucket": server.bucket,
        "endpoint": server.endpoint,
        "region": server.region,
        "access_key_id": server.access_key_id,
        "secret_access_key": server.secret_access_key,
        "prefix": f"suite/{ids.ulid()}",  # an empty store for each test
        "allow_http": True,
    }


class TestMemory(ObjectsSuite):
    @pytest.fixture
    def objects(self):
        return BlobObjects(MemoryBlobs(), SystemIds())


class TestLocal(ObjectsSuite):
    @pytest.fixture
    def objects(self, tmp_path):
        return BlobObjects(LocalBlobs(tmp_path / "blobs"), SystemIds())


@pytest.mark.service
class TestBlobsOnS3(ObjectsSuite):
    @pytest.fixture
    def objects(self, s3_server):
        ids = SystemIds()
        return BlobObjects(S3Blobs(**access(s3_server, ids)), ids)


@pytest.mark.service
class TestS3(ObjectsSuite):
    @pytest.fixture
    async def objects(self, s3_server):
        ids = SystemIds()
        objects = S3Objects(clock=SystemClock(), ids=ids, **access(s3_server, ids))
        yield objects
        await objects.close()

    async def test_a_long_listing_comes_in_pages(self, objects):
        for number in range(1100):
            await objects.put(f"queue/todo/3_normal/{number:05d}", b"")
        sizes = [len(page) async for page in objects.pages("queue/todo")]
        assert sizes == [1000, 100]
        await objects.delete([f"queue/todo/3_normal/{number:05d}" for number in range(1100)])
        assert await keys_of(objects, "queue") == []
