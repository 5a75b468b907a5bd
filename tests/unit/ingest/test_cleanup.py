"""Cleaning takes what nobody needs any more, and nothing else."""

from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.situations.contexts import components_on

from quire.assembly.components import Components
from quire.blobs.local import LocalBlobs
from quire.blobs.local.presigned_uploads import LocalPresignedUploads
from quire.database.sqlite import SqliteDatabase
from quire.ingest.cleanup import CleanupPolicy, CleanupResult, clean_up, list_due
from quire.ledger.port import BatchDraft, OutboxMessage, Upload
from quire.ledger.sqlite import SqliteLedger
from quire.ledger.submissions import NewSubmission
from quire.model.batch import Stage
from quire.queues.port import Message
from quire.queues.sqlite import SqliteQueues
from quire.testing.time import CountingIds, FakeClock

DAY = 86_400.0
QUEUE = "arke-batch-jobs"


class Scene:
    def __init__(self, office: Components, presigned: LocalPresignedUploads, clock: FakeClock) -> None:
        self.office, self.presigned, self.clock = office, presigned, clock

    async def opened(self, *, hands_over_to: str = "") -> str:
        batch_id = self.office.ids.ulid()
        draft = BatchDraft(
            id=batch_id,
            run_key=None,
            pipeline="preprocess",
            pipeline_version=1,
            plan="{}",
            now=self.clock.now(),
            hands_over_to=hands_over_to,
        )
        new = NewSubmission(
            draft=draft,
            session_id="s",
            uploader="ana",
            root_path="/",
            parent_pi="0" * 26,
            file_count=1,
            total_size=3,
        )
        await self.office.submissions.open_submission(new)
        return batch_id

    async def sent(self, batch_id: str, name: str = "a.txt", *, parts: bool = False) -> str:
        key = f"staging/{batch_id}/{name}"
        upload_id = await self.presigned.begin(key, content_type="text/plain") if parts else ""
        upload = Upload(
            path=f"/{name}",
            state="awaited",
            size=3,
            stamp="1",
            key=key,
            content_type="text/plain",
            upload_id=upload_id,
        )
        no = (await self.office.batches.get_batch(batch_id)).no
        await self.office.submissions.announce_upload(no, upload, now=self.clock.now())
        if not parts:
            await self.office.blobs.put(key, b"abc")
            taken = msgspec.structs.replace(upload, state="taken", taken_at=self.clock.now())
            await self.office.submissions.record_received(no, taken, now=self.clock.now())
        return key

    async def done(self, batch_id: str) -> None:
        """Closed, and preprocessed elsewhere."""
        found = await self.office.submissions.get_submission(batch_id)
        await self.office.uploads.close_batch(
            found.batch.no,
            revision=found.revision,
            total_files=found.files_taken,
            manifest_key=f"staging/{batch_id}/_manifest.json",
            message=OutboxMessage(queue="a", message_id=f"start-{batch_id}", body=b"{}"),
            now=self.clock.now(),
        )
        message = OutboxMessage(queue=QUEUE, message_id=f"handover-{batch_id}", body=b"{}")
        uploads = await self.office.submissions.list_arrivals(found.batch.no, after=None, limit=9)
        await self.office.submissions.accept_processed(
            found.batch.no, uploads, message=message, now=self.clock.now()
        )

    async def keys(self) -> list[str]:
        return [stored.key async for stored in self.office.blobs.list()]

    async def clean(self, **terms: float) -> CleanupResult:
        return await clean_up(self.office, self.presigned, CleanupPolicy(**terms))


@asynccontextmanager
async def opened_scene(folder):
    clock, ids = FakeClock(), CountingIds()
    database = SqliteDatabase(folder / "quire.db")
    await database.open()
    ledger, queues = SqliteLedger(database), SqliteQueues(database, ids)
    await ledger.prepare()
    await queues.prepare()
    blobs = LocalBlobs(folder / "blobs")
    presigned = LocalPresignedUploads(
        folder / "blobs", secret=b"s" * 32, clock=clock, max_blob_bytes=100, max_part_bytes=100
    )
    office = components_on(ledger, queues=queues, blobs=blobs, clock=clock, ids=ids, pipelines={})
    try:
        yield Scene(office, presigned, clock)
    finally:
        await database.close()


@pytest.fixture
async def scene(tmp_path):
    async with opened_scene(tmp_path) as made:
        yield made


async def test_an_upload_that_nobody_goes_on_with_is_given_up_with_its_bytes(scene):
    batch = await scene.opened()
    await scene.sent(batch)
    await scene.sent(batch, "large.bin", parts=True)
    scene.clock.advance(7 * DAY + 1)
    assert [(one.kind, one.batch_id) for one in await list_due(scene.office, CleanupPolicy())] == [
        ("idle_upload", batch)
    ]
    assert (await scene.clean()).idle_uploads == 1
    found = (await scene.office.submissions.get_submission(batch)).batch
    assert found.position.stage is Stage.CANCELLED
    assert "7 days" in found.error
    assert await scene.keys() == []
    assert await scene.clean() == CleanupResult()


async def test_an_upload_that_goes_on_is_left_alone(scene):
    batch = await scene.opened()
    scene.clock.advance(6 * DAY)
    await scene.sent(batch)
    scene.clock.advance(6 * DAY)
    assert await scene.clean() == CleanupResult()
    assert len(await scene.keys()) == 1


async def test_who_comes_back_while_others_are_cleaned_up_loses_nothing(scene):
    batch = await scene.opened()
    await scene.sent(batch)
    upload = await scene.sent(batch, "large.bin", parts=True)
    scene.clock.advance(8 * DAY)
    ledger = scene.office.submissions
    found = await ledger.list_idle_submissions(before=scene.clock.now(), limit=9)
    await scene.sent(batch, "b.txt")

    async def found_before(**_):
        return found

    ledger.list_idle_submissions = found_before
    assert await scene.clean() == CleanupResult()
    assert (await ledger.get_batch(batch)).position.stage is Stage.OPEN
    assert len(await scene.keys()) == 2
    noted = (await ledger.get_upload(1, "/large.bin")).upload_id
    assert await scene.presigned.list_parts(upload, noted) == []


async def test_a_batch_that_goes_on_again_keeps_its_staging(scene):
    batch = await scene.opened()
    await scene.sent(batch)
    await scene.done(batch)
    scene.clock.advance(31 * DAY)
    ledger = scene.office.submissions
    read = ledger.get_submission

    async def reopened(batch_id):
        known = await read(batch_id)
        position = msgspec.structs.replace(known.batch.position, stage=Stage.FLOWING)
        return msgspec.structs.replace(known, batch=msgspec.structs.replace(known.batch, position=position))

    ledger.get_submission = reopened
    assert await scene.clean() == CleanupResult()
    assert len(await scene.keys()) == 1


async def test_what_arrives_by_an_old_url_after_its_batch_was_given_up_is_found_later(scene):
    batch = await scene.opened()
    scene.clock.advance(8 * DAY)
    await scene.clean()
    await scene.office.blobs.put(f"staging/{batch}/late.txt", b"late")
    scene.clock.advance(31 * DAY)
    assert (await scene.clean()).objects == 1
    assert await scene.keys() == []


async def test_staged_files_go_some_time_after_the_end_and_only_those_of_their_batch(scene):
    ended, going_on = await scene.opened(), await scene.opened()
    await scene.sent(ended)
    kept = await scene.sent(going_on)
    await scene.done(ended)
    scene.clock.advance(29 * DAY)
    await scene.sent(going_on, "b.txt")
    assert (await scene.clean()).stagings == 0
    scene.clock.advance(2 * DAY)
    assert (await scene.clean()).stagings == 1
    assert kept in await scene.keys()
    assert not [key for key in await scene.keys() if ended in key]
    assert (await scene.office.submissions.get_submission(ended)).swept_at == scene.clock.now()
    kinds = [kind for _, _, kind, _ in await scene.office.records.list_events(1, limit=99)]
    assert kinds[-1] == "staging_swept"


@pytest.mark.parametrize("where", ["waiting", "leased", "dead"])
async def test_what_the_next_stage_has_not_taken_over_stays(scene, where):
    batch = await scene.opened(hands_over_to=QUEUE)
    await scene.sent(batch)
    await scene.done(batch)
    queues = scene.office.queues
    await queues.send(QUEUE, [Message(id=f"handover-{batch}", body=b"{}")], now=scene.clock.now())
    scene.clock.advance(31 * DAY)
    leased = []
    if where != "waiting":
        leased = await queues.lease(QUEUE, limit=1, seconds=60, now=scene.clock.now())
    if where == "dead":
        await queues.dead_letter(leased[0], now=scene.clock.now(), reason="no", error_class="no")
    assert await scene.clean() == CleanupResult()
    if where == "leased":
        await queues.acknowledge(leased, now=scene.clock.now())
        assert (await scene.clean()).stagings == 1


@pytest.mark.parametrize("terms", [{"idle_upload_days": 0.0}, {"idle_upload_days": 0.0, "staging_days": 0.0}])
async def test_it_can_be_switched_off(scene, terms):
    await scene.sent(await scene.opened())
    scene.clock.advance(1000 * DAY)
    assert await list_due(scene.office, CleanupPolicy(**terms)) == []
    assert await scene.clean(**terms) == CleanupResult()
