"""The suite of presigned uploads: on a real S3 server, and a folder behind a small HTTP server of its own."""

import asyncio
import contextlib
import socket

import pytest
import uvicorn

from quire.blobs.local import LocalBlobs
from quire.blobs.local.presigned_uploads import LocalPresignedUploads
from quire.blobs.presigned_rules import attachment
from quire.blobs.s3 import S3Blobs
from quire.blobs.s3.presigned_uploads import S3PresignedUploads
from quire.model.errors import Missing, QuireError
from quire.system import SystemClock, SystemIds
from quire.testing.presigned_suite import PresignedUploadsSuite
from quire.testing.time import FakeClock

STATUS = {"bad_signature": 403, "url_expired": 403, "too_large": 413, "missing": 404}
HOUR_AGO = 3600


class Routes:
    """The two routes that local presigned uploads need, as a bare ASGI application."""

    def __init__(self, presigned, blobs):
        self.presigned = presigned
        self.blobs = blobs

    async def __call__(self, scope, receive, send):
        token = scope["path"].removeprefix("/blobs/")
        headers = dict(scope["headers"])
        with contextlib.suppress(ConnectionResetError):
            try:
                if scope["method"] == "PUT":
                    length = headers.get(b"content-length")
                    etag = await self.presigned.receive(token, body(receive), length=length and int(length))
                    await answer(send, 200, {"etag": f'"{etag}"'})
                elif scope["method"] == "GET":
                    key, name = self.presigned.read_download(token)
                    kept = {
                        "content-disposition": attachment(name),
                        "content-type": "application/octet-stream",
                    }
                    await answer(send, 200, kept, await self.blobs.get(key))
                else:
                    await answer(send, 405, {})
            except QuireError as error:
                status = 404 if isinstance(error, Missing) else STATUS.get(error.code, 400)
                await answer(send, status, {"connection": "close"})


async def body(receive):
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        more = message.get("more_body", False)
        yield message.get("body", b"")


async def answer(send, status, headers, content=b""):
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    fields.append((b"content-length", str(len(content)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": content})


@contextlib.asynccontextmanager
async def served(application):
    """Its address; requests that come before it runs wait in the socket."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    config = uvicorn.Config(application, lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running
        listening.close()


class TestLocalPresignedUploads(PresignedUploadsSuite):
    @pytest.fixture
    def root(self, tmp_path):
        (tmp_path / "blobs").mkdir()
        return tmp_path / "blobs"

    @pytest.fixture
    async def blobs(self, root):
        store = LocalBlobs(root)
        yield store
        await store.close()
        assert list((root / ".tmp").iterdir()) == []

    def read_download(self, root, clock):
        return LocalPresignedUploads(
            root, secret=b"s" * 32, clock=clock, max_blob_bytes=64 << 20, max_part_bytes=16 << 20
        )

    @pytest.fixture
    async def presigned(self, root):
        return self.read_download(root, SystemClock())

    @pytest.fixture
    async def late(self, root):
        return self.read_download(root, FakeClock(SystemClock().now() - HOUR_AGO))

    @pytest.fixture
    async def base_url(self, presigned, blobs):
        async with served(Routes(presigned, blobs)) as address:
            yield address


@pytest.mark.service
class TestS3PresignedUploads(PresignedUploadsSuite):
    @pytest.fixture
    def access(self, s3_server):
        return {
            "bucket": s3_server.bucket,
            "endpoint": s3_server.endpoint,
            "region": s3_server.region,
            "access_key_id": s3_server.access_key_id,
            "secret_access_key": s3_server.secret_access_key,
            "prefix": f"presigned/{SystemIds().ulid()}",  # an empty store for each test
            "allow_http": True,
        }

    @pytest.fixture
    async def blobs(self, access):
        store = S3Blobs(**access)
        yield store
        await store.close()

    @pytest.fixture
    async def presigned(self, access):
        presigned = S3PresignedUploads(clock=SystemClock(), **access)
        yield presigned
        await presigned.close()

    @pytest.fixture
    async def late(self, access):
        presigned = S3PresignedUploads(clock=FakeClock(SystemClock().now() - HOUR_AGO), **access)
        yield presigned
        await presigned.close()

    @pytest.fixture
    def base_url(self):
        return ""
