"""The queue suite on object stores: in memory, on a folder, on a real S3 server."""

import pytest

from quire.blobs.local import LocalBlobs
from quire.blobs.objects import BlobObjects
from quire.blobs.s3_objects import S3Objects
from quire.queues.bucket_store import BucketQueues
from quire.system import SystemClock, SystemIds
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.queues_suite import QueuesSuite
from quire.testing.time import CountingIds


class TestMemory(QueuesSuite):
    @pytest.fixture
    async def queues(self):
        ids = CountingIds()
        queues = BucketQueues(BlobObjects(MemoryBlobs(), ids), ids)
        yield queues
        await queues.close()


class TestLocal(QueuesSuite):
    # Thousands of files, each of them synced.
    test_sweeping_forgets_ids_whose_window_is_over_and_nothing_else = pytest.mark.slow(
        QueuesSuite.test_sweeping_forgets_ids_whose_window_is_over_and_nothing_else
    )

    @pytest.fixture
    async def queues(self, tmp_path):
        ids = CountingIds()
        queues = BucketQueues(BlobObjects(LocalBlobs(tmp_path / "blobs"), ids), ids)
        yield queues
        await queues.close()


@pytest.mark.service
class TestS3(QueuesSuite):
    @pytest.fixture
    async def queues(self, s3_server):
        ids = SystemIds()
        objects = S3Objects(
            clock=SystemClock(),
            ids=ids,
            bucket=s3_server.bucket,
            endpoint=s3_server.endpoint,
            region=s3_server.region,
            access_key_id=s3_server.access_key_id,
            secret_access_key=s3_server.secret_access_key,
            prefix=f"suite/{ids.ulid()}",
            allow_http=True,
        )
        queues = BucketQueues(objects, ids)
        yield queues
        await queues.close()
        await objects.close()
