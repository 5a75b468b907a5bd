"""The published tools and ours on one bucket of a real S3 server, in both directions and at the same time."""

import asyncio
import hashlib
import io
import json
import zipfile

import msgspec
import pytest
from obstore.store import S3Store
from tests.situations.libraries import worker_options
from tests.standins.blobforge import Blobforge, BucketClient

from quire.blobs.s3 import S3Blobs
from quire.blobs.s3.objects import S3Objects
from quire.library import job_control, listing
from quire.library.context import LibraryContext, LibraryRules
from quire.library.hydration import HydrationOutcome, HydrationSource, hydrate
from quire.library.janitor import sweep
from quire.library.protocol import janitor, layout, lifecycle
from quire.library.protocol.lifecycle import JobCandidate
from quire.library.protocol.operator import JobStatus
from quire.library.status import read_status
from quire.library.worker.job_run import JobOutcome
from quire.library.worker.loop import work
from quire.system import SystemClock, SystemIds

pytestmark = pytest.mark.service
ALWAYS_STALE = -3600.0


@pytest.fixture
async def context(s3_server):
    ids, clock = SystemIds(), SystemClock()
    access = {
        "bucket": s3_server.bucket,
        "endpoint": s3_server.endpoint,
        "region": s3_server.region,
        "access_key_id": s3_server.access_key_id,
        "secret_access_key": s3_server.secret_access_key,
        "prefix": f"mixed/{ids.ulid()}/",
        "allow_http": True,
    }
    objects = S3Objects(clock=clock, ids=ids, **access)
    yield LibraryContext(objects=objects, blobs=S3Blobs(**access), clock=clock, ids=ids)
    await objects.close()


@pytest.fixture
def theirs(s3_server, context):
    store = S3Store(
        s3_server.bucket,
        endpoint=s3_server.endpoint,
        region=s3_server.region,
        access_key_id=s3_server.access_key_id,
        secret_access_key=s3_server.secret_access_key,
        client_options={"allow_http": True},
    )
    return Blobforge(BucketClient(store, context.blobs._prefix), context.clock.now)


@pytest.fixture
def books(tmp_path):
    folder = tmp_path / "library" / "DnD"
    folder.mkdir(parents=True)
    (folder / "Rules ü v2.pdf").write_bytes(b"%PDF-1.4 rules")
    return folder.parent


@pytest.fixture
def job(books):
    return hashlib.sha256(b"%PDF-1.4 rules").hexdigest()


def packed(tmp_path):
    path = tmp_path / "result.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("content.md", "# Ours\n![x](assets/p1.png)\n")
        archive.writestr("assets/p1.png", b"png")
        archive.writestr("info.json", "{}")
    return path


async def candidate(context, job):
    """As a listing of what waits shows it."""
    async for page in context.objects.pages(layout.TODO):
        for seen in page:
            if layout.parse_job(seen.key) == job:
                return JobCandidate(id=job, tier=seen.key.split("/")[2], blank=seen.size == 0)
    return None


async def claimed(context, job, worker="ours"):
    waiting = await candidate(context, job)
    return None if waiting is None else await context.perform(lifecycle.claim(waiting, context.actor(worker)))


async def markers(context, job):
    pages = context.objects.pages(layout.QUEUE)
    return sorted([seen.key async for page in pages for seen in page if layout.parse_job(seen.key) == job])


def stale(context):
    return msgspec.structs.replace(context, rules=LibraryRules(stale_seconds=ALWAYS_STALE))


async def settled(context, job):
    return await context.perform(janitor.settle(job, context.actor("janitor")))


async def test_they_ingest_we_convert_they_hydrate(context, theirs, books, job, tmp_path):
    assert theirs.ingest(books, "2_high") == [job]
    seen = await read_status(context, job)
    assert (seen.standing, seen.priority) == (JobStatus.QUEUED, "2_high")
    assert (seen.name, seen.tags, seen.size) == ("Rules ü v2.pdf", ["DnD", "Rules ü v2"], 14)
    held = await claimed(context, job)
    assert theirs.acquire() is None, "a published worker must keep away from what we have"
    held = await context.perform(lifecycle.beat(held, context.actor("ours"), {"stage": "converting"}))
    word, lock = theirs.status(job)
    assert word == "PROCESSING"
    assert (lock["worker"], lock["retries"], lock["priority"]) == ("ours", 0, "2_high")
    assert abs(lock["last_heartbeat"] / 1000 - context.clock.now()) < 60
    assert theirs.janitor() == [], "a lock of ours that beats is alive to them"
    assert await context.perform(lifecycle.finish(held), result=packed(tmp_path)) is True
    assert theirs.status(job) == ("DONE", {})
    assert theirs.bucket.kind(f"store/out/{job}.zip") == "application/zip"
    assert await markers(context, job) == []
    assert theirs.ingest(books) == []
    (written,) = theirs.hydrate(books)
    assert written.read_text("utf-8").startswith("# Ours")


async def test_we_queue_they_convert_we_hydrate(context, theirs, books, job):
    body = b"%PDF-1.4 rules"
    told = {"original-name": "Rules ü v2.pdf", "tags": json.dumps(["DnD", "Rules ü v2"]), "size": "14"}
    await context.blobs.put(layout.raw(job), body, content_type="binary/octet-stream", metadata=told)
    await context.objects.put(layout.todo("4_low", job), b"")
    assert theirs.bucket.get(f"queue/todo/4_low/{job}") == b""
    assert theirs.bucket.kind(f"queue/todo/4_low/{job}") == "binary/octet-stream"
    assert theirs.acquire() == job
    seen = await read_status(context, job)
    assert (seen.standing, seen.worker) == (JobStatus.PROCESSING, theirs.worker)
    assert await claimed(context, job) is None, "what a published worker has is not ours to take"
    theirs.beat(job)
    theirs.complete(job, "# Theirs\n![x](assets/p1.png)\n")
    with zipfile.ZipFile(io.BytesIO(theirs.bucket.get(f"store/out/{job}.zip"))) as archive:
        info = json.loads(archive.read("info.json"))
    assert (info["original_filename"], info["tags"]) == ("Rules ü v2.pdf", ["DnD", "Rules ü v2"])
    assert (await read_status(context, job)).standing is JobStatus.DONE
    assert (await listing.list_queue(context)).done == 1
    assert await settled(context, job) is janitor.SettleOutcome.CLEARED

    async def wanted():
        yield HydrationSource(books / "DnD/Rules ü v2.pdf", job)

    tally = await hydrate(context, wanted())
    assert tally.outcomes == {HydrationOutcome.WRITTEN: 1}
    text = (books / "DnD/Rules ü v2.md").read_text("utf-8")
    assert text == "# Theirs\n![x](Rules%20%C3%BC%20v2.assets/p1.png)\n"
    assert (books / "DnD/Rules ü v2.assets/p1.png").read_bytes() == b"png"


async def test_what_failed_with_them_is_retried_by_us_and_done_by_them(context, theirs, books, job):
    theirs.ingest(books)
    assert theirs.acquire() == job
    theirs.fail(job, "out of memory")
    assert await markers(context, job) == [f"queue/failed/{job}", f"queue/todo/3_normal/{job}"]
    assert (await read_status(context, job)).error == "out of memory"
    told = await job_control.retry(context, job, tier="1_critical")
    assert (told.changed, told.was) == (True, JobStatus.FAILED)
    assert theirs.status(job)[0] == "QUEUED"
    assert theirs.acquire() == job
    assert theirs.status(job)[1]["retries"] == 1
    theirs.complete(job, "# Done")
    assert await settled(context, job) is janitor.SettleOutcome.CLEARED
    assert await markers(context, job) == []


async def test_what_failed_with_us_is_seen_by_them_and_goes_on(context, theirs, books, job):
    theirs.ingest(books, "2_high")
    held = await claimed(context, job)
    await context.perform(lifecycle.fail(held, context.actor("ours"), "no text"))
    word, said = theirs.status(job)
    assert (word, said["error"], said["retries"], said["priority"]) == ("FAILED", "no text", 0, "2_high")
    assert theirs.acquire() is None
    assert theirs.janitor() == [job]
    assert theirs.status(job)[1]["priority"] == "2_high"
    # Their janitor knows no states: ours is asked, and counts the attempt once.
    assert await claimed(context, job) is None
    assert await settled(context, job) is janitor.SettleOutcome.REQUEUED
    assert theirs.status(job)[1]["retries"] == 1
    assert (await claimed(context, job)).job.charged == 2


async def test_a_job_of_theirs_that_went_silent_is_taken_back_by_us(context, theirs, books, job, tmp_path):
    theirs.ingest(books)
    assert theirs.acquire() == job
    assert await settled(context, job) is janitor.SettleOutcome.NOTHING, "it is not stale yet"
    assert await settled(stale(context), job) is janitor.SettleOutcome.REQUEUED
    assert theirs.status(job)[1]["recovered_from"] == "stale_processing"
    held = await claimed(context, job)
    assert (held.job.attempt, held.job.charged) == (2, 2)
    theirs.beat(job)  # it was only slow, and overwrites our lock
    held = await context.perform(lifecycle.beat(held, context.actor("ours"), {}))
    assert held is not None, "the state is the truth: their write of a marker takes nothing from us"
    theirs.complete(job, "# Late, but first")
    assert await context.perform(lifecycle.finish(held), result=packed(tmp_path)) is False
    assert await markers(context, job) == []
    assert b"Late" in zipfile.ZipFile(io.BytesIO(await context.blobs.get(layout.out(job)))).read("content.md")


async def test_janitors_of_both_makes_give_a_dead_worker_its_due_and_no_more(context, theirs, books, job):
    theirs.ingest(books, "5_background")
    held = await claimed(context, job)  # and its process is gone
    assert theirs.janitor(stale_seconds=-1) == [job]
    assert await settled(stale(context), job) is janitor.SettleOutcome.REQUEUED
    assert await settled(stale(context), job) is janitor.SettleOutcome.NOTHING
    assert theirs.janitor(stale_seconds=-1) == []
    assert theirs.status(job)[1]["retries"] == 1
    assert await markers(context, job) == [f"queue/state/{job}", f"queue/todo/5_background/{job}"]
    assert await context.perform(lifecycle.beat(held, context.actor("ours"), {})) is None


@pytest.mark.parametrize("ours", [True, False], ids=["our janitor", "their janitor"])
async def test_a_poisonous_file_is_tried_four_times_by_their_worker(context, theirs, books, job, ours):
    theirs.ingest(books)
    tries = 0
    while theirs.acquire() == job:
        tries += 1
        assert tries < 10, "it would be tried for ever"
        theirs.fail(job, "poison")
        if ours:
            await settled(stale(context), job)
        else:
            theirs.janitor()
    assert tries == 4
    assert (await read_status(context, job)).standing is JobStatus.DEAD


async def test_a_poisonous_file_is_tried_four_times_by_ours_whoever_cleans_up(context, theirs, books, job):
    theirs.ingest(books)
    tries = 0
    for _ in range(20):
        held = await claimed(context, job)
        if held is not None:
            tries += 1
            await context.perform(lifecycle.fail(held, context.actor("ours"), "poison"))
        theirs.janitor(stale_seconds=-1)
        await settled(stale(context), job)
    assert tries == 4
    assert theirs.status(job)[0] == "DEAD"
    assert theirs.acquire() is None


async def test_turns_of_both_makes_count_together(context, theirs, books, job):
    theirs.ingest(books)
    tries = 0
    for turn in range(20):
        if turn % 2:
            held = await claimed(context, job)
            if held is not None:
                tries += 1
                await context.perform(lifecycle.fail(held, context.actor("ours"), "poison"))
        elif theirs.acquire() == job:
            tries += 1
            theirs.fail(job, "poison")
        await settled(stale(context), job)
    assert tries == 4
    assert (await read_status(context, job)).standing is JobStatus.DEAD


async def buried(context, theirs, books, job, tier="3_normal"):
    """Our workers tried it until it was dead."""
    theirs.ingest(books, tier)
    for _ in range(context.rules.max_retries + 1):
        held = await claimed(context, job)
        await context.perform(lifecycle.fail(held, context.actor("ours"), "poison"))
        await settled(context, job)
    assert (await read_status(context, job)).standing is JobStatus.DEAD


async def run_once(context, tmp_path):
    options = worker_options(tmp_path / "scratch", run_once=True, sweep=True)
    return (await work(context, options, asyncio.Event())).outcomes


@pytest.mark.parametrize("looks", ["worker", "janitor"])
async def test_their_retry_of_what_we_buried_wins(context, theirs, books, job, tmp_path, looks):
    """Within a second: no time in a listing shows that anything happened since it was dead."""
    await buried(context, theirs, books, job)
    assert theirs.retry(job, "2_high") == 0
    seen = await read_status(context, job)
    assert (seen.standing, seen.priority, seen.error) == (JobStatus.QUEUED, "2_high", "poison")
    if looks == "janitor":
        assert (await sweep(context)).counts == {"requeued": 1}
        assert await markers(context, job) == [f"queue/state/{job}", f"queue/todo/2_high/{job}"]
        assert (await claimed(context, job)).job.charged == 4, "one more attempt"
    else:
        assert await run_once(context, tmp_path) == {JobOutcome.DONE: 1}


async def test_their_retry_from_zero_gives_all_attempts(context, theirs, books, job):
    await buried(context, theirs, books, job)
    assert theirs.retry(job, reset=True) == 0
    await sweep(context)
    held = await claimed(context, job)
    assert (held.job.charged, held.job.priority) == (1, "3_normal")
    await context.perform(lifecycle.fail(held, context.actor("ours"), "poison"))
    assert theirs.retry(job) == 0
    await sweep(context)
    assert theirs.status(job)[0] == "QUEUED"


async def test_a_retry_of_theirs_counts_once(context, theirs, books, job):
    await buried(context, theirs, books, job)
    assert theirs.retry(job) == 0
    kept = theirs.bucket.get(f"queue/todo/3_normal/{job}")
    held = None
    await sweep(context)
    held = await claimed(context, job)
    await context.perform(lifecycle.fail(held, context.actor("ours"), "poison"))
    theirs.bucket.put(f"queue/todo/3_normal/{job}", kept)  # as if its deletion had failed
    await sweep(context)
    assert (await read_status(context, job)).standing is JobStatus.DEAD
    assert await markers(context, job) == [f"queue/dead/{job}", f"queue/state/{job}"]


async def test_what_they_gave_up_is_dead_to_us_at_once(context, theirs, books, job):
    theirs.ingest(books, "2_high")
    held = await claimed(context, job)
    await context.perform(lifecycle.release(held, context.actor("ours"), "graceful_shutdown"))
    waiting = await candidate(context, job)
    theirs.bucket.put(f"queue/dead/{job}", b'{"error": "theirs", "total_retries": 4, "reason": "exceeded"}')
    seen = await read_status(context, job)
    assert (seen.standing, seen.error) == (JobStatus.DEAD, "theirs")
    assert list((await listing.list_queue(context)).dead) == [job]
    assert await context.perform(lifecycle.claim(waiting, context.actor("ours"))) is None
    await settled(stale(context), job)
    assert await markers(context, job) == [f"queue/dead/{job}", f"queue/state/{job}"]
    assert (await job_control.retry(context, job)).changed
    assert (await read_status(context, job)).priority == "2_high"


async def test_an_old_listing_does_not_revive_what_they_gave_up(context, theirs, books, job):
    theirs.ingest(books, "1_critical")
    waiting = await candidate(context, job)
    theirs.bucket.put(f"queue/dead/{job}", b'{"error": "theirs", "total_retries": 4}')
    assert await context.perform(lifecycle.claim(waiting, context.actor("ours"))) is None
    seen = await read_status(context, job)
    assert (seen.standing, seen.error) == (JobStatus.DEAD, "theirs")
    assert theirs.status(job)[0] == "DEAD"


@pytest.mark.parametrize("makes", ["ours", "theirs"])
async def test_the_priority_of_a_marker_wins_over_the_default(context, theirs, books, job, makes):
    theirs.ingest(books, "1_critical")
    assert theirs.acquire() == job
    theirs.fail(job, "out of memory")  # its marker says no priority; the todo marker stays
    if makes == "theirs":
        theirs.janitor()  # and puts a second one into the default tier
    else:
        await sweep(context)
    assert (await read_status(context, job)).priority == "1_critical"
    assert (await claimed(context, job)).job.priority == "1_critical"


async def test_their_change_of_priority_stays(context, theirs, books, job):
    theirs.ingest(books)
    held = await claimed(context, job)
    await context.perform(lifecycle.release(held, context.actor("ours"), "graceful_shutdown"))
    assert theirs.reprioritize(job, "1_critical") == 0
    assert (await read_status(context, job)).priority == "1_critical"
    assert await settled(context, job) is janitor.SettleOutcome.REPAIRED
    assert await markers(context, job) == [f"queue/state/{job}", f"queue/todo/1_critical/{job}"]
    # It copies before it deletes: a janitor between the two keeps the copy.
    theirs.bucket.put(f"queue/todo/5_background/{job}", theirs.bucket.get(f"queue/todo/1_critical/{job}"))
    await settled(context, job)
    assert await markers(context, job) == [f"queue/state/{job}", f"queue/todo/5_background/{job}"]
    assert (await claimed(context, job)).job.priority == "5_background"


async def test_a_failed_job_that_their_janitor_queued_is_claimed_at_once(
    context, theirs, books, job, tmp_path
):
    theirs.ingest(books)
    held = await claimed(context, job)
    await context.perform(lifecycle.fail(held, context.actor("ours"), "no text"))
    assert theirs.janitor() == [job]
    assert (await read_status(context, job)).standing is JobStatus.QUEUED
    assert await run_once(context, tmp_path) == {JobOutcome.DONE: 1}
