"""Consumers of envelopes on Redis are killed, and their server, too: each message is finished once."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
import redis
from tests.servers import redis as redis_server
from tests.situations.envelopes import REQUEST, changed
from tests.standins.published_recipes_server import RECIPES, build_envelope, enqueue

pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.timeout(120)]
OCR = "jarvis.ocr.jobs"
LEASE_SECONDS = 1.5
PATIENCE_SECONDS = 20


class Process:
    """One consumer; its lines are read as they come."""

    def __init__(self, url, name, *options, queue_name=OCR):
        arguments = [url, queue_name, str(LEASE_SECONDS), name, *options]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.processes.envelope_consumer", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line.strip())

    def line(self):
        return self._lines.get(timeout=PATIENCE_SECONDS)

    def rest(self):
        """After its end: what it still said."""
        return [self._lines.get() for _ in range(self._lines.qsize())]

    def end(self, number):
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)
        code = self._process.wait(timeout=PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        self._process.stdout.close()
        return code


@contextmanager
def started(url, *arguments, **options):
    process = Process(url, *arguments, **options)
    try:
        assert process.line() == "at work"
        yield process
    finally:
        process.end(signal.SIGKILL)


@pytest.fixture
def server(redis_program):
    with redis_server.restartable_server(redis_program) as server:
        yield server


@pytest.fixture
def published(server):
    with redis.Redis.from_url(server.url) as client:
        yield client


def push(client, queue_name, job_id):
    """As a published producer does."""
    if queue_name == RECIPES:
        enqueue(client, build_envelope("url", {"url": "https://x"}, job_id=job_id))
    else:
        client.lpush(queue_name, json.dumps(changed(REQUEST, job_id=job_id)))


def leftovers(client, queue_name):
    """Keys that say that there is still something to do."""
    lists = [queue_name, f"rq:queue:{queue_name}", *client.keys(f"{queue_name}:processing:*")]
    beside = [f"{queue_name}:{name}" for name in ("delayed", "leases", "leased", "dead", "tries")]
    return [name for name in (*lists, *beside) if client.exists(name)]


@pytest.mark.parametrize("queue_name", [OCR, RECIPES])
def test_what_a_killed_consumer_had_is_delivered_to_another_and_once_settled_gone(
    server, published, queue_name
):
    push(published, queue_name, "first")
    with started(server.url, "victim", "hold", queue_name=queue_name) as victim:
        assert victim.line() == "began first"
        victim.end(signal.SIGKILL)
    push(published, queue_name, "second")
    with started(server.url, "heir", queue_name=queue_name) as heir:
        assert sorted(heir.line() for _ in range(4)) == [
            "began first",
            "began second",
            "done first",
            "done second",
        ]
        heir.end(signal.SIGTERM)
        assert heir.rest() == []
    assert leftovers(published, queue_name) == []


def test_a_consumer_that_lives_keeps_its_message_beyond_the_lease(server, published):
    push(published, OCR, "long")
    with started(server.url, "one", "hold") as holder:
        assert holder.line() == "began long"
        (token,) = published.zrange(f"{OCR}:leases", 0, -1)
        ends = published.zscore(f"{OCR}:leases", token)
        with started(server.url, "two") as other:
            # Longer than a lease, which its holder extends meanwhile.
            while published.zscore(f"{OCR}:leases", token) < ends + LEASE_SECONDS:
                published.brpop(["nothing"], timeout=0.1)
            push(published, OCR, "mark")
            assert [other.line(), other.line()] == ["began mark", "done mark"]


def test_a_stopping_consumer_gives_back_what_it_cannot_finish(server, published):
    push(published, OCR, "first")
    with started(server.url, "one", "hold") as one:
        assert one.line() == "began first"
        assert one.end(signal.SIGTERM) == 0
    assert published.llen(OCR) == 1
    push(published, OCR, "second")
    with started(server.url, "two") as two:
        found = [two.line() for _ in range(4)]
    assert sorted(found) == ["began first", "began second", "done first", "done second"]
    assert found.index("began first") < found.index("began second")


def test_a_server_that_was_killed_and_started_again_has_lost_nothing(server, published):
    with started(server.url, "one") as one:
        push(published, OCR, "before")
        assert [one.line(), one.line()] == ["began before", "done before"]
        server.stop()
        server.start()
        push(published, OCR, "after")
        assert [one.line(), one.line()] == ["began after", "done after"]
        assert one.end(signal.SIGTERM) == 0
    assert leftovers(published, OCR) == []
