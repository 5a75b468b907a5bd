"""`quire ocr worker` as a process, in place of a published OCR worker: a real Redis, a stand-in of the
published recipes server, a real RQ worker that reads the answers.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest
import redis
from tests.documents.drawn_words import draw_words, save_words
from tests.servers.redis import restartable_server
from tests.standins.published_recipes_server import OCR, build_request, push_request
from tests.standins.raw_web_server import never_beginning, reply, web_server

from quire.model.envelope_reading import read_ocr_completed

pytestmark = [pytest.mark.slow, pytest.mark.service]

# A PNG that says it has 2.5 gigapixels.
BOMB = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xc3\x50\0\0\xc3\x50" + b"\x08" + bytes(1000)
WORDS = "Pancakes with flour\nand two eggs"


class Place:
    """A Redis of its own, an image folder, and the command line."""

    def __init__(self, quire, url):
        self.quire = quire
        self.url = url
        self.client = redis.Redis.from_url(url)
        self.images = quire.folder / "images"
        save_words(self.images / "0.png", WORDS)
        # Whoever dies loses its requests after some seconds instead of a minute; a busy machine does not.
        (quire.folder / "quire.toml").write_text(f'[queues."{OCR}"]\nlease_seconds = 6.0\n')
        self.environment = {
            "QUIRE_REDIS_URL": url,
            "QUIRE_OCR_IMAGE_ROOT": str(self.images),
            "QUIRE_OCR_RETRY_SECONDS": "0.1",
            "QUIRE_OCR_ALLOW_PRIVATE": "true",
        }

    def push(self, *images, **changes):
        return push_request(self.client, build_request(list(images), **changes))

    def run(self, *arguments, **environment):
        """Until nothing is left; the events."""
        ran = self.quire(
            "ocr", "worker", "--until-empty", "--json", *arguments, **(self.environment | environment)
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def start(self):
        return subprocess.Popen(
            self.quire.command("ocr", "worker", "--json"),
            cwd=self.quire.folder,
            env=self.quire.environment(PYTHONUNBUFFERED="1", **self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def answers_by_rq(self):
        """What a real RQ worker calls the published function with."""
        command = [
            sys.executable,
            "-m",
            "tests.standins.published_recipes_server",
            self.url,
            "work",
            "--burst",
        ]
        ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
        return [read_ocr_completed(line.encode()) for line in ran.stdout.splitlines()[1:]]

    def popped(self, queue):
        return [read_ocr_completed(body) for body in self.client.lrange(queue, 0, -1)]


@pytest.fixture
def place(quire, redis_program):
    with restartable_server(redis_program, appendfsync="no") as server:
        found = Place(quire, server.url)
        found.server = server
        yield found


def read_until(worker, event):
    for line in worker.stdout:
        if json.loads(line)["event"] == event:
            return
    raise AssertionError(worker.stderr.read())


def test_it_stands_in_for_the_published_worker(place):
    (place.images / "letter.pdf.jpg").write_bytes(b"%PDF-1.7\n" + b"0" * 1000)
    (place.images / "bomb.jpg").write_bytes(BOMB)
    (place.images / "phone.jpg").write_bytes(b"\x00\x00\x00\x18ftypheic" + b"0" * 1000)
    (place.images.parent / "secret.png").write_bytes(draw_words("secret"))
    (place.images / "link.png").symlink_to("../secret.png")
    os.mkfifo(place.images / "pipe.png")
    values = [
        "0.png",
        "none.png",
        "../secret.png",
        "link.png",
        "pipe.png",
        "letter.pdf.jpg",
        "phone.jpg",
        "bomb.jpg",
    ]
    job_id = place.push(*(f"local_path:{value}" for value in values))
    events = place.run()
    assert [one["event"] for one in events] == ["started", "answered", "stopped"]
    assert "tesseract" in events[0]["engines"]
    (answer,) = place.answers_by_rq()
    assert (answer.workflow_id, answer.trace.parent_job_id, answer.payload.status) == (
        job_id,
        job_id,
        "success",
    )
    results = answer.payload.results
    assert results[0].ocr_text == WORDS
    assert results[0].meta.confidence > 0.5
    not_found = ["image_not_found"] * 4
    assert [one.error.code for one in results[1:]] == [
        *not_found, "unsupported_media", "unsupported_media", "unsupported_media",
    ]  # fmt: skip
    assert place.client.llen(OCR) == 0


def test_bad_messages_are_answered_or_kept(place):
    place.client.lpush(OCR, b"no json")
    place.client.lpush(OCR, json.dumps({"job_id": "1", "request": {}}))
    place.push("local_path:0.png", schema_version=2, reply_to="own.answers")
    place.client.lpush(OCR, b'{"a":"' + b"x" * (4 << 20) + b'"}')
    place.client.set("no.list", "1")
    place.push("local_path:0.png", reply_to="no.list")
    place.push("local_path:0.png", reply_to="own.answers")
    place.run()
    refused, good = sorted(place.popped("own.answers"), key=lambda one: one.payload.status)
    assert (refused.payload.status, refused.payload.error.code) == ("failed", "bad_request")
    assert good.payload.status == "success"
    assert place.client.llen(f"{OCR}:dead") == 4
    assert place.client.get("no.list") == b"1"


async def test_killed_in_the_middle_of_a_job_it_is_answered_once_by_the_next(place):
    async with web_server(a=never_beginning) as web:
        place.push(f"s3:{web.url('/a')}", "local_path:0.png", reply_to="own.answers")
        worker = await asyncio.to_thread(place.start)
        async with asyncio.timeout(60):
            await web.until_asked(1)
        os.killpg(worker.pid, signal.SIGKILL)
        await asyncio.to_thread(worker.communicate)
        assert place.client.llen("own.answers") == 0
        web.answers["/a"] = reply(draw_words("two eggs"))
        await asyncio.to_thread(place.run)
    (answer,) = place.popped("own.answers")
    assert [one.ocr_text for one in answer.payload.results] == ["two eggs", WORDS]
    assert list(place.client.scan_iter(f"{OCR}:processing:*")) == []
    assert list(place.quire.home.rglob("picture-*")) == []


async def test_a_request_on_which_every_worker_is_killed_is_answered_once_before_it_is_buried(place):
    with (place.quire.folder / "quire.toml").open("a") as settings:
        settings.write("max_retries = 1\n")
    async with web_server(a=never_beginning) as web:
        place.push(f"s3:{web.url('/a')}", reply_to="own.answers")
        for asked in (1, 2):
            worker = await asyncio.to_thread(place.start)
            async with asyncio.timeout(60):
                await web.until_asked(asked)
            os.killpg(worker.pid, signal.SIGKILL)
            await asyncio.to_thread(worker.communicate)
        events = await asyncio.to_thread(place.run)
    assert [one["event"] for one in events] == ["started", "given_up", "dead_letter", "stopped"]
    (answer,) = place.popped("own.answers")
    assert (answer.payload.status, answer.payload.error.code) == ("failed", "internal_error")
    assert place.client.llen(f"{OCR}:dead") == 1


async def test_ctrl_c_finishes_what_it_works_on(place):
    async with web_server(a=never_beginning) as web:
        place.push(f"s3:{web.url('/a')}", reply_to="own.answers")
        worker = await asyncio.to_thread(place.start)
        async with asyncio.timeout(60):
            await web.until_asked(1)
        worker.send_signal(signal.SIGINT)
        web.answers["/a"] = reply(draw_words("two eggs"))
        web.drop()  # the connection that never answers: the worker asks once more
        out, _ = await asyncio.to_thread(worker.communicate, timeout=60)
    assert worker.returncode == 0
    assert json.loads(out.splitlines()[-1])["event"] == "stopped"
    assert place.popped("own.answers")[0].payload.results[0].ocr_text == "two eggs"


async def test_a_second_ctrl_c_ends_it_at_once_and_the_job_comes_back(place):
    async with web_server(a=never_beginning) as web:
        place.push(f"s3:{web.url('/a')}", reply_to="own.answers")
        worker = await asyncio.to_thread(place.start)
        async with asyncio.timeout(60):
            await web.until_asked(1)
        worker.send_signal(signal.SIGINT)
        await asyncio.to_thread(read_until, worker, "stopping")
        worker.send_signal(signal.SIGINT)
        await asyncio.to_thread(worker.communicate, timeout=60)
        assert worker.returncode == 130
        web.answers["/a"] = reply(draw_words("two eggs"))
        await asyncio.to_thread(place.run)
    assert len(place.popped("own.answers")) == 1


async def test_a_store_that_stays_away_is_answered_after_the_last_attempt(place):
    async with web_server(a=reply(b"", "503 Busy")) as web:
        place.push(f"s3:{web.url('/a')}", reply_to="own.answers")
        events = await asyncio.to_thread(place.run)
    assert [one["event"] for one in events[1:-1]] == ["retried", "retried", "answered"]
    (answer,) = place.popped("own.answers")
    assert (answer.payload.status, answer.payload.error.code) == ("failed", "file_read_error")


async def test_an_outage_of_redis_is_waited_for(place):
    place.server.stop()
    worker = await asyncio.to_thread(place.start)
    await asyncio.to_thread(read_until, worker, "waiting")
    place.server.start()
    place.push("local_path:0.png", reply_to="own.answers")
    await asyncio.to_thread(read_until, worker, "answered")
    worker.send_signal(signal.SIGTERM)
    await asyncio.to_thread(worker.communicate, timeout=60)
    assert worker.returncode == 0
    assert place.popped("own.answers")[0].payload.status == "success"


def test_it_works_on_queues_of_its_own_without_redis(quire):
    """An answer to nobody: what comes over HTTP is tested with the server."""
    ran = quire("ocr", "worker", "--until-empty")
    assert ran.returncode == 0, ran.stderr
    assert "Quire's own queues" in ran.stderr
    assert "there was nothing to do" in ran.stderr


def test_it_says_what_it_cannot_start_with(quire):
    ran = quire("ocr", "worker", "--until-empty", QUIRE_REDIS_URL="http://127.0.0.1")
    assert ran.returncode == 1
    assert "redis://" in ran.stderr
