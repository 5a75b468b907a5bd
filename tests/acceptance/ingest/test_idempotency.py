"""Whatever is said twice counts once: every call of the protocol repeated, in order, out of order and at the
same moment, on local files and on S3.
"""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from tests.acceptance.ingest.clients import CONFIG, MIB, CommandLine, Item, Refused, Reply, ask
from tests.acceptance.ingest.home import (
    BATCH,
    PREPROCESS,
    at_home,
    blob,
    keys_below,
    manifest,
    messages,
    settings_of,
)

from quire.assembly.server import open_presigned_uploads
from quire.blobs.presigned_uploads import CompletedPart

pytestmark = pytest.mark.slow
AT_ONCE = 10
LARGE = 10 * MIB + 1  # two parts


def item(path, size=100):
    return Item(path, random.Random(f"{path} {size}").randbytes(size), "text/plain")


@pytest.fixture
def client(still):
    return CommandLine(still.url)


def said(client, path, body, **headers) -> Reply:
    data = json.dumps(body).encode()
    sent = {**client.headers, **headers, "Content-Type": "application/json", "Content-Length": str(len(data))}
    return ask("POST", client.url + path, sent, data)


def opened(client, *items, **more):
    client.init(items, **more)
    return client


def closed(client, *items):
    opened(client, *items).send_all(items)
    client.finalize()
    return client


def at_once(act, count=AT_ONCE):
    """All of them begin when the last one is ready; each is told its place."""
    ready = Barrier(count)

    def begin(place):
        ready.wait(timeout=30)
        return act(place)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def outcome(act, *arguments):
    """0 when it went well, otherwise the status of the refusal."""
    try:
        act(*arguments)
    except Refused as refused:
        return refused.reply.status
    return 0


def status(client):
    return ask("GET", client.url + client.at("status"), {}).json()


def refusal(act, *arguments):
    with pytest.raises(Refused) as caught:
        act(*arguments)
    return caught.value.reply.status, caught.value.reply.json()["error"]


OPENING = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": 1}


def test_init_repeated_with_its_key_is_the_same_batch(client):
    replies = at_once(lambda _: said(client, "/api/batches/init", OPENING, **{"Idempotency-Key": "k-1"}))
    assert {reply.status for reply in replies} == {201}
    assert len({reply.body for reply in replies}) == 1
    other = said(client, "/api/batches/init", OPENING, **{"Idempotency-Key": "k-2"})
    assert other.json()["batch_id"] != replies[0].json()["batch_id"]


def test_init_with_a_used_key_and_another_body_is_refused(client):
    first = said(client, "/api/batches/init", OPENING, **{"Idempotency-Key": "k-3"})
    other = said(client, "/api/batches/init", OPENING | {"file_count": 2}, **{"Idempotency-Key": "k-3"})
    assert other.status == 422
    assert other.json()["error"]
    again = said(client, "/api/batches/init", OPENING, **{"Idempotency-Key": "k-3"})
    assert again.body == first.body


def test_init_repeated_without_a_key_is_another_batch(client):
    first, second = (said(client, "/api/batches/init", OPENING).json() for _ in range(2))
    assert first["batch_id"] != second["batch_id"]
    assert first["session_id"] != second["session_id"]


@pytest.mark.parametrize("size", [100, LARGE])
def test_start_repeated_is_one_file(client, still, size):
    sent = item("/a.bin", size)
    opened(client, sent).start(sent)
    client.upload(sent)
    client.upload(sent)
    answer = client.finalize()
    assert (answer["files_uploaded"], answer["total_bytes"]) == (1, size)
    assert "warnings" not in answer
    assert blob(still, f"staging/{client.batch}/a.bin") == sent.data
    assert manifest(still, client.batch)["total_files"] == 1


def test_start_at_once_from_everywhere_is_one_file(client, still):
    sent = item("/a.bin", LARGE)
    opened(client, sent)
    tickets = at_once(lambda _: client.start(sent))
    said_now = status(client)
    assert [one["status"] for one in said_now["files"]] == ["uploading"]
    # One of the tickets counts. Whoever completes another is told to start again, and nothing is lost.
    outcomes = [
        outcome(lambda ticket=ticket: client.complete(ticket, client.put(sent, ticket))) for ticket in tickets
    ]
    assert 0 in outcomes
    assert set(outcomes) <= {0, 400, 403, 404}
    assert client.finalize()["files_uploaded"] == 1
    assert blob(still, f"staging/{client.batch}/a.bin") == sent.data


@pytest.mark.parametrize(("size", "other"), [(100, 50), (100, LARGE), (LARGE, 6 * MIB), (LARGE, 100)])
def test_start_with_another_size_takes_its_place(client, still, size, other):
    first, second = item("/a.bin", size), item("/a.bin", other)
    opened(client, second).upload(first)
    assert status(client)["total_bytes_uploaded"] == size
    ticket = client.start(second)
    assert (status(client)["files_uploaded"], status(client)["total_bytes_uploaded"]) == (0, 0)
    assert refusal(client.finalize) == (400, "Not all files completed")
    client.complete(ticket, client.put(second, ticket))
    answer = client.finalize()
    assert (answer["files_uploaded"], answer["total_bytes"]) == (1, other)
    assert blob(still, f"staging/{client.batch}/a.bin") == second.data


def test_an_upload_that_was_started_again_is_over(client):
    sent = item("/a.bin", LARGE)
    opened(client, sent)
    old = client.start(sent)
    parts = client.put(sent, old)
    new = client.start(sent)
    assert refusal(client.complete, old, parts) == (400, "upload_id mismatch")
    client.complete(new, client.put(sent, new))
    assert client.finalize()["files_uploaded"] == 1


@pytest.mark.parametrize("size", [100, LARGE])
def test_complete_repeated_stays_complete(client, still, size):
    sent = item("/a.bin", size)
    ticket = opened(client, sent).start(sent)
    parts = client.put(sent, ticket)
    at_once(lambda _: client.complete(ticket, parts))
    before = status(client)
    client.complete(ticket, list(reversed(parts)))
    client.complete(ticket, [{"part_number": 1, "etag": "0" * 32}])
    assert status(client) == before
    assert before["files_uploaded"] == 1
    assert before["total_bytes_uploaded"] == size
    client.finalize()
    assert refusal(client.complete, {**ticket, "r2_key": ticket["r2_key"] + "x"}, parts) == (
        404,
        "File not found in batch",
    )
    client.complete(ticket, parts)
    assert blob(still, ticket["r2_key"]) == sent.data


def test_parts_come_in_any_order_and_with_quotes(client, still):
    sent = item("/a.bin", LARGE)
    ticket = opened(client, sent).start(sent)
    parts = client.put(sent, ticket)
    quoted = [{"part_number": one["part_number"], "etag": f'"{one["etag"]}"'} for one in reversed(parts)]
    client.complete(ticket, quoted)
    assert blob(still, ticket["r2_key"]) == sent.data


def test_complete_before_the_bytes_is_refused_and_may_be_repeated(client):
    sent, large = item("/a.bin"), item("/b.bin", LARGE)
    opened(client, sent, large)
    ticket = client.start(sent)
    status_code, words = refusal(client.complete, ticket)
    assert status_code == 400
    assert words.startswith("Object not found in storage")
    client.put(sent, ticket)
    client.complete(ticket)
    ticket = client.start(large)
    parts = client.put(large, ticket)
    wrong = [parts[0], {"part_number": 2, "etag": "0" * 32}]
    assert refusal(client.complete, ticket, wrong)[0] == 400
    assert refusal(client.complete, ticket, [*parts, {"part_number": 3, "etag": "0" * 32}])[0] == 400
    for nonsense in (["x"], [{"part_number": "1", "etag": "a"}], [{"part_number": 1}], [{"etag": "a"}]):
        assert refusal(client.complete, ticket, nonsense) == (400, "Invalid parts format")
    assert status(client)["files_uploaded"] == 1
    client.complete(ticket, parts)
    assert client.finalize()["files_uploaded"] == 2


@pytest.mark.parametrize("size", [100, LARGE])
def test_fewer_bytes_than_announced_are_not_taken(client, size):
    sent = item("/a.bin", size)
    ticket = opened(client, sent).start(sent)
    short = Item(sent.path, sent.data[:-1])
    if "X-Amz-SignedHeaders=content-length" in json.dumps(ticket):  # S3 is told the only possible length
        with pytest.raises(Refused) as refused:
            client.put(short, ticket)
        assert refused.value.reply.status == 403
    else:
        status_code, words = refusal(client.complete, ticket, client.put(short, ticket))
        assert status_code == 400
        assert words.startswith("Size mismatch")
    client.upload(sent)
    assert client.finalize()["total_bytes"] == size


def test_other_bytes_than_the_cid_names_are_not_taken(client):
    sent = item("/a.bin")
    ticket = opened(client, sent).start(sent)
    client.put(Item(sent.path, sent.data[::-1]), ticket)
    status_code, words = refusal(client.complete, ticket)
    assert status_code == 400
    assert words.startswith("CID mismatch")
    client.put(sent, ticket)
    client.complete(ticket)


def test_complete_after_the_store_has_joined_and_we_died(client, still):
    """The store first, then the ledger: what was joined by a server that died is found by the next one."""
    sent = item("/a.bin", LARGE)
    ticket = opened(client, sent).start(sent)
    parts = client.put(sent, ticket)

    async def join(office):
        presigned = open_presigned_uploads(settings_of(still), office)
        listed = [CompletedPart(one["part_number"], one["etag"]) for one in parts]
        try:
            await presigned.join(ticket["r2_key"], ticket["upload_id"], listed)
        finally:
            await presigned.close()

    at_home(still, join)
    assert status(client)["files"][0]["status"] == "uploading"
    client.complete(ticket, parts)
    assert status(client)["files"][0]["status"] == "completed"
    assert blob(still, ticket["r2_key"]) == sent.data


def test_finalize_repeated_says_the_same_and_sends_once(client, still):
    sent = item("/a.bin")
    closed(client, sent)
    first = client.finalize()
    assert client.post(client.at("finalize"), {}) == first
    assert first["status"] == "preprocessing"
    assert len(messages(still, PREPROCESS, client.batch)) == 1


def test_ten_finalize_at_once_send_one_message(client, still):
    items = [item(f"/{place % 5}/{place}.bin") for place in range(40)]
    opened(client, *items).send_all(items)
    answers = at_once(lambda _: client.finalize())
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["files_uploaded"] == 40
    (message,) = messages(still, PREPROCESS, client.batch)
    assert message["total_files"] == 40
    listed = [
        one["logical_path"]
        for folder in manifest(still, client.batch)["directories"]
        for one in folder["files"]
    ]
    assert sorted(listed) == sorted(one.path for one in items)


def test_finalize_while_a_file_is_started_again(client, still):
    """Either it was there when the batch was closed, or the batch was not closed: never half."""
    items = [item(f"/{place}.bin") for place in range(10)]
    opened(client, *items).send_all(items)

    def act(place):
        return outcome(*((client.finalize,) if place % 2 else (client.upload, items[place])))

    assert set(at_once(act)) <= {0, 400}
    for one in items:
        ticketed = next(line for line in status(client)["files"] if line["logical_path"] == one.path)
        if ticketed["status"] == "uploading":
            client.upload(one)
    assert client.finalize()["files_uploaded"] == 10
    assert len(messages(still, PREPROCESS, client.batch)) == 1
    assert manifest(still, client.batch)["total_files"] == 10


def test_nothing_is_added_to_a_closed_batch(client, still):
    sent = item("/a.bin")
    closed(client, sent)
    assert refusal(client.start, item("/b.bin")) == (400, "Batch status is preprocessing, cannot add files")
    assert refusal(client.start, sent) == (400, "Batch status is preprocessing, cannot add files")
    assert refusal(client.start, item("/c.bin", LARGE))[0] == 400
    assert set(keys_below(still, f"staging/{client.batch}")) == {
        f"staging/{client.batch}/a.bin",
        f"staging/{client.batch}/_manifest.json",
    }


def handed_back(client, *names, size=7):
    files = [
        {
            "r2_key": f"staging/{client.batch}/{name}",
            "logical_path": f"/{name}",
            "file_name": name,
            "file_size": size,
            "content_type": "text/plain",
            "processing_config": CONFIG,
        }
        for name in names
    ]
    return said(client, client.at("enqueue-processed"), {"files": files})


def test_handing_back_repeated_says_the_same_and_sends_once(client, still):
    answer = closed(client, item("/a.bin")).finalize()
    original = blob(still, f"staging/{client.batch}/_manifest.json")
    first = handed_back(client, "a.bin", "b.txt")
    assert first.json() == {"success": True, "batch_id": client.batch, "status": "enqueued", "total_files": 2}
    assert handed_back(client, "a.bin", "b.txt").body == first.body
    later = handed_back(client, "other.txt")
    assert (later.status, later.body) == (200, first.body)
    assert len(messages(still, BATCH, client.batch)) == 1
    assert manifest(still, client.batch)["total_files"] == 2
    assert blob(still, f"staging/{client.batch}/_manifest.original.json") == original
    assert client.finalize() == answer | {"status": "enqueued"}
    assert len(messages(still, PREPROCESS, client.batch)) == 1


def test_ten_that_hand_back_different_files_at_once_agree(client, still):
    """The first one counts, in the answer, in the manifest, in the message and in the status alike."""
    closed(client, item("/a.bin"))
    original = blob(still, f"staging/{client.batch}/_manifest.json")

    def hand_back(place):
        return handed_back(client, *(f"{place}-{number}.txt" for number in range(place + 1)), size=place + 1)

    replies = at_once(hand_back)
    assert {reply.status for reply in replies} == {200}, [reply.body for reply in replies]
    assert len({reply.body for reply in replies}) == 1
    total = replies[0].json()["total_files"]
    (message,) = messages(still, BATCH, client.batch)
    listed = manifest(still, client.batch)
    now = status(client)
    assert {total, message["total_files"], listed["total_files"], len(now["files"])} == {total}
    assert {message["total_bytes"], listed["total_bytes"], now["total_bytes_uploaded"]} == {total * total}
    assert blob(still, f"staging/{client.batch}/_manifest.original.json") == original
