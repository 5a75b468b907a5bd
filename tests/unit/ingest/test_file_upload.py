"""Bytes that come late: what was confirmed or given up meanwhile stays as it is."""

import asyncio
from dataclasses import dataclass
from hashlib import sha256

import pytest
from msgspec.structs import replace

from quire.assembly.components import open_components
from quire.assembly.presigned_uploads import open_presigned_uploads
from quire.ingest.context import IngestContext, IngestLimits, build_ingest_context
from quire.ingest.file_upload import accept_bytes, complete_file, start_file, withdraw_file
from quire.ingest.new_batch import Submitter, open_batch
from quire.model.cid import cid_of
from quire.model.errors import Missing, Reject
from quire.settings import Settings

OPENING = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": 3}
MIB = 1 << 20


@dataclass
class Scene:
    front: IngestContext
    batch_id: str

    async def started(self, size: int, **more: str) -> tuple[str, str]:
        """The key, and the token of its URL."""
        said = {
            "file_name": "a.txt",
            "file_size": size,
            "logical_path": "/a.txt",
            "processing_config": {"ocr": True, "describe": False, "pinax": True},
            **more,
        }
        ticket = await start_file(self.front, self.batch_id, said, base_url="")
        return ticket.key, ticket.urls[0].rpartition("/")[2]

    async def put(self, token: str, body, size: int) -> str:
        return await self.front.presigned.receive(
            token, body, length=size, guard=lambda key, upload_id: accept_bytes(self.front, key, upload_id)
        )

    async def complete(self, key: str) -> None:
        await complete_file(self.front, self.batch_id, {"r2_key": key})

    async def withdraw(self, key: str) -> None:
        await withdraw_file(self.front, self.batch_id, key)

    async def stored(self, key: str) -> bytes:
        return await self.front.blobs.get(key)


@pytest.fixture
async def scene(tmp_path):
    async with open_components(Settings(home=tmp_path)) as office:
        presigned = open_presigned_uploads(Settings(home=tmp_path), office)
        front = build_ingest_context(
            office, presigned, IngestLimits(), pipeline="preprocess", hands_over_to=""
        )
        yield Scene(front, (await open_batch(front, OPENING, Submitter())).batch.id)
        await presigned.close()


async def body(data, meanwhile=None):
    """With something that happens in the midst of it."""
    yield data[: len(data) // 2]
    if meanwhile is not None:
        await meanwhile()
    yield data[len(data) // 2 :]


@pytest.mark.parametrize("size", [100, 3 * MIB])
async def test_a_body_that_ends_after_the_file_was_confirmed_is_not_stored(scene, size):
    key, token = await scene.started(size)

    async def confirmed():
        await scene.put(token, body(b"1" * size), size)
        await scene.complete(key)

    with pytest.raises(Reject) as refused:
        await scene.put(token, body(b"2" * size, confirmed), size)
    assert refused.value.code == "not_awaited"
    assert await scene.stored(key) == b"1" * size


@pytest.mark.parametrize("size", [100, 3 * MIB])
async def test_a_body_that_ends_after_the_file_was_given_up_leaves_nothing(scene, size):
    key, token = await scene.started(size)
    with pytest.raises(Reject) as refused:
        await scene.put(token, body(b"2" * size, lambda: scene.withdraw(key)), size)
    assert refused.value.code == "not_awaited"
    with pytest.raises(Missing):
        await scene.stored(key)


async def test_what_nobody_awaits_need_not_be_sent_to_its_end(scene):
    key, token = await scene.started(3 * MIB)
    await scene.withdraw(key)

    async def never():
        raise AssertionError("it was read")
        yield b""

    with pytest.raises(Reject) as refused:
        await scene.put(token, never(), 3 * MIB)
    assert refused.value.code == "not_awaited"


async def test_bytes_wait_while_their_file_is_being_confirmed(scene):
    """Looked at in the store, then noted: nothing else may be stored in between."""
    key, token = await scene.started(5)
    await scene.put(token, body(b"first"), 5)
    ledger, late = scene.front.submissions, []
    received = ledger.record_received

    async def slowly(*arguments, **named):
        late.append(asyncio.ensure_future(scene.put(token, body(b"other"), 5)))
        assert scene.front.lock_key(key).locked()
        await received(*arguments, **named)

    ledger.record_received = slowly
    await scene.complete(key)
    with pytest.raises(Reject):
        await late[0]
    assert await scene.stored(key) == b"first"


@pytest.mark.parametrize("verify", [1, 0])
async def test_that_cids_agree_can_be_switched_off(scene, verify):
    scene.front = replace(scene.front, limits=IngestLimits(verify_cid_bytes=verify))
    key, token = await scene.started(5, cid=cid_of(sha256(b"other").digest()))
    await scene.put(token, body(b"first"), 5)
    if verify:
        with pytest.raises(Reject, match="CID mismatch"):
            await scene.complete(key)
    else:
        await scene.complete(key)
