"""The queue suite on object stores: in memory, on a folder, on a real S3 server."""

import pytest

from quire.assembly.house import open_office
from quire.assembly.queues import open_queues_at
from quire.blobs.local import LocalBlobs
from quire.blobs.objects import BlobObjects
from quire.blobs.s3_objects import S3Objects
from quire.model.errors import Misconfigured
from quire.queues.bucket_store import BucketQueues
from quire.queues.port import Happening, Message
from quire.settings import Settings
from quire.settings.basics import Secret
from quire.settings.values import S3
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
    @pytest.mark.soak  # half a minute of syncing; a mark on the suite's own function would be everybody's
    async def test_sweeping_forgets_ids_whose_window_is_over_and_nothing_else(self, queues):
        await super().test_sweeping_forgets_ids_whose_window_is_over_and_nothing_else(queues)

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


class TestChosen:
    """By setting and by URL."""

    async def test_offices_of_one_house_share_the_queues_in_its_folder(self, tmp_path):
        settings = Settings(home=tmp_path / "home", queue_store="bucket")
        async with open_office(settings) as office:
            assert isinstance(office.queues, BucketQueues)
            await office.queues.send("q", [Message(id="m", body=b"hello")], now=0)
        async with open_office(settings) as office:
            (leased,) = await office.queues.lease("q", limit=9, seconds=9, now=1)
            assert leased.body == b"hello"
            assert (await office.queues.counters("q"))[Happening.SENT] == 1

    async def test_a_folder_that_was_not_there_is_gone_afterwards(self, tmp_path):
        for there in (False, True):
            folder = tmp_path / f"{there}"
            if there:
                folder.mkdir()
            async with open_queues_at(f"file://{folder}", SystemIds()) as opened:
                await opened.queues.send("q", [Message(id="m", body=b"")], now=0)
            assert folder.exists() == there

    async def test_a_folder_in_no_folder_is_refused(self, tmp_path):
        with pytest.raises(Misconfigured, match="no folder"):
            async with open_queues_at(f"file://{tmp_path}/none/such", SystemIds()):
                pass

    @pytest.mark.service
    async def test_a_house_on_s3_has_its_queues_in_the_bucket(self, tmp_path, s3_server):
        s3 = S3(
            bucket=s3_server.bucket,
            endpoint=s3_server.endpoint,
            region=s3_server.region,
            access_key_id=Secret(s3_server.access_key_id),
            secret_access_key=Secret(s3_server.secret_access_key),
            prefix=f"suite/{SystemIds().ulid()}",
            allow_http=True,
        )
        settings = Settings(home=tmp_path / "home", store="s3", queue_store="bucket", s3=s3)
        for expected in (1, 0):
            async with open_office(settings) as office:
                assert await office.queues.send("q", [Message(id="m", body=b"")], now=0) == expected
