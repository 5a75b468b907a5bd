"""What an arrived file is said to be: one small read at most, and only where words contradict each other."""

import pytest

from quire.ingest.content_types import detect_content_type
from quire.ledger.port import Upload
from quire.testing.memory_blobs import MemoryBlobs

JPEG, PDF, ZIP = b"\xff\xd8\xff\xe0" + bytes(900), b"%PDF-1.7\n", b"PK\x03\x04" + bytes(40)
BINARY = "application/octet-stream"


@pytest.mark.parametrize(
    ("path", "said", "data", "kind", "read"),
    [
        ("/a/x.jpg", "image/jpeg", JPEG, "image/jpeg", False),
        ("/a/x.jpg", "image/jpg", JPEG, "image/jpg", False),
        ("/a/x.txt", "text/plain", JPEG, "text/plain", False),
        ("/a/x.jpg", BINARY, JPEG, "image/jpeg", True),
        ("/a/x", BINARY, JPEG, "image/jpeg", True),
        ("/a/x.tif", "image/jpeg", JPEG, "image/jpeg", True),
        ("/a/x.jpg", "image/tiff", JPEG, "image/jpeg", True),
        ("/a/x", "Image/JPEG; q=1", JPEG, "Image/JPEG; q=1", True),
        ("/a/x", "image/jpeg", PDF, "application/pdf", True),
        ("/a/x.docx", "application/msword", ZIP, "application/msword", True),
        ("/a/x.bin", BINARY, b"words", BINARY, True),
        ("/a/x", BINARY, b"", BINARY, False),
    ],
)
async def test_the_bytes_win_where_they_prove_something(path, said, data, kind, read):
    blobs = Watched()
    await blobs.put(f"staging/1{path}", data)
    upload = Upload(path=path, state="taken", size=len(data), key=f"staging/1{path}", content_type=said)
    assert await detect_content_type(blobs, upload) == kind
    assert blobs.reads == ([min(len(data), 512)] if read else [])


class Watched(MemoryBlobs):
    def __init__(self):
        super().__init__()
        self.reads = []

    def stream(self, key, *, start=0, stop=None):
        self.reads.append(stop)
        return super().stream(key, start=start, stop=stop)
