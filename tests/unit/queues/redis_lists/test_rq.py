"""The form of RQ jobs, with the real package on the other side, in both directions."""

import json
import pickle
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import rq
from rq.job import Job, JobStatus
from rq.registry import FailedJobRegistry

from quire.model.errors import Reject
from quire.queues.port import Message
from quire.queues.redis_lists.rq import FUNCTION

pytestmark = pytest.mark.service
ROOT = Path(__file__).parents[4]
RAN = []


class Trap:
    def __reduce__(self):
        return RAN.append, ("it ran",)


def envelope(job_id, **more):
    return json.dumps({"job_id": job_id, "text": "Crêpes 🥞\n", **more})


def message(job_id, **more):
    return Message(id=f"outbox-{job_id}", body=envelope(job_id, **more).encode())


@pytest.fixture
def rq_queue(published):
    return rq.Queue("jobs", connection=published)


def enqueue(rq_queue, job_id, *arguments):
    """As the published server does."""
    return rq_queue.enqueue(FUNCTION, *arguments, job_id=job_id, job_timeout="10m")


async def lease(queues, *, now=0.0, limit=10, seconds=10.0):
    return await queues.lease("jobs", limit=limit, seconds=seconds, now=now, worker="w")


def test_the_version_is_one_that_published_servers_run():
    assert (1, 15) <= tuple(int(part) for part in rq.VERSION.split(".")[:2]) < (2, 0)


async def test_what_is_written_is_what_rq_writes(queues, published, rq_queue):
    theirs = enqueue(rq_queue, "theirs", envelope("theirs"))
    await queues.send("jobs", [message("ours")], now=theirs.enqueued_at.timestamp())
    assert published.smembers("rq:queues") == {b"rq:queue:jobs"}
    assert published.lrange("rq:queue:jobs", 0, -1) == [b"theirs", b"ours"]
    ours, rqs = published.hgetall("rq:job:ours"), published.hgetall("rq:job:theirs")
    assert ours.keys() == rqs.keys()
    moments = {b"created_at", b"enqueued_at"}
    assert {name for name in ours if ours[name] != rqs[name]} - moments == {b"data", b"description"}
    assert ours[b"enqueued_at"][-1:] == rqs[b"enqueued_at"][-1:] == b"Z"
    assert pickle.loads(zlib.decompress(ours[b"data"])) == (FUNCTION, None, (envelope("ours"),), {})  # noqa: S301
    assert published.ttl("rq:job:ours") == published.ttl("rq:job:theirs") == -1


async def test_rq_reads_what_we_send(queues, rq_queue):
    await queues.send("jobs", [message("j")], now=7)
    job = Job.fetch("j", connection=rq_queue.connection)
    assert (job.func_name, job.args, job.kwargs) == (FUNCTION, (envelope("j"),), {})
    assert (job.get_status(), job.timeout, job.origin) == (JobStatus.QUEUED, 600, "jobs")
    assert job.enqueued_at.second == 7
    assert rq_queue.job_ids == ["j"]


def test_an_rq_worker_runs_what_we_sent(url):
    """The function lies in a module of the published name, in another process."""
    send = """
import asyncio, sys
from quire.queues.port import Message
from quire.queues.redis_lists import RedisListQueues
from quire.system import SystemClock, SystemIds

async def main():
    queues = RedisListQueues(
        sys.argv[1], ids=SystemIds(), max_bytes=10**6, rq_queues=["jarvis.recipes.jobs"])
    bodies = ['{"job_id": "a", "text": "Cr\\u00eapes"}', '{"job_id": "b"}']
    messages = [Message(id=str(n), body=body.encode()) for n, body in enumerate(bodies)]
    await queues.send("jarvis.recipes.jobs", messages, now=SystemClock().now())
    await queues.close()

asyncio.run(main())
"""
    worker = [sys.executable, "-m", "tests.standins.published_recipes_server", url, "work", "--burst"]
    options = {"capture_output": True, "text": True, "cwd": ROOT, "timeout": 60}
    subprocess.run([sys.executable, "-c", send, url], check=True, **options)
    ran = subprocess.run(worker, check=True, **options)
    assert ran.stdout.splitlines() == ["at work", '{"job_id": "a", "text": "Crêpes"}', '{"job_id": "b"}']


async def test_what_rq_enqueued_is_read_in_its_order(queues, rq_queue):
    for name in ("a", "b", "c"):
        enqueue(rq_queue, name, envelope(name))
    leased = await lease(queues)
    assert [(one.id, one.body, one.deliveries) for one in leased] == [
        (name, envelope(name).encode(), 1) for name in ("a", "b", "c")
    ]
    assert rq_queue.job_ids == []
    assert Job.fetch("a", connection=rq_queue.connection).get_status() == JobStatus.STARTED


async def test_a_job_that_is_done_is_finished_for_rq_and_expires(queues, rq_queue, published):
    enqueue(rq_queue, "a", envelope("a"))
    (leased,) = await lease(queues)
    await queues.acknowledge([leased], now=3)
    job = Job.fetch("a", connection=published)
    assert (job.get_status(), job.ended_at.second) == (JobStatus.FINISHED, 3)
    assert 0 < published.ttl("rq:job:a") <= 500


async def test_a_job_that_is_tried_again_waits_for_rq_too(queues, rq_queue, published):
    enqueue(rq_queue, "a", envelope("a"))
    enqueue(rq_queue, "b", envelope("b"))
    (leased,) = await lease(queues, limit=1)
    await queues.release(leased, now=1, delay_seconds=5, error="busy")
    assert Job.fetch("a", connection=published).get_status() == JobStatus.SCHEDULED
    assert await queues.next_due("jobs", now=6) is None
    assert rq_queue.job_ids == ["b", "a"]
    assert Job.fetch("a", connection=published).get_status() == JobStatus.QUEUED
    assert [(one.id, one.deliveries) for one in await lease(queues, now=6)] == [("b", 1), ("a", 2)]


async def test_a_job_that_was_given_up_has_failed_for_rq_and_may_be_requeued_by_it(
    queues, rq_queue, published
):
    enqueue(rq_queue, "a", envelope("a"))
    (leased,) = await lease(queues)
    await queues.dead_letter(leased, now=1, reason="no recipe", error_class="parse_failed")
    (letter,) = await queues.list_dead_letters("jobs", limit=9)
    assert (letter.id, letter.body, letter.reason) == ("a", envelope("a").encode(), "no recipe")
    failed = FailedJobRegistry("jobs", connection=published)
    assert failed.get_job_ids() == ["a"]
    failed.requeue("a")
    assert [one.body for one in await lease(queues, now=2)] == [envelope("a").encode()]


async def test_a_dead_job_is_replayed_and_discarded(queues, rq_queue, published):
    for name in ("a", "b"):
        enqueue(rq_queue, name, envelope(name))
    for leased in await lease(queues):
        await queues.dead_letter(leased, now=1, reason="x")
    assert await queues.replay("jobs", now=2, limit=1) == 1
    assert rq_queue.job_ids == ["a"]
    assert FailedJobRegistry("jobs", connection=published).get_job_ids() == ["b"]
    assert await queues.discard("jobs", now=2, limit=9) == 1
    assert published.exists("rq:job:b") == 0


async def test_nothing_of_a_job_is_run(queues, rq_queue, published):
    rq_queue.enqueue("os.system", Trap(), job_id="trap")
    rq_queue.enqueue(FUNCTION, envelope("good"), job_id="good")
    assert [one.id for one in await lease(queues)] == ["good"]
    (letter,) = await queues.list_dead_letters("jobs", limit=9)
    assert (letter.id, letter.error_class) == ("trap", "bad_message")
    assert "does not need" in letter.reason
    assert RAN == []
    assert await queues.replay("jobs", now=1, limit=9) == 1
    assert await lease(queues, now=1) == []
    assert RAN == []


@pytest.mark.parametrize(
    "data", [b"", b"garbage", zlib.compress(b"\x80\x04N."), zlib.compress(b"\0" * 10**7), b"x" * 30_000]
)
async def test_data_that_are_no_job_become_a_dead_letter(queues, rq_queue, published, data):
    enqueue(rq_queue, "bad", envelope("bad"))
    enqueue(rq_queue, "good", envelope("good"))
    published.hset("rq:job:bad", "data", data)
    assert [one.id for one in await lease(queues)] == ["good"]
    (letter,) = await queues.list_dead_letters("jobs", limit=9)
    assert (letter.id, letter.body) == ("bad", data)


async def test_a_job_whose_hash_is_gone_becomes_a_dead_letter(queues, rq_queue, published):
    enqueue(rq_queue, "gone", envelope("gone"))
    published.delete("rq:job:gone")
    assert await lease(queues) == []
    assert await queues.count_dead_letters("jobs") == {"rq_job_missing": 1}
    assert published.exists("rq:job:gone") == 0


async def test_a_job_that_waits_already_is_not_sent_again(queues, rq_queue):
    enqueue(rq_queue, "a", envelope("a"))
    assert await queues.send("jobs", [message("a", other=1)], now=1) == 0
    assert [one.body for one in await lease(queues, now=2)] == [envelope("a").encode()]


async def test_a_job_may_send_itself_again_while_it_is_worked_on(queues, rq_queue, published):
    await queues.send("jobs", [message("a", attempt=1)], now=1)
    (first,) = await lease(queues, now=2)
    again = Message(id="a-2", body=envelope("a", attempt=2).encode())
    assert await queues.send("jobs", [again], now=3) == 1
    await queues.acknowledge([first], now=4)
    assert published.ttl("rq:job:a") == -1
    assert [one.body for one in await lease(queues, now=5)] == [again.body]


async def test_a_body_that_is_no_text_is_not_sent(queues):
    with pytest.raises(Reject):
        await queues.send("jobs", [Message(id="m", body=b"\xff")], now=0)


async def test_what_a_killed_worker_of_ours_had_comes_again(queues, rq_queue):
    enqueue(rq_queue, "a", envelope("a"))
    await lease(queues, seconds=5)
    (again,) = await lease(queues, now=5)
    assert (again.id, again.deliveries) == ("a", 2)
    await queues.acknowledge([again], now=6)
    assert await lease(queues, now=100) == []
