"""A step of one's own asks somebody outside, and its task is completed by HTTP or by a queue: the server may
be killed between request and answer, and no answer counts twice.
"""

import asyncio
import json

import httpx
import pytest
from tests.acceptance.ingest.conftest import CONFIG, serving
from tests.servers.postgres import fresh_schema

from quire.assembly.components import open_components
from quire.model.batch import Stage
from quire.queues.port import Message
from quire.settings import load

ASKING = """
import asyncio
import json
import threading
import urllib.request
from pathlib import Path

from quire import Document, External, Output, Pipeline

asking = Pipeline("asking", version=1)


@asking.step(accepts="*.txt")
def ask(document: Document) -> dict[str, int] | External:
    return External({"task": document.task, "name": document.name}, queue="jobs", within=600)


@asking.step(accepts="*.txt")
def use(document: Document, ask: dict[str, int]) -> Output:
    return Output.json("words.json", ask)


# It sends its request itself, and the answer is on its way before it has returned.
@asking.step(accepts="*.call")
async def call(document: Document) -> dict[str, int] | External:
    server = Path(__file__).with_name("server").read_text()
    body = json.dumps({"status": "success", "value": {"words": 7}}).encode()
    threading.Thread(target=urllib.request.urlopen, args=(f"{server}/tasks/{document.task}", body)).start()
    await asyncio.sleep(0.5)
    return External(within=60)


@asking.step(accepts="*.call")
def used(document: Document, call: dict[str, int]) -> Output:
    return Output.json("called.json", call)


@asking.step(accepts="*.mute", retries=0)
async def forget(document: Document) -> External:
    return External(document.task, queue="nobody", within=0.2)
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.service)])
def environment(request, tmp_path):
    (tmp_path / "asking.py").write_text(ASKING)
    found = {"QUIRE_PIPELINES": "asking.py", "QUIRE_INGEST_PIPELINE": "asking"}
    if request.param == "postgres":
        dsn = fresh_schema(request.getfixturevalue("postgres_server"))
        found |= {"QUIRE_LEDGER": "postgres", "QUIRE_POSTGRES_DSN": dsn}
    return found


@pytest.fixture
def server(environment, tmp_path):
    with serving(tmp_path, environment, "--workers", "1") as running:
        yield running


def sent(server, *names: str) -> str:
    with server.client() as client:
        body = {"uploader": "ana", "root_path": "/", "file_count": len(names), "total_size": 5 * len(names)}
        batch = client.post("/api/batches/init", json=body).json()["batch_id"]
        for name in names:
            body = {"file_name": name, "file_size": 5, "logical_path": f"/{name}"}
            body |= {"content_type": "text/plain", "processing_config": CONFIG}
            ticket = client.post(f"/api/batches/{batch}/files/start", json=body).json()
            assert httpx.put(ticket["presigned_url"], content=f"{name[0]} bc\n".encode()).status_code == 200
            client.post(f"/api/batches/{batch}/files/complete", json={"r2_key": ticket["r2_key"]})
        client.post(f"/api/batches/{batch}/finalize", json={})
    return batch


def opened(server):
    overrides = {"home": str(server.home)}
    return open_components(
        load(environment=server.environment, folder=server.folder, overrides=overrides).settings
    )


async def asked(server, count: int) -> dict[str, str]:
    """What the other side finds in its queue: by name, the token of each task."""
    found: dict[str, str] = {}
    async with opened(server) as office:
        while len(found) < count:
            await office.queues.wait(["jobs"], seconds=0.2)
            for one in await office.queues.lease("jobs", limit=9, seconds=60, now=office.clock.now()):
                request = json.loads(one.body)
                found[request["name"]] = request["task"]
                await office.queues.acknowledge([one], now=office.clock.now())
    return found


async def answered_by_queue(server, **messages: dict) -> None:
    async with opened(server) as office:
        bodies = [Message(id=name, body=json.dumps(said).encode()) for name, said in messages.items()]
        await office.queues.send("quire-answers", bodies, now=office.clock.now())


async def dead_letters(server, count: int) -> dict[str, str]:
    async with opened(server) as office:
        while True:
            found = await office.queues.list_dead_letters("quire-answers", limit=9)
            if len(found) >= count:
                return {one.id: one.error_class for one in found}
            await asyncio.sleep(0.05)


async def ended(server, batch: str) -> dict[str, str]:
    """Follow the batch to its end; by path, the outcome of each file."""
    with server.client() as client, client.stream("GET", f"/api/batches/{batch}/events") as events:
        for _ in events.iter_lines():
            pass
    async with opened(server) as office:
        known = await office.batches.get_batch(batch)
        assert known.position.stage is Stage.DONE
        return {one.path: one.outcome for one in await office.records.list_inputs(known.no, limit=9)}


async def made(server, batch: str, name: str) -> object:
    """What is in a JSON file that the batch has made."""
    async with opened(server) as office:
        known = await office.batches.get_batch(batch)
        inputs = await office.records.list_inputs(known.no, limit=9)
        [file] = [file for one in inputs for _, file in one.made if file.name == name]
        return json.loads(await office.blobs.get(file.key))


async def test_an_answer_by_http_counts_once_though_the_server_was_killed(server):
    batch = sent(server, "a.txt")
    token = (await asked(server, 1))["a.txt"]
    server.restart("--workers", "1")
    with server.client() as client:
        forged = token[:-1] + ("0" if token[-1] != "0" else "1")
        answer = {"status": "success", "value": {"words": 2}}
        refused = client.post(f"/tasks/{forged}", json=answer)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:quire:error:bad_signature")
        foreign = {"name": "x", "key": "staging/01KB0000000000000000000000/x"}
        bad = client.post(f"/tasks/{token}", json=answer | {"outputs": [foreign]})
        assert bad.status_code == 400
        assert client.post(f"/tasks/{token}", content=b" " * (4 * 1024 * 1024 + 1)).status_code == 413
        busy = client.post(f"/tasks/{token}", json={"status": "error", "error": "busy", "final": False})
        assert busy.json() == {"ok": True, "waiting": True}
        assert client.post(f"/tasks/{token}", json=answer).json() == {"ok": True}
        again = client.post(f"/tasks/{token}", json=answer | {"value": {"words": 3}})
        assert again.status_code == 200
        assert again.json() in ({"ok": True, "duplicate": True}, {"ok": True, "late": True})
    assert await ended(server, batch) == {"/a.txt": "done"}
    assert await made(server, batch, "a.txt.words.json") == {"words": 2}


async def test_answers_by_a_queue_complete_tasks_and_what_can_never_be_right_is_kept(server):
    batch = sent(server, "a.txt", "b.txt")
    tokens = await asked(server, 2)
    done = {"status": "success", "value": {"words": 2}}
    await answered_by_queue(
        server,
        forged=done | {"task": tokens["a.txt"][:-4] + "beef"},
        nonsense={"hello": "world"},
        right=done | {"task": tokens["a.txt"]},
        failed={"status": "error", "error": "blank", "error_class": "blank", "task": tokens["b.txt"]},
    )
    assert await dead_letters(server, 2) == {"forged": "bad_signature", "nonsense": "answer_refused"}
    assert await ended(server, batch) == {"/a.txt": "done", "/b.txt": "failed"}


async def test_an_answer_that_lay_in_the_queue_while_the_server_was_down_counts(server):
    batch = sent(server, "a.txt")
    token = (await asked(server, 1))["a.txt"]
    server.kill()
    await answered_by_queue(server, right={"status": "success", "value": {"words": 2}, "task": token})
    server.start("--workers", "1")
    assert await ended(server, batch) == {"/a.txt": "done"}


async def test_an_answer_may_overtake_the_step_that_has_asked(server, tmp_path):
    (tmp_path / "server").write_text(server.url)
    batch = sent(server, "a.call")
    assert await ended(server, batch) == {"/a.call": "done"}
    assert await made(server, batch, "a.call.called.json") == {"words": 7}


async def test_a_task_that_nobody_answers_says_what_to_do(server):
    batch = sent(server, "a.mute")
    assert await ended(server, batch) == {"/a.mute": "failed"}
    async with opened(server) as office:
        known = await office.batches.get_batch(batch)
        [one] = await office.records.list_inputs(known.no, limit=9)
    assert one.error_class == "no_answer"
    assert "nobody has answered the request of forget in time; find out whether it arrived" in one.reason
