"""Workers that run elsewhere report by HTTP, at the URL of their attempt: the batch goes on as with ours."""

import json

import httpx
import pytest
from tests.acceptance.ingest.conftest import CONFIG, serving
from tests.acceptance.ingest.elsewhere import picture

from quire.assembly.components import open_components
from quire.assembly.secrets import load_signing_secret
from quire.batches.remote.attempts import AttemptAddress, build_registry_url, build_url
from quire.compute.remote.callback_body import MAX_BODY_BYTES
from quire.model.ids import task_id
from quire.settings import load

JPEG = b"\xff\xd8\xff\xe0 not looked into here \xff\xd9"


@pytest.fixture
def server(tmp_path):
    """It conducts, but nobody works: tasks are for others."""
    with serving(tmp_path, {}, "--workers", "0") as running:
        yield running


def sent(server, name: str, data: bytes, kind: str = "image/tiff") -> str:
    with server.client() as client:
        body = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": len(data)}
        batch = client.post("/api/batches/init", json=body).json()["batch_id"]
        body = {"file_name": name, "file_size": len(data), "logical_path": f"/box/{name}"}
        body |= {"content_type": kind, "processing_config": CONFIG}
        ticket = client.post(f"/api/batches/{batch}/files/start", json=body).json()
        assert httpx.put(ticket["presigned_url"], content=data).status_code == 200
        client.post(f"/api/batches/{batch}/files/complete", json={"r2_key": ticket["r2_key"]})
        client.post(f"/api/batches/{batch}/finalize", json={})
        return batch


def until(server, batch: str, wanted) -> dict:
    """Follow the batch until its progress is as wanted."""
    with server.client() as client, client.stream("GET", f"/api/batches/{batch}/events") as events:
        kind = ""
        for line in events.iter_lines():
            kind = line.removeprefix("event: ") if line.startswith("event: ") else kind
            if kind == "progress" and line.startswith("data: "):
                progress = json.loads(line.removeprefix("data: "))
                if wanted(progress):
                    return progress
    raise AssertionError(f"the batch {batch} has ended without that")


async def claimed(server, batch: str, *, phase: int = 2, prefix: str = "tiff", build=build_url):
    """Somebody takes the batch's one task; its attempt, its input and the URL to report to."""
    settings = load(environment={}, folder=server.folder, overrides={"home": str(server.home)}).settings
    async with open_components(settings) as office:
        known = await office.batches.get_batch(batch)
        member = await office.members.add_member("elsewhere", "machine", "far", now=office.clock.now())
        [claim] = await office.flow.claim_phase(
            known.no, phase, member=member.no, limit=9, now=office.clock.now()
        )
        order = claim.order
        about = AttemptAddress(
            batch_id=batch,
            task_id=task_id(prefix, batch, order.file.key),
            task_no=order.task_no,
            attempt=order.attempt,
        )
        return about, order.file.key, build(server.url, load_signing_secret(settings), about)


async def stored(server, key: str, data: bytes) -> None:
    async with open_components(
        load(environment={}, folder=server.folder, overrides={"home": str(server.home)}).settings
    ) as office:
        await office.blobs.put(key, data, content_type="image/jpeg")


def success(about: AttemptAddress, key: str, size: int) -> dict:
    return {
        "task_id": about.task_id,
        "batch_id": about.batch_id,
        "status": "success",
        "output_r2_key": key,
        "output_file_name": key.rpartition("/")[2],
        "output_file_size": size,
        "performance": {"total_time_ms": 2900},
    }


async def test_a_worker_elsewhere_finishes_a_task_and_is_told_when_it_repeats_itself(server):
    batch = sent(server, "p1.tif", b"II*\x00 a tiff of somebody")
    until(server, batch, lambda said: said["progress"]["tasks_total"] == 1)
    about, key, callback = await claimed(server, batch)
    made = key.replace(".tif", ".jpg")
    await stored(server, made, JPEG)
    body = success(about, made, len(JPEG))
    assert httpx.post(callback, json=body).json() == {"ok": True}
    assert httpx.post(callback, json=body).json()["ok"] is True  # again: nothing happens twice
    progress = until(server, batch, lambda said: said["status"] == "IMAGE_PROCESSING")
    assert progress["phases"]["TIFF_CONVERSION"] == {"total": 1, "completed": 1, "failed": 0, "cached": 0}


async def test_an_altered_url_and_a_foreign_body_change_nothing(server):
    batch = sent(server, "p1.tif", b"II*\x00 a tiff of somebody")
    until(server, batch, lambda said: said["progress"]["tasks_total"] == 1)
    about, key, callback = await claimed(server, batch)
    body = success(about, key, 3)
    before = httpx.get(f"{server.url}/status/{batch}").json()["progress"]
    for altered in (
        callback.replace("attempt=1", "attempt=2"),
        callback.replace("sig=", "sig=0"),
        callback.partition("?")[0],
        callback.replace(about.task_id, "tiff_" + "0" * 20),
    ):
        refused = httpx.post(altered, json=body)
        assert refused.status_code == 403
        assert set(refused.json()) == {"error"}
    assert httpx.post(callback, json=body | {"task_id": "tiff_other"}).status_code == 400
    assert httpx.post(callback, content=b"{").status_code == 400
    assert httpx.post(callback, content=b"x" * (MAX_BODY_BYTES + 1)).status_code == 413
    assert httpx.get(f"{server.url}/status/{batch}").json()["progress"] == before


async def test_a_success_without_its_output_is_a_failure_with_a_reason(server):
    batch = sent(server, "p1.tif", b"II*\x00 a tiff of somebody")
    until(server, batch, lambda said: said["progress"]["tasks_total"] == 1)
    about, key, callback = await claimed(server, batch)
    assert httpx.post(callback, json=success(about, key.replace(".tif", ".jpg"), 10)).json()["ok"] is True
    story = httpx.get(
        f"{server.url}/api/batches/{batch}/files/history", params={"path": "/box/p1.tif"}
    ).json()
    [attempt] = [one for one in story["attempts"] if one["outcome"]]
    assert attempt["outcome"] != "done"
    assert attempt["error"]


PHOTO = "01KB00000000000000000000ZZ"


async def test_a_worker_registers_the_picture_of_its_attempt_and_nothing_else(server):
    data = picture("JPEG", (300, 250))
    batch = sent(server, "up.jpg", data, "image/jpeg")
    until(server, batch, lambda said: said["phases"].get("IMAGE_PROCESSING", {}).get("total") == 1)
    server.restart("--api-only")  # with an engine the attempt of one who is no process would soon be over
    _, key, registry = await claimed(server, batch, phase=3, prefix="img", build=build_registry_url)
    sides = {"width": 300, "height": 250}
    body = {"is_image": True, "content_type": "image/jpeg", "original_width": 300, "original_height": 250}
    body["variants"] = {"original": {"r2_key": key, "size_bytes": len(data)} | sides}
    elsewhere = {"original": {"r2_key": key.replace(batch, "0" * 26), "size_bytes": len(data)} | sides}
    there = f"{server.url}/asset/{PHOTO}"
    for url, said, status in (
        (f"{registry}/asset/{PHOTO}", body | {"variants": elsewhere}, 400),
        (
            f"{registry}/asset/{PHOTO}",
            {"url": "https://x.example/", "content_type": "a/b", "size_bytes": 1},
            400,
        ),
        (f"{registry}/asset/{PHOTO}", [], 400),
        (f"{registry}/asset/x", body, 400),
        (f"{registry[:-1]}/asset/{PHOTO}", body, 403),
        (f"{registry.replace('.1.', '.2.')}/asset/{PHOTO}", body, 403),
        (f"{server.url}/registry/x/asset/{PHOTO}", body, 403),
    ):
        answer = httpx.post(url, json=said)
        assert (answer.status_code, bool(answer.json()["error"])) == (status, True), url
        assert httpx.get(there).status_code == 404
    answer = httpx.post(f"{registry}/asset/{PHOTO}", json=body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["cdnUrl"] == there
    assert httpx.post(f"{registry}/asset/{PHOTO}", json=body).status_code == 200
    assert httpx.get(there).content == data
    # After the end of its attempt it registers nothing more.
    with server.client() as client:
        client.post(f"/admin/cancel/{batch}", json={"reason": "no"}).raise_for_status()
    assert httpx.post(f"{registry}/asset/{PHOTO[:-1]}0", json=body).status_code == 409


async def test_the_attempt_of_another_step_has_nothing_to_register(server):
    batch = sent(server, "p1.tif", b"II*\x00 a tiff of somebody")
    until(server, batch, lambda said: said["progress"]["tasks_total"] == 1)
    _, key, registry = await claimed(server, batch, build=build_registry_url)
    said = {"r2_key": key, "content_type": "image/tiff", "size_bytes": 26}
    assert httpx.post(f"{registry}/asset/{PHOTO}", json=said).status_code == 404
