"""Worker images that others have published run unmodified: with keys of the store that may do no more than
they must, and with nothing else than the contract says.
"""

import json
import shlex
import sys

import pytest
from obstore.store import S3Store
from tests.acceptance.ingest.computes import PUBLISHED_WORKER, published_keys
from tests.acceptance.ingest.conftest import serving
from tests.acceptance.ingest.elsewhere import (
    BODIES,
    FAST,
    PROCESS,
    attempts,
    finished,
    free_port,
    on_fly,
    outcomes,
    picture,
    sent,
    strays,
)
from tests.acceptance.ingest.home import at_home, blob, keys_below
from tests.situations.flowing import read_tasks

pytestmark = [pytest.mark.slow, pytest.mark.service]
WANTED = ("/box/p1.tif", "/box/x.tif", "/box/x.jpg", "/box/broken.tif", "/box/letter.txt")
BATCH = {path: BODIES[path] for path in WANTED} | {"/box/scan.dat": (picture("TIFF"), "image/tiff")}


def keys_for_workers(s3_server, folder):
    return published_keys(s3_server, folder) | {"QUIRE_PREPROCESS_PUBLIC_URL": "https://cdn.example"}


def by_processes(s3_server, folder, command=PUBLISHED_WORKER, more=None):
    port = free_port()
    environment = FAST | PROCESS | keys_for_workers(s3_server, folder)
    environment |= {"QUIRE_COMPUTE_COMMAND": shlex.join(command)}
    environment |= {"QUIRE_COMPUTE_REGISTRY_URL": f"http://127.0.0.1:{port}"}
    return serving(folder, environment | (more or {}), "--port", str(port))


def archived(server, batch):
    """What the tasks of the last phase were told to lie in the archive, by path."""

    async def look(office):
        known = await office.batches.get_batch(batch)
        tasks = await read_tasks(office.flow, known.no)
        told = {path: task.result.facts for path, task in tasks.items()}
        return {path: said["archive_r2_key"] for path, said in told.items() if "archive_r2_key" in said}

    return at_home(server, look)


def stored(s3_server, key):
    store = S3Store(
        s3_server.bucket,
        endpoint=s3_server.endpoint,
        region="auto",
        access_key_id=s3_server.access_key_id,
        secret_access_key=s3_server.secret_access_key,
        client_options={"allow_http": True},
    )
    return bytes(store.get(key).bytes())


def check(server, batch, s3_server):
    assert finished(server, batch)["status"] == "DONE"
    assert strays(server, batch) == []
    found = outcomes(server, batch)
    ends = {path: outcome for path, (outcome, _, _) in found.items()}
    assert {path for path, end in ends.items() if end == "failed"} == {"/box/broken.tif"}
    made = {path: dict(list(listed)) for path, (_, _, listed) in found.items()}
    assert made["/box/p1.tif"] == {"jpeg": "/box/p1.jpg", "ref": "/box/p1.jpg.ref.json"}
    assert made["/box/x.tif"] == {"jpeg": "/box/x.tif.jpg", "ref": "/box/x.tif.jpg.ref.json"}
    assert made["/box/x.jpg"] == {"ref": "/box/x.jpg.ref.json"}
    assert made["/box/scan.dat"]["jpeg"] == "/box/scan.dat.jpg"
    # What was uploaded is as it was, though an output would like to have its name.
    assert blob(server, f"staging/{batch}/box/x.jpg") == BODIES["/box/x.jpg"][0]
    places = archived(server, batch)
    assert set(places) == {"/box/p1.jpg", "/box/x.tif.jpg", "/box/x.jpg", "/box/scan.dat.jpg"}
    assert stored(s3_server, places["/box/x.jpg"]) == BODIES["/box/x.jpg"][0]
    reference = json.loads(found["/box/x.jpg"][2]["ref", "/box/x.jpg.ref.json"][-1])
    assert reference["url"].startswith("https://cdn.example/asset/")
    with server.client() as client:
        kept = client.get(f"/asset/{reference['url'].rpartition('/')[2]}/original")
    assert kept.content == BODIES["/box/x.jpg"][0]


def test_a_whole_batch_by_processes(tmp_path, s3_server):
    with by_processes(s3_server, tmp_path) as server:
        batch = sent(server, BATCH)
        check(server, batch, s3_server)
        copies = keys_below(server, f"staging/{batch}/_work/")
        assert any(key.endswith(".tif") for key in copies)  # x.tif, and what is a TIFF by its content alone


def test_a_whole_batch_by_machines(tmp_path, s3_server):
    more = keys_for_workers(s3_server, tmp_path) | {"QUIRE_COMPUTE_REGISTRY_URL": "http://127.0.0.1:{port}"}
    with on_fly(tmp_path, command=PUBLISHED_WORKER, more=more) as (server, machines):
        batch = sent(server, BATCH)
        check(server, batch, s3_server)
        said = {one["config"]["env"]["TASK_ID"]: one["config"]["env"] for one in machines.bodies}
        always = {"R2_ACCOUNT_ID", "R2_ACCESS_KEY_ID", "R2_SECRET_ACCESS_KEY", "R2_BUCKET"}
        always |= {"INPUT_URL", "S3_ENDPOINT_URL"}
        for task, told in said.items():
            assert told["R2_ACCESS_KEY_ID"] == s3_server.limited_key_id
            assert s3_server.secret_access_key not in told.values()
            assert "" not in told.values()
            assert always <= set(told)
            assert ("ARCHIVE_BUCKET" in told) == task.startswith("img_")


def test_a_later_attempt_finds_its_input_under_the_name_it_is_told(tmp_path, s3_server):
    program = "import os,sys,pathlib\nmark=pathlib.Path(sys.argv[1],os.environ['TASK_ID'])\n"
    program += "if not mark.exists():\n mark.touch()\n sys.exit(3)\nos.execv(sys.argv[2],sys.argv[2:])\n"
    command = (sys.executable, "-c", program, str(tmp_path), *PUBLISHED_WORKER)
    with by_processes(s3_server, tmp_path, command) as server:
        batch = sent(server, {"/box/p1.tif": BODIES["/box/p1.tif"]})
        assert finished(server, batch)["status"] == "DONE"
        tried = [(one.phase, one.outcome) for one in attempts(server, batch, "/box/p1.tif")]
        assert tried == [
            ("TIFF_CONVERSION", "crashed"),
            ("TIFF_CONVERSION", "done"),
            ("IMAGE_PROCESSING", "crashed"),
            ("IMAGE_PROCESSING", "done"),
        ]
        assert ("ref", "/box/p1.jpg.ref.json") in outcomes(server, batch)["/box/p1.tif"][2]


@pytest.mark.parametrize("all_pages", [True, False])
def test_pages_that_such_a_worker_would_lose_are_not_lost_in_silence(tmp_path, s3_server, all_pages):
    more = {"QUIRE_PREPROCESS_ALL_PAGES": str(all_pages).lower()}
    with by_processes(s3_server, tmp_path, more=more) as server:
        batch = sent(server, {"/box/many.tif": BODIES["/box/many.tif"]})
        finished(server, batch)
        outcome, why, _ = outcomes(server, batch)["/box/many.tif"]
        assert (outcome, why) == (("failed", "many_pages") if all_pages else ("done", ""))
        first, *_ = attempts(server, batch, "/box/many.tif")
        assert first.outcome == ("rejected" if all_pages else "done")
        assert not all_pages or "preprocess.all_pages" in first.error


OURS = (sys.executable, "-m", "quire.cli.main", "task", "run")
WITHOUT_URLS = "import os,sys\ndel os.environ['INPUT_URL'],os.environ['OUTPUT_URL_RESULT']\n"
WITHOUT_URLS += "os.execv(sys.argv[1],sys.argv[1:])\n"


@pytest.mark.parametrize(
    ("command", "archives"),
    [(OURS, False), ((sys.executable, "-c", WITHOUT_URLS, *OURS), True)],
    ids=["by their URLs", "by keys alone"],
)
def test_our_own_workers_give_all_pages_also_where_there_are_keys(tmp_path, s3_server, command, archives):
    with by_processes(s3_server, tmp_path, command) as server:
        batch = sent(server, {path: BODIES[path] for path in ("/box/x.tif", "/box/x.jpg", "/box/many.tif")})
        assert finished(server, batch)["status"] == "DONE"
        found = outcomes(server, batch)
        assert {outcome for outcome, _, _ in found.values()} == {"done"}
        pages = {path for role, path in found["/box/many.tif"][2] if role == "jpeg"}
        assert pages == {"/box/many.jpg", "/box/many-p002.jpg", "/box/many-p003.jpg"}
        places = archived(server, batch)
        if archives:
            assert stored(s3_server, places["/box/x.jpg"]) == BODIES["/box/x.jpg"][0]
        else:
            assert places == {}
        reference = json.loads(found["/box/x.jpg"][2]["ref", "/box/x.jpg.ref.json"][-1])
        with server.client() as client:
            kept = client.get(f"/asset/{reference['url'].rpartition('/')[2]}/original")
        assert kept.content == BODIES["/box/x.jpg"][0]
