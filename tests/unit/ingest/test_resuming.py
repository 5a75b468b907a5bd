"""Going on with an upload in parts, when the store does not play along."""

import pytest
from msgspec.structs import replace

from quire.assembly.components import open_components
from quire.assembly.presigned_uploads import open_presigned_uploads
from quire.ingest.context import IngestLimits, build_ingest_context
from quire.ingest.file_upload import start_file
from quire.ingest.new_batch import Submitter, open_batch
from quire.model.errors import Misconfigured, Missing, Retry
from quire.settings import Settings

OPENING = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": 3}
LARGE = {
    "file_name": "a.bin",
    "file_size": 12_000_000,
    "logical_path": "/a.bin",
    "processing_config": {"ocr": True, "describe": False, "pinax": True},
    "resume": True,
}


class Reluctant:
    """Presigned uploads whose store does not list parts."""

    def __init__(self, inner, error):
        self._inner, self._error = inner, error

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def list_parts(self, *_):
        raise self._error


@pytest.fixture
async def front(tmp_path):
    async with open_components(Settings(home=tmp_path)) as office:
        presigned = open_presigned_uploads(Settings(home=tmp_path), office)
        yield build_ingest_context(office, presigned, IngestLimits(), pipeline="preprocess", hands_over_to="")
        await presigned.close()


async def begun(front):
    batch = (await open_batch(front, OPENING, Submitter())).batch
    return batch, await start_file(front, batch.id, LARGE, base_url="")


@pytest.mark.parametrize("error", [Missing("gone"), Misconfigured("denied")])
async def test_a_store_that_does_not_tell_its_parts_begins_anew(front, error):
    batch, first = await begun(front)
    front = replace(front, presigned=Reluctant(front.presigned, error))
    again = await start_file(front, batch.id, LARGE, base_url="")
    assert (again.there, again.completed) == ([], False)
    assert again.upload_id != first.upload_id


async def test_a_store_that_is_away_leaves_what_was_begun(front):
    batch, first = await begun(front)
    away = replace(front, presigned=Reluctant(front.presigned, Retry("away")))
    with pytest.raises(Retry):
        await start_file(away, batch.id, LARGE, base_url="")
    assert (await start_file(front, batch.id, LARGE, base_url="")).upload_id == first.upload_id


async def test_going_on_changes_nothing_in_the_ledger(front):
    batch, _ = await begun(front)
    ledger = front.submissions
    before = await ledger.get_upload(batch.no, "/a.bin"), await ledger.get_submission(batch.id)
    await start_file(front, batch.id, LARGE, base_url="")
    assert (await ledger.get_upload(batch.no, "/a.bin"), await ledger.get_submission(batch.id)) == before
