"""The server is killed between any two steps of an upload, and at random moments while clients upload that
try again as the published ones do. What was answered with 2xx is there; every file is there once; one message
starts the batch, which comes to its end.
"""

import http.client
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.acceptance.ingest.clients import MIB, CommandLine, Item, Sdk, ask
from tests.acceptance.ingest.conftest import Server
from tests.acceptance.ingest.home import BATCH, PREPROCESS, at_home, blobs, ever_sent, manifest, messages

pytestmark = pytest.mark.slow
IDLE = "--api-only"  # starts faster, and leaves batches alone
WORKING = ("--workers", "1")
KILLS = 2
GONE = (OSError, http.client.HTTPException)


@pytest.fixture
def idle(store, tmp_path):
    server = Server(tmp_path, store)
    try:
        yield server.start(IDLE)
    finally:
        server.close()


def item(path, size=100):
    return Item(path, random.Random(f"{path} {size}").randbytes(size), "text/plain")


def status(server, client):
    return ask("GET", server.url + client.at("status"), {}).json()


def comes_to_its_end(server, client, items):
    """Followed to the end by its events; then everything is there, once."""
    with server.client() as looking, looking.stream("GET", client.at("events")) as events:
        told = [line for line in events.iter_lines() if line.startswith("event: ")]
    assert told.count("event: batch_opened") == 1
    assert told.count("event: batch_finalized") == 1
    assert told.count("event: batch_done") == 1
    said = status(server, client)
    assert said["status"] == "enqueued"
    assert said["files_uploaded"] == len(items)
    assert sorted(one["logical_path"] for one in said["files"]) == sorted(one.path for one in items)
    assert {one["status"] for one in said["files"]} == {"completed"}
    keys = {one["logical_path"]: one["r2_key"] for one in said["files"]}
    assert blobs(server, [keys[one.path] for one in items]) == [one.data for one in items]
    for name in ("_manifest.original.json", "_manifest.json"):
        folders = manifest(server, client.batch, name)["directories"]
        listed = [one["logical_path"] for folder in folders for one in folder["files"]]
        assert sorted(listed) == sorted(one.path for one in items)
    assert ever_sent(server, PREPROCESS) == 1
    assert ever_sent(server, BATCH) == 1
    (message,) = messages(server, BATCH, client.batch)
    assert message["total_files"] == len(items)
    assert at_home(server, lambda office: office.queues.list_dead_letters(PREPROCESS, limit=1)) == []


def test_killed_between_each_pair_of_steps(idle):
    server, client = idle, CommandLine(idle.url)
    small, large = item("/fonds/a é+#.txt"), item("/fonds/b.bin", 12_000_000)

    client.init([small, large], "/fonds")
    server.restart(IDLE)
    ticket, in_parts = client.start(small), client.start(large)
    server.restart(IDLE)
    client.put(small, ticket)
    pieces = client.pieces(large.data, in_parts)
    parts = [{"part_number": 1, "etag": client.put_part(*pieces[0][1:])}]
    server.restart(IDLE)
    client.complete(ticket)
    parts.append({"part_number": 2, "etag": client.put_part(*pieces[1][1:])})
    server.restart(IDLE)
    assert [one["status"] for one in status(server, client)["files"]] == ["completed", "uploading"]
    client.complete(in_parts, parts)
    server.restart(IDLE)
    assert {one["status"] for one in status(server, client)["files"]} == {"completed"}
    answer = client.finalize()
    server.restart(*WORKING)
    repeated = client.finalize()
    assert repeated.pop("status") in {"preprocessing", "enqueued"}
    assert answer.pop("status") == "preprocessing"
    assert repeated == answer
    server.restart(*WORKING)  # and while it is worked on, or has just been
    comes_to_its_end(server, client, [small, large])


class Outages:
    """Kills the server when a chosen number of requests has begun, so that some of them are on their way, and
    starts it again; who has lost a request waits here until it is back.
    """

    def __init__(self, server, moments, *arguments):
        self.server = server
        self.moments = list(moments)
        self.arguments = arguments
        self.begun = 0
        self.changed = threading.Condition()
        self.up = True
        self.failure = None
        self.thread = threading.Thread(target=self.run)

    def request(self):
        with self.changed:
            self.begun += 1
            self.changed.notify_all()

    def wait_until_up(self):
        with self.changed:
            assert self.changed.wait_for(lambda: self.up or self.failure, timeout=60)
            assert self.failure is None

    def run(self):
        try:
            for moment in self.moments:
                with self.changed:
                    assert self.changed.wait_for(lambda moment=moment: self.begun >= moment, timeout=60)
                    self.up = False
                self.server.restart(*self.arguments)
                with self.changed:
                    self.up = True
                    self.changed.notify_all()
        except BaseException as error:
            with self.changed:
                self.failure = error
                self.changed.notify_all()
            raise


def stubborn(kind, outages, batch=""):
    """A published client whose user sends a file again when it has failed."""

    class Stubborn(kind):
        def api(self, path, body):
            outages.request()
            return super().api(path, body)

        def upload(self, one):
            for _ in range(2 + KILLS):
                try:
                    return super().upload(one)
                except GONE:
                    outages.wait_until_up()
            raise AssertionError(f"{one.path} has failed more often than the server")

    client = Stubborn(outages.server.url, again=outages.wait_until_up)
    client.batch = batch
    return client


def test_killed_at_random_moments_while_twenty_files_are_uploaded(idle):
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    sizes = [chance.randrange(1, 200_000) for _ in range(17)] + [5 * MIB, 6 * MIB, 12_000_000]
    items = [item(f"/fonds/{place % 3}/{place} é.bin", size) for place, size in enumerate(sizes)]
    chance.shuffle(items)
    outages = Outages(idle, sorted(chance.sample(range(2, 40), KILLS)), IDLE)
    first = stubborn(CommandLine, outages)
    first.init(items, "/fonds")
    second = stubborn(Sdk, outages, first.batch)
    confirmed = []

    def send(place):
        (second if place % 2 else first).upload(items[place])
        confirmed.append(items[place].path)

    outages.thread.start()
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(send, range(len(items))))
    outages.thread.join()
    assert outages.failure is None
    said = status(idle, first)
    assert sorted(one["logical_path"] for one in said["files"]) == sorted(confirmed)
    assert {one["status"] for one in said["files"]} == {"completed"}
    # And once more while several close it: answers may be lost, it is closed once all the same.
    outages = Outages(idle, [chance.randrange(1, 5)], *WORKING)
    closing = [stubborn(kind, outages, first.batch) for kind in (CommandLine, Sdk) * 2]
    outages.thread.start()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda client: client.finalize(), closing))
    outages.thread.join()
    assert outages.failure is None
    assert {answer["files_uploaded"] for answer in answers} == {len(items)}
    assert not any("warnings" in answer for answer in answers)
    comes_to_its_end(idle, first, items)
