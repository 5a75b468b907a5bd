"""`quire queue` as people use it: processes on one home, on SQLite, PostgreSQL and Redis."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.situations.runs import submitted

from quire.assembly.components import open_components
from quire.assembly.pipelines import build_pipelines
from quire.queues.port import Message
from quire.settings import load

pytestmark = pytest.mark.slow
SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "collection"
QUEUE = "arke-preprocess-jobs"


@pytest.fixture
def filled(folder):
    shutil.copy(SAMPLES / "photos" / "portrait.tif", folder / "good.tif")
    return folder


def answer(ran):
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


async def send_poison(office, _pipeline):
    message = Message(id="poison", body=b"\x1b[2J not a start message")
    await office.queues.send(QUEUE, [message], now=office.clock.now())


def within(quire, work, **environment):
    async def opened():
        found = load(environment=environment, folder=quire.home, overrides={"home": str(quire.home)})
        settings = found.settings
        async with open_components(settings) as office:
            return await work(office, build_pipelines(settings)["preprocess"])

    return asyncio.run(opened())


def test_a_run_needs_no_start_message(quire, filled):
    """Its batch flows while the folder is still read: there is nobody to be told of its end."""
    assert quire.run(str(filled)).returncode == 0
    assert answer(quire("queue", "list", "--json"))["queues"] == []


def test_poison_becomes_a_dead_letter_that_people_can_work_with(quire, filled):
    assert quire.run(str(filled)).returncode == 0

    within(quire, send_poison)
    waiting = answer(quire("queue", "peek", QUEUE, "--json"))["messages"]
    assert [one["id"] for one in waiting] == ["poison"]
    assert quire("scheduler", "--until-idle").returncode == 0
    assert answer(quire("queue", "dead", "list", QUEUE, "--group", "--json"))["classes"] == {"bad_message": 1}
    shown = quire("queue", "dead", "show", "preprocess-dlq", "poison")
    assert shown.returncode == 0
    assert "not a start message" in shown.stdout
    assert "\x1b" not in shown.stdout
    refused = quire("queue", "dead", "discard", QUEUE, "poison")  # nobody is at the terminal
    assert (refused.returncode, "--yes" in refused.stderr) == (1, True)
    assert answer(quire("queue", "dead", "replay", QUEUE, "--all", "--yes", "--json"))["dead_letters"] == 1
    assert quire("scheduler", "--until-idle").returncode == 0
    letter = answer(quire("queue", "dead", "show", QUEUE, "poison", "--json"))
    assert [one["ending"] for one in letter["history"]] == ["buried", "replayed", "buried"]
    assert answer(quire("queue", "dead", "discard", QUEUE, "poison", "--yes", "--json"))["did"] == "discarded"
    assert answer(quire("queue", "dead", "list", QUEUE, "--json"))["dead"] == []


def test_a_start_message_under_the_queue_s_former_name_is_still_read(quire):
    """As in a home of an earlier version: one letter in the outbox, one message in the queue."""

    async def before(office, pipeline):
        old = replace(pipeline, queue="preprocess")
        await submitted(office, old, [], batch_id="0" * 26)
        await submitted(office, old, [], batch_id="1" * 26)
        letter, _ = await office.outbox.list_unsent(9)
        assert letter.queue == "preprocess"
        message = Message(id=letter.message_id, body=letter.body)
        await office.queues.send(letter.queue, [message], now=office.clock.now())
        await office.outbox.mark_sent([letter.no])

    quire.home.mkdir()
    within(quire, before)
    assert quire("scheduler", "--until-idle").returncode == 0
    batches = answer(quire("batch", "list", "--json"))["batches"]
    assert [one["status"] for one in batches] == ["DONE", "DONE"]


def test_the_policy_of_a_queue_comes_from_the_settings(quire):
    async def before(office, _pipeline):
        body = b'{"batch_id": "nobody", "manifest_r2_key": "x"}'
        await office.queues.send(QUEUE, [Message(id="lost", body=body)], now=office.clock.now())

    quire.home.mkdir()
    within(quire, before)
    (quire.folder / "quire.toml").write_text(f'[queues."{QUEUE}"]\nmax_retries = 0\ndead_letter = "graves"\n')
    assert quire("scheduler", "--until-idle").returncode == 0
    (letter,) = answer(quire("queue", "dead", "list", "graves", "--json"))["dead"]
    assert (letter["error_class"], letter["deliveries"]) == ("unknown_batch", 1)


@pytest.mark.service
def test_messages_go_through_redis_and_nobody_sees_the_password(quire, filled, redis_server):
    redis = {"QUIRE_QUEUE_STORE": "redis", "QUIRE_REDIS_URL": redis_server, "QUIRE_REDIS_PREFIX": "run"}
    ran = quire.run(str(filled), **redis)
    assert ran.returncode == 0, ran.stderr
    within(quire, send_poison, **redis)
    listed = answer(quire("queue", "list", "--json", **redis))
    # Lists of published programs are whatever else is on this server.
    ours = [one["queue"] for one in listed["queues"] if not one["queue"].startswith("jarvis.")]
    assert ours == [QUEUE]
    assert answer(quire("queue", "list", "--json"))["queues"] == []  # not in the ledger's database
    tried = quire("queue", "test", **redis)
    assert tried.returncode == 0, tried.stdout
    told = ran.stdout + ran.stderr + tried.stdout + tried.stderr
    assert "test-secret" not in told
    shown = quire("doctor", "--json", **redis)
    assert "test-secret" not in shown.stdout


@pytest.mark.service
def test_a_redis_server_that_may_lose_messages_is_told(quire, redis_program):
    from tests.servers.redis import restartable_server

    with restartable_server(redis_program, appendonly="no") as server:
        told = answer(quire("queue", "test", server.url, "--json"))
    assert told["fine"]
    assert any("appendonly" in words for words in told["warnings"])


@pytest.mark.service
def test_redis_keeps_the_promises(quire, redis_server):
    told = answer(quire("queue", "test", redis_server, "--json"))
    assert (told["fine"], told["warnings"]) == (True, [])


@pytest.mark.service
def test_postgres_keeps_the_promises(quire, postgres_server):
    told = answer(quire("queue", "test", postgres_server, "--json"))
    assert (told["fine"], told["warnings"]) == (True, [])


def test_a_server_that_is_not_there_is_told_without_a_traceback(quire):
    for url in ("redis://:hush@127.0.0.1:1/0", "postgresql://me:hush@127.0.0.1:1/none"):
        ran = quire("queue", "test", url)
        assert ran.returncode == 1
        assert "Traceback" not in ran.stderr
        assert "hush" not in ran.stdout + ran.stderr
