"""The library's workers and janitors on a folder and on a real S3 server; and what a job costs there."""

import asyncio
from collections import Counter

import pytest
from tests.situations.libraries import CountingBlobs, CountingObjects, ingest_text, list_keys, worker_options
from tests.standins.request_counter import Tap

from quire.blobs.local import LocalBlobs
from quire.blobs.objects import BlobObjects
from quire.blobs.s3 import S3Blobs
from quire.blobs.s3.objects import S3Objects
from quire.library import janitor
from quire.library.context import LibraryContext, LibraryRules
from quire.library.protocol import layout, lifecycle
from quire.library.protocol.lifecycle import JobCandidate
from quire.library.worker.job_run import JobOutcome
from quire.library.worker.loop import work
from quire.library.worker.picker import JobPicker
from quire.system import SystemClock, SystemIds

JOBS = 12


class LibrarySuite:
    """Needs the fixture `context`."""

    async def test_workers_convert_all_jobs_once(self, context, tmp_path):
        jobs = {
            await ingest_text(context, f"x {number}", name=f"Bänd {number}.pdf") for number in range(JOBS)
        }
        stop = asyncio.Event()
        ended = Counter()

        def heard(told):
            if told.report is not None:
                ended[told.report.outcome] += 1
                if ended[JobOutcome.DONE] == JOBS:
                    stop.set()

        told = worker_options(tmp_path / "scratch")
        await asyncio.gather(*(work(context, told, stop, on_event=heard) for _ in range(3)))
        assert ended[JobOutcome.DONE] == JOBS
        assert await list_keys(context) == []
        assert {layout.parse_job(key) for key in await list_keys(context, "store/out")} == jobs
        assert len(await list_keys(context, "registry/workers")) == 3

    async def test_what_a_job_costs(self, context, tmp_path):
        objects = CountingObjects(context.objects)
        counted = LibraryContext(
            objects=objects,
            blobs=CountingBlobs(context.blobs, objects),
            clock=context.clock,
            ids=context.ids,
            rules=context.rules,
        )
        jobs = [await ingest_text(context, f"x {number}") for number in range(JOBS)]
        worked = await work(
            counted,
            worker_options(tmp_path / "scratch", most_jobs=JOBS),
            asyncio.Event(),
            on_event=lambda _: None,
        )
        assert worked.outcomes == {JobOutcome.DONE: JOBS}
        of_each = Counter(layout.parse_job(key) for what, key in objects.requests if what != "list")
        assert max(of_each[job] for job in jobs) <= 8
        assert objects.counts.total() <= 9 * JOBS

    async def test_a_large_result_is_stored(self, context, tmp_path):
        job = await ingest_text(context, "large")
        worked = await work(context, worker_options(tmp_path / "scratch", run_once=True), asyncio.Event())
        assert worked.outcomes == {JobOutcome.DONE: 1}
        assert (await context.objects.head(layout.out(job))).size > 70 << 20

    async def test_what_a_worker_left_is_put_right(self, context):
        actor = context.actor("dead")
        jobs = [await ingest_text(context, f"x {number}") for number in range(4)]
        for job in jobs[:3]:
            assert (
                await context.perform(lifecycle.claim(JobCandidate(id=job, tier="3_normal"), actor))
                is not None
            )
        await context.blobs.put(layout.out(jobs[0]), b"zip")  # killed between the commit and the rest
        await context.objects.delete([layout.todo("3_normal", jobs[1])])
        assert (await janitor.sweep(context)).settled == []
        silent = LibraryContext(
            objects=context.objects,
            blobs=context.blobs,
            clock=context.clock,
            ids=context.ids,
            rules=LibraryRules(stale_seconds=-3600.0),
        )
        passes = await asyncio.gather(*(janitor.sweep(silent) for _ in range(3)))
        done = Counter(one.done.value for swept in passes for one in swept.settled)
        assert done["requeued"] == 2
        assert done["cleared"] >= 1
        left = await list_keys(context)
        assert [key for key in left if "processing" in key] == []
        assert {key for key in left if "todo" in key} == {layout.todo("3_normal", job) for job in jobs[1:]}

    async def test_a_crowd_is_picked_from_anywhere(self, context):
        made = [f"{number * 2**244:064x}" for number in range(4096)][::4]  # 1024 of them
        await asyncio.gather(*(context.objects.put(layout.todo("2_high", job), b"") for job in made))
        low = "f" * 64
        await context.objects.put(layout.todo("5_background", low), b"")
        picker = JobPicker(context.objects, context.clock, context.ids, salt="s")
        picked = [await picker.pick() for _ in range(50)]
        assert low in {one.id for one in picked}
        assert len({one.id for one in picked}) == 50
        assert {one.id for one in picked} <= {*made, low}


class TestOnAFolder(LibrarySuite):
    @pytest.fixture
    async def context(self, tmp_path):
        blobs, ids = LocalBlobs(tmp_path / "bucket"), SystemIds()
        return LibraryContext(objects=BlobObjects(blobs, ids), blobs=blobs, clock=SystemClock(), ids=ids)


def s3_library(server, endpoint=""):
    ids = SystemIds()
    access = {
        "bucket": server.bucket,
        "endpoint": endpoint or server.endpoint,
        "region": server.region,
        "access_key_id": server.access_key_id,
        "secret_access_key": server.secret_access_key,
        "prefix": f"library/{ids.ulid()}",
        "allow_http": True,
    }
    blobs = S3Blobs(**access)
    objects = S3Objects(clock=SystemClock(), ids=ids, **access)
    return LibraryContext(objects=objects, blobs=blobs, clock=SystemClock(), ids=ids)


@pytest.mark.service
class TestOnS3(LibrarySuite):
    @pytest.fixture
    async def context(self, s3_server):
        return s3_library(s3_server)

    async def test_what_a_job_costs_on_the_wire(self, s3_server, tmp_path):
        async with Tap(s3_server.endpoint) as tap:
            context = s3_library(s3_server, tap.endpoint)
            for number in range(JOBS):
                await ingest_text(context, f"x {number}")
            tap.methods.clear()
            worked = await work(
                context,
                worker_options(tmp_path / "scratch", most_jobs=JOBS),
                asyncio.Event(),
                on_event=lambda _: None,
            )
            assert worked.outcomes == {JobOutcome.DONE: JOBS}
        # Claim: lock, state, is there a result; the source and its labels; the result; one that clears up.
        each = {"PUT": 3 * JOBS, "HEAD": 2 * JOBS, "GET": JOBS, "POST": JOBS}
        # Listings, the registration, the watch; after a second, whether a published tool gave the job up.
        beside = tap.methods - Counter(each)
        assert tap.methods.total() <= 9 * JOBS
        assert beside.total() <= 10 + JOBS
        assert not Counter(each) - tap.methods
