"""What published tools do to a job that ours has tried is counted by our janitor, and never undone by it."""

import json

import msgspec
import pytest

from quire.blobs.objects import BlobObjects
from quire.library.protocol import janitor, layout, lifecycle, operator
from quire.library.protocol.bodies import JobRecord, decode, encode
from quire.library.protocol.janitor import SettleOutcome
from quire.library.protocol.lifecycle import JobActor, JobCandidate
from quire.library.protocol.requests import StoreAccess, perform
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.time import CountingIds, FakeClock

JOB = "a" * 64
STALE, FRESH = -3600.0, 3600.0


@pytest.fixture
def bucket():
    return BlobObjects(MemoryBlobs(), CountingIds())


@pytest.fixture
def actor():
    return JobActor(worker="ours", limit=4, nonce=CountingIds().ulid, now=FakeClock().now)


async def done(bucket, asking, stale_seconds=STALE):
    return await perform(asking, StoreAccess(objects=bucket, stale_seconds=stale_seconds))


async def tried_once(bucket, actor):
    """It waits, with a state, after one attempt of ours."""
    await bucket.put(layout.todo("3_normal", JOB), b"")
    held = await done(bucket, lifecycle.claim(JobCandidate(id=JOB, tier="3_normal"), actor))
    await done(bucket, lifecycle.fail(held, actor, "ours"))
    assert await done(bucket, janitor.settle(JOB, actor)) is SettleOutcome.REQUEUED


async def state(bucket):
    return decode((await bucket.read(layout.state(JOB))).body, JobRecord)


@pytest.mark.parametrize(
    ("key", "body", "wanted", "charged"),
    [
        (layout.failed(JOB), {"error": "theirs", "retries": 1}, SettleOutcome.REQUEUED, 2),
        (layout.failed(JOB), {"error": "theirs", "retries": 3}, SettleOutcome.DEAD, 4),
        (layout.failed(JOB), {"error": "old", "retries": 0}, SettleOutcome.NOTHING, 1),
        (layout.processing(JOB), {"worker": "theirs", "retries": 1}, SettleOutcome.REQUEUED, 2),
        (layout.processing(JOB), {"worker": "theirs", "retries": 0}, SettleOutcome.NOTHING, 1),
        (layout.todo("3_normal", JOB), {"retries": 3}, SettleOutcome.REQUEUED, 3),
        (layout.todo("3_normal", JOB), {"retries": 4}, SettleOutcome.DEAD, 4),
        (layout.dead(JOB), {"error": "theirs", "total_retries": 4}, SettleOutcome.DEAD, 4),
    ],
)
async def test_an_attempt_of_theirs_is_counted_once(bucket, actor, key, body, wanted, charged):
    await tried_once(bucket, actor)
    await bucket.put(key, json.dumps(body).encode())
    assert await done(bucket, janitor.settle(JOB, actor)) is wanted
    assert (await state(bucket)).charged == charged
    assert await done(bucket, janitor.settle(JOB, actor)) is SettleOutcome.NOTHING
    assert (await state(bucket)).charged == charged
    there = [seen.key async for page in bucket.pages(layout.QUEUE) for seen in page]
    final = layout.dead(JOB) if wanted is SettleOutcome.DEAD else layout.todo("3_normal", JOB)
    assert there == sorted([layout.state(JOB), final])


async def test_a_lock_of_theirs_that_beats_is_left_alone(bucket, actor):
    await tried_once(bucket, actor)
    await bucket.put(layout.processing(JOB), b'{"worker": "theirs", "retries": 1}')
    assert await done(bucket, janitor.settle(JOB, actor), FRESH) is SettleOutcome.NOTHING
    assert await bucket.head(layout.processing(JOB)) is not None
    assert (await state(bucket)).charged == 1


async def test_our_own_late_markers_count_for_nothing(bucket, actor):
    await tried_once(bucket, actor)
    reset = msgspec.structs.replace(await state(bucket), charged=0)
    await bucket.put(layout.state(JOB), encode(reset))
    await bucket.put(layout.failed(JOB), b'{"retries": 2, "attempt": 3}')
    await bucket.put(layout.dead(JOB), b'{"total_retries": 4, "attempt": 4}')
    await bucket.put(layout.todo("3_normal", JOB), b"")
    assert await done(bucket, janitor.settle(JOB, actor)) is SettleOutcome.NOTHING
    assert (await state(bucket)).charged == 0
    assert await bucket.head(layout.dead(JOB)) is None


async def test_what_somebody_asked_for_a_moment_ago_is_not_buried_again(bucket, actor):
    await bucket.put(layout.dead(JOB), b'{"error": "theirs", "total_retries": 4}')
    await bucket.put(layout.raw(JOB), b"%PDF")
    await done(bucket, operator.retry(JOB, actor, tier=None, reset=False))
    await bucket.put(layout.dead(JOB), b'{"error": "theirs", "total_retries": 4}')  # not gone yet
    assert await done(bucket, janitor.settle(JOB, actor), FRESH) is SettleOutcome.NOTHING
    assert (await state(bucket)).state == "waiting"
