"""The suite of blob stores on a folder and on a real S3 server."""

import pytest

from quire.blobs.local import LocalBlobs
from quire.blobs.s3 import S3Blobs
from quire.system import SystemIds
from quire.testing.blobs_suite import BlobsSuite


class TestLocalBlobs(BlobsSuite):
    @pytest.fixture
    async def blobs(self, tmp_path):
        store = LocalBlobs(tmp_path / "blobs")
        yield store
        await store.close()
        assert list((tmp_path / "blobs" / ".tmp").iterdir()) == []


@pytest.mark.service
class TestS3Blobs(BlobsSuite):
    @pytest.fixture
    async def blobs(self, s3_server):
        store = S3Blobs(
            bucket=s3_server.bucket,
            endpoint=s3_server.endpoint,
            region=s3_server.region,
            access_key_id=s3_server.access_key_id,
            secret_access_key=s3_server.secret_access_key,
            prefix=f"suite/{SystemIds().ulid()}",  # an empty store for each test
            allow_http=True,
        )
        yield store
        await store.close()
