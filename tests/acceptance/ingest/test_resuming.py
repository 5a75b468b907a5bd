"""Going on after a break: what has arrived of a file in parts is not sent again, on local files and on S3."""

import json
import os
import random
import signal

import httpx
import pytest
from tests.acceptance.ingest.conftest import CONFIG, serving
from tests.acceptance.ingest.home import at_home, blob, settings_of
from tests.acceptance.ingest.relay import relaying
from tests.acceptance.ingest.sender import Sender
from tests.standins.ingest_server import MIB

from quire.assembly.presigned_uploads import open_presigned_uploads

pytestmark = pytest.mark.slow

PART = 10 * MIB
SIZE = 2 * PART + 7
DATA = random.Random(3).randbytes(SIZE)
PATH = "/box/large.bin"


@pytest.fixture
def sender(still):
    with still.client() as client:
        yield Sender(client)


def piece(number):
    return DATA[(number - 1) * PART : number * PART]


def sent(answer, *numbers):
    """Parts as `complete` wants them."""
    urls = {one["part_number"]: one["url"] for one in answer["presigned_urls"]}
    etags = {number: httpx.put(urls[number], content=piece(number)).headers["etag"] for number in numbers}
    return [{"part_number": number, "etag": etag} for number, etag in etags.items()]


def started(sender, size=SIZE, **more):
    return sender.start(PATH, size, **more).raise_for_status().json()


def there(answer):
    return [(part["part_number"], part["size"]) for part in answer["parts"]]


def test_who_resumes_sends_what_is_missing(sender, still):
    first = started(sender)
    assert set(first) == {"r2_key", "upload_type", "upload_id", "part_size", "presigned_urls"}
    before = sent(first, 3, 1)
    again = started(sender, resume=True)
    assert (again["upload_id"], again["part_size"]) == (first["upload_id"], PART)
    assert len(again["presigned_urls"]) == 3
    assert there(again) == [(1, PART), (3, 7)]
    assert {part["etag"] for part in again["parts"]} == {part["etag"].strip('"') for part in before}
    assert "completed" not in again
    known = [{name: part[name] for name in ("part_number", "etag")} for part in again["parts"]]
    done = sender.complete(PATH, upload_id=again["upload_id"], parts=[*known, *sent(again, 2)])
    assert done.json() == {"success": True}
    assert blob(still, sender.key(PATH)) == DATA


def test_without_asking_for_it_everything_begins_anew(sender):
    first = started(sender)
    sent(first, 1)
    for more in ({}, {"resume": False}, {"resume": "yes"}):
        again = started(sender, **more)
        assert again["upload_id"] != first["upload_id"]
        assert "parts" not in again
        first = again


@pytest.mark.parametrize(
    "other",
    [
        {"size": SIZE - 1},
        {"cid": "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"},
        {"content_type": "image/tiff"},
        {"processing_config": CONFIG | {"ocr": False}},
    ],
    ids=["size", "cid", "content type", "configuration"],
)
def test_another_file_under_the_path_begins_anew(sender, other):
    first = started(sender)
    sent(first, 1)
    again = started(sender, resume=True, **other)
    assert again["upload_id"] != first["upload_id"]
    assert again["parts"] == []
    assert httpx.put(first["presigned_urls"][1]["url"], content=piece(2)).status_code == 404


def test_what_was_never_begun_or_is_gone_begins_anew(sender, still):
    first = started(sender, resume=True)
    assert first["parts"] == []
    sent(first, 1)
    at_home(still, lambda office: given_up(still, office, first))
    again = started(sender, resume=True)
    assert again["upload_id"] != first["upload_id"]
    assert again["parts"] == []


async def given_up(still, office, answer):
    presigned = open_presigned_uploads(settings_of(still), office)
    await presigned.abort(answer["r2_key"], answer["upload_id"])
    await presigned.close()


def test_what_is_completed_is_skipped_and_stays_as_it_is(sender, still):
    first = started(sender)
    parts = sent(first, 1, 2, 3)
    assert sender.complete(PATH, upload_id=first["upload_id"], parts=parts).json() == {"success": True}
    sender.send("/small.txt", b"small")
    again = started(sender, resume=True)
    assert (again["completed"], again["parts"], again["presigned_urls"]) == (True, [], [])
    small = sender.start("/small.txt", 5, resume=True).json()
    wanted = {"r2_key": sender.key("/small.txt"), "upload_type": "simple", "parts": [], "completed": True}
    assert small == wanted
    assert {one["status"] for one in sender.status()["files"]} == {"completed"}
    assert sender.finalize().status_code == 200
    assert blob(still, sender.key(PATH)) == DATA
    late = sender.start(PATH, SIZE, resume=True)
    assert (late.status_code, "cannot add files" in late.json()["error"]) == (400, True)


def test_a_small_file_is_sent_as_a_whole(sender):
    sender.start("/small.txt", 5)
    again = sender.start("/small.txt", 5, resume=True).json()
    assert (again["upload_type"], again["parts"]) == ("simple", [])
    assert httpx.put(again["presigned_url"], content=b"small").status_code == 200
    assert sender.complete("/small.txt").json() == {"success": True}


def test_parts_beyond_the_end_of_the_file_are_not_told(sender, still):
    first = started(sender)
    urls = at_home(still, lambda office: more_urls(still, office, first))
    assert httpx.put(urls[3], content=b"x").status_code == 200
    sent(first, 2)
    assert there(started(sender, resume=True)) == [(2, PART)]


async def more_urls(still, office, answer):
    presigned = open_presigned_uploads(settings_of(still), office)
    urls = await presigned.sign_parts(
        answer["r2_key"], answer["upload_id"], parts=4, seconds=60, base_url=still.url
    )
    await presigned.close()
    return urls


@pytest.fixture
def counted(store, tmp_path):
    """A server and what is put to where its URLs lead."""
    ports = []
    with relaying(lambda: ports[0]) as relay:
        if store:
            ports.append(httpx.URL(store["QUIRE_S3_ENDPOINT"]).port)
            store = store | {"QUIRE_S3_PUBLIC_ENDPOINT": relay.url}
        (tmp_path / "server").mkdir()
        with serving(tmp_path / "server", store, "--api-only") as server:
            ports.append(server.port)
            yield server, relay


def test_after_kill_9_in_the_middle_of_a_file_quire_upload_goes_on(quire, folder, counted):
    server, relay = counted
    data = random.Random(4).randbytes(4 * PART - 3)
    (folder / "large.bin").write_bytes(data)
    # On local files the URLs lead to where the server was asked.
    address = server.url if server.environment else relay.url
    command = ("upload", str(folder), "--to", address, "--json", "--parallel-parts", "1")
    processes = []

    def kill_at_the_third():
        if len(relay.puts) == 3:
            os.killpg(processes[0].pid, signal.SIGKILL)

    relay.seen = kill_at_the_third
    processes.append(quire.started(*command))
    processes[0].communicate(timeout=60)
    assert processes[0].returncode == -signal.SIGKILL
    ran = quire(*command)
    assert ran.returncode == 0, ran.stderr
    last = json.loads(ran.stdout.splitlines()[-1])
    assert (last["uploaded"], last["finalized"], last["bytes"]) == (1, True, 2 * PART - 3)
    assert len(relay.puts) == 3 + 2
    assert blob(server, f"staging/{last['batch_id']}/large.bin") == data
