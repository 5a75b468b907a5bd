"""The library at a glance: right counts for few requests, and what was seen to finish."""

import asyncio

import pytest
from tests.situations.bucket_folder import hash_of

from quire.blobs.objects import BlobObjects
from quire.library import listing
from quire.library.context import LibraryContext
from quire.library.dashboard import Dashboard
from quire.library.protocol import layout
from quire.library.protocol.bodies import FailedMarker, LockMarker, encode
from quire.model.errors import Retry
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.time import CountingIds, FakeClock


class Counting(BlobObjects):
    def __init__(self, blobs, ids):
        super().__init__(blobs, ids)
        self.reads, self.listed, self.away = [], [], False

    async def read(self, key):
        self.reads.append(key)
        return await super().read(key)

    async def pages(self, folder, *, after=""):
        if self.away:
            raise Retry("the store is away")
        self.listed.append(folder)
        async for page in super().pages(folder, after=after):
            yield page


@pytest.fixture
def context():
    blobs, ids = MemoryBlobs(), CountingIds()
    return LibraryContext(objects=Counting(blobs, ids), blobs=blobs, clock=FakeClock(), ids=ids)


async def queued(context, *names, tier="3_normal"):
    for name in names:
        await context.objects.put(layout.todo(tier, hash_of(name)), b"")


async def locked(context, *names, **more):
    for name in names:
        lock = LockMarker(worker="w", started=1_699_999_000_000, **more)
        await context.objects.put(layout.processing(hash_of(name)), encode(lock))


async def finished(context, *names):
    for name in names:
        job = hash_of(name)
        await context.objects.put(layout.out(job), b"zip")
        await context.objects.delete([*layout.todos(job), layout.processing(job)])


async def test_a_job_counts_once_and_waits_in_the_more_urgent_tier(context):
    await queued(context, "a", "b", "c")
    await queued(context, "b", tier="1_critical")
    await locked(context, "c")
    found = await listing.list_queue(context)
    assert {tier: len(jobs) for tier, jobs in found.todo.items() if jobs} == {"1_critical": 1, "3_normal": 1}
    assert (found.waiting, len(found.processing), found.done) == (2, 1, 0)


async def test_what_is_not_ours_is_not_counted(context):
    for key in (
        "queue/todo/3_normal/readme.txt",
        "queue/todo/9_odd/" + hash_of("x"),
        "queue/dead/x/y",
        "queue/z",
    ):
        await context.objects.put(key, b"")
    await context.objects.put(f"queue/failed/{hash_of('x')}.tmp", b"")
    found = await listing.list_queue(context)
    assert (found.waiting, len(found.failed), len(found.dead)) == (0, 0, 0)


async def test_throughput_and_end_are_told_from_what_was_seen_to_finish(context):
    await queued(context, *map(str, range(100)))
    board = Dashboard(context)
    first = await board.refresh()
    assert (first.waiting, first.done, first.per_hour, first.eta_seconds) == (100, 0, None, None)
    context.clock.advance(60)
    await finished(context, *map(str, range(10)))
    second = await board.refresh()
    assert (second.waiting, second.finished, second.per_hour) == (90, 10, 600)
    assert second.eta_seconds == 90 * 6
    assert second.done == 10, "counted before, and what was seen since"
    assert second.done_age_seconds == 60


async def test_results_are_counted_rarely(context):
    await queued(context, "a")
    board = Dashboard(context)
    for _ in range(10):
        await board.refresh()
        context.clock.advance(60)
    assert context.objects.listed.count(layout.OUT) == 2


async def test_only_running_jobs_are_read_a_few_of_them_and_again_only_when_they_wrote(context):
    await queued(context, *map(str, range(200)))
    await locked(context, *map(str, range(50)), progress={"percent": 50, "original_filename": "x.pdf"})
    board = Dashboard(context, shown=15)
    glance = await board.refresh()
    assert (glance.processing, len(glance.running), len(context.objects.reads)) == (50, 15, 15)
    assert (glance.running[0].percent, glance.running[0].name) == (50.0, "x.pdf")
    await board.refresh()
    assert len(context.objects.reads) == 15
    one = glance.running[3].job
    await context.objects.put(layout.processing(one), encode(LockMarker(worker="other")))
    again = await board.refresh()
    assert context.objects.reads[15:] == [layout.processing(one)]
    assert {run.job for run in again.running} == {run.job for run in glance.running}, "lines do not jump"


async def test_what_was_missed_between_two_listings_is_not_finished(context):
    await queued(context, "a")
    board = Dashboard(context)
    await board.refresh()
    await context.objects.delete([layout.todo("3_normal", hash_of("a"))])
    assert (await board.refresh()).finished == 1
    await queued(context, "a")
    assert (await board.refresh()).finished == 0


async def test_a_death_is_no_finish_nor_is_its_burial_forgotten(context):
    await queued(context, "a")
    board = Dashboard(context)
    await board.refresh()
    await context.objects.delete([layout.todo("3_normal", hash_of("a"))])
    await context.objects.put(layout.dead(hash_of("a")), b"no json")
    assert (await board.refresh()).finished == 0
    await context.objects.delete([layout.dead(hash_of("a"))])
    assert (await board.refresh()).finished == 0


async def test_the_last_mishaps_are_told(context):
    await context.objects.put(layout.failed(hash_of("a")), encode(FailedMarker(error="oom", retries=1)))
    glance = await Dashboard(context).refresh(mishaps=5)
    assert [(one.job, one.error, one.attempts) for one in glance.mishaps] == [(hash_of("a"), "oom", 2)]
    assert (await Dashboard(context).refresh()).mishaps == ()


async def test_a_store_that_is_away_is_told_of_and_asked_again(context):
    await queued(context, "a")
    board, stop, told = Dashboard(context), asyncio.Event(), []
    context.objects.away = True

    def on_round(glance):
        told.append((glance.trouble, glance.waiting))
        context.objects.away = False
        if len(told) == 2:
            stop.set()

    await board.run(stop, every_seconds=0.001, on_round=on_round)
    assert told == [("the store is away", 0), ("", 1)]
