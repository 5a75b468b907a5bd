"""The simulator's store keeps the promises of every other store."""

import pytest

from quire.testing.blobs_suite import BlobsSuite
from quire.testing.memory_blobs import MemoryBlobs


class TestMemoryBlobs(BlobsSuite):
    @pytest.fixture
    async def blobs(self):
        return MemoryBlobs()
