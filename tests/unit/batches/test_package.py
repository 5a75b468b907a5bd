"""A package whose receiver goes away in the middle of it."""

import gc
import sys

import pytest

from quire.assembly.components import open_components
from quire.batches.package import stream_package
from quire.ingest.context import IngestLimits, build_ingest_context
from quire.ingest.new_batch import Submitter, open_batch
from quire.ledger.port import OutboxMessage, Upload
from quire.ledger.submissions import AWAITED
from quire.settings import Settings

OPENING = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": 3}
SIZE = 5 << 20  # several pieces


@pytest.fixture
async def office(tmp_path):
    async with open_components(Settings(home=tmp_path)) as opened:
        yield opened


@pytest.fixture
async def batch_id(office):
    """Of a batch that has ended, with one file."""
    front = build_ingest_context(office, None, IngestLimits(), pipeline="preprocess", hands_over_to="")
    batch = (await open_batch(front, OPENING, Submitter())).batch
    key = f"staging/{batch.id}/a.bin"
    upload = Upload(path="/a.bin", state=AWAITED, size=SIZE, stamp="1", key=key, content_type="a/b")
    await office.blobs.put(key, b"x" * SIZE)
    await office.submissions.announce_upload(batch.no, upload, now=1.0)
    await office.submissions.record_received(batch.no, upload, now=2.0)
    revision = (await office.submissions.get_submission(batch.id)).revision
    message = OutboxMessage(queue="a", message_id="start", body=b"{}")
    await office.uploads.close_batch(
        batch.no, revision=revision, manifest_key="m", total_files=1, message=message, now=3.0
    )
    message = OutboxMessage(queue="b", message_id="handover", body=b"{}")
    await office.submissions.accept_processed(batch.no, [upload], message=message, now=4.0)
    return batch.id


@pytest.mark.parametrize("end", ["closed", "dropped", "collected"])
async def test_a_package_that_nobody_fetches_to_its_end_is_closed_quietly(office, batch_id, end, monkeypatch):
    complaints = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    pieces = stream_package(office, batch_id, bag=True, inputs=True)
    fetched = b""
    while len(fetched) < SIZE // 2:
        fetched += await anext(pieces)
    if end == "closed":
        await pieces.aclose()
    if end == "collected":
        kept = [pieces]
        kept.append(kept)
        del kept
    del pieces
    gc.collect()
    await office.batches.get_batch(batch_id)  # the loop has closed by now what was only dropped
    gc.collect()
    # That files were closed by nobody else is no news where everything is collected at once.
    assert [one.exc_value for one in complaints if one.exc_type is not ResourceWarning] == []
