"""Homes of an earlier version under `quire serve`: keys, uploads and webhooks go on where they were."""

import json

import pytest
from standardwebhooks import Webhook
from tests.histories.commands import Sender, put

pytestmark = pytest.mark.slow
LARGE, SECOND = "/box/large.tif", "/box/second.png"


@pytest.fixture
def client(served):
    with served.server.client(served.facts["keys"]["valid"]) as client:
        yield client


def until_ended(client, batch):
    """Its events come until it has ended."""
    with client.stream("GET", f"/api/batches/{batch}/events") as answer:
        assert answer.status_code == 200
        return [line for line in answer.iter_lines() if line]


def test_webhooks_are_told_what_they_were_to_be_told(served):
    hook = Webhook(served.facts["hook"]["secret"])
    waited = dict(
        served.books.rows(
            "SELECT d.event_no, e.type FROM deliveries d JOIN events e ON e.no = d.event_no WHERE d.no <= ?",
            served.facts["deliveries"],
        )
    )
    assert "batch_prioritised" in waited.values()
    while waited:
        headers, body = served.receiver.call()
        # Its time is the present one, so the signature is one of today.
        hook.verify(body, headers)
        told = json.loads(body)
        kind = waited.pop(told["data"]["event_no"], None)
        assert kind is None or told["type"] == f"quire.{kind}"


def test_the_old_key_opens_and_the_revoked_one_does_not(served, client):
    answer = client.get("/api/batches")
    assert answer.status_code == 200
    assert set(served.batches.values()) <= {one["batch_id"] for one in answer.json()["batches"]}
    for key in (served.facts["keys"]["revoked"], "qk_nobodys", ""):
        with served.server.client(key) as stranger:
            assert stranger.get("/api/batches").status_code == 401


def test_a_file_that_had_arrived_is_given_out(served, client):
    where = f"/api/batches/{served.batches['waiting']}/files/download"
    answer = client.get(where, params={"path": "/box/waiting.png", "redirect": "true"}, follow_redirects=True)
    assert answer.status_code == 200
    assert answer.content.startswith(b"\x89PNG")


def test_an_open_upload_is_finished_and_its_batch_completes(served, client):
    batch, late = served.batches["open"], served.quire.folder / "late"
    sender = Sender(client, batch)
    sender.send(SECOND, (late / "second.png").read_bytes(), "image/png", resume=True)
    large = (late / "large.tif").read_bytes()
    answer = sender.announce(LARGE, len(large), "image/tiff", resume=True)
    size = answer["part_size"]
    assert [(part["part_number"], part["size"]) for part in answer["parts"]] == [(1, size)]
    (url,) = (one["url"] for one in answer["presigned_urls"] if one["part_number"] == 2)
    parts = [(1, answer["parts"][0]["etag"]), (2, put(url, large[size:]))]
    named = [{"part_number": number, "etag": etag} for number, etag in parts]
    sender.confirm(answer["r2_key"], upload_id=answer["upload_id"], parts=named)
    sender.close()
    until_ended(client, batch)
    status = client.get(f"/api/batches/{batch}/status").json()
    assert status["status"] == "enqueued", status
    files = client.get(f"/api/batches/{batch}/files").json()["files"]
    assert {one["path"]: one["status"] for one in files} == dict.fromkeys(
        ("/box/first.png", SECOND, LARGE), "done"
    )


def test_all_that_was_under_way_ends_by_itself(served, client):
    for name in ("killed", "waiting"):
        until_ended(client, served.batches[name])
        assert client.get(f"/status/{served.batches[name]}").json()["status"] == "DONE"
    files = client.get(f"/api/batches/{served.batches['killed']}/files").json()["files"]
    expected = {one["path"]: one["error_class"] for one in served.facts["expected"]["files"]}
    assert {one["path"]: one["error_class"] for one in files} == expected
