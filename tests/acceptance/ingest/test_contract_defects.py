"""Section 11 of the preprocessing contract, row by row: the defects of the original, and what Quire does.

Here are the rows about files and their ends, on a server with workers of its own. The rows about workers that
run elsewhere are in `test_contract_defects_elsewhere`. Names begin with the number of the row.
"""

import asyncio
import io
import json
from itertools import product

import httpx
import pytest
from PIL import Image
from tests.acceptance.ingest.conftest import serving
from tests.acceptance.ingest.elsewhere import (
    FAST,
    PROCESS,
    attempts,
    finished,
    outcomes,
    picture,
    sent,
    until,
)
from tests.acceptance.ingest.home import at_home, blob, keys_below, manifest, messages
from tests.acceptance.ingest.sender import Sender

from quire.assembly.engine import open_engine
from quire.batches.folder_run import RunRequest, run_folder
from quire.engine import handover
from quire.ingest.archive import archive_batch
from quire.model.batch import Stage
from quire.model.errors import Retry
from quire.model.ids import task_id
from quire.settings import PhaseRetrySettings, Settings
from quire.tools.ipfs import file_cid

pytestmark = pytest.mark.slow
BINARY = "application/octet-stream"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """With a conductor and one worker, shared by the rows that need nothing else."""
    with serving(tmp_path_factory.mktemp("defects"), FAST, "--workers", "1") as running:
        yield running


def plain(kind: str, colour: tuple[int, int, int], size=(220, 210)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, kind)
    return out.getvalue()


def colour_of(data: bytes) -> tuple[int, int, int]:
    with Image.open(io.BytesIO(data)) as shown:
        return shown.convert("RGB").resize((1, 1)).getpixel((0, 0))


def near(found, expected) -> bool:
    return all(abs(one - other) <= 4 for one, other in zip(found, expected, strict=True))


def listed(server, batch: str) -> dict:
    found = manifest(server, batch)
    files = [file for one in found["directories"] for file in one["files"]]
    assert len({file["r2_key"] for file in files}) == len(files), "two entries have one key"
    assert len({file["logical_path"] for file in files}) == len(files), "two entries have one path"
    return {file["logical_path"]: file for file in files}


def ended(server, bodies) -> str:
    batch = sent(server, bodies)
    assert finished(server, batch)["status"] == "DONE"
    return batch


def test_row_01_a_batch_without_tiffs_goes_on_to_the_pictures(server):
    batch = ended(server, {"/box/a.jpg": (picture("JPEG", (600, 300)), "image/jpeg")})
    assert list(listed(server, batch)) == ["/box/a.jpg.ref.json"]
    phases = httpx.get(f"{server.url}/status/{batch}").json()["phases"]
    assert [(name, one["total"]) for name, one in phases.items()] == [
        ("PDF_SPLIT", 0),
        ("TIFF_CONVERSION", 0),
        ("IMAGE_PROCESSING", 1),
    ]
    reference = json.loads(blob(server, listed(server, batch)["/box/a.jpg.ref.json"]["r2_key"]))
    asset = "/asset/" + reference["url"].rpartition("/")[2]
    with server.client() as client:
        assert client.get(asset).content == picture("JPEG", (600, 300))
        thumb = client.get(f"{asset}/thumb").raise_for_status().content
    assert Image.open(io.BytesIO(thumb)).size == (200, 100)


def test_row_02_originals_of_one_name_do_not_overwrite_one_another_in_the_archive(server):
    bodies = {
        f"/{folder}/page1.{ending}": (plain(kind, colour), f"image/{kind.lower()}")
        for folder, colour in {"a": (200, 0, 0), "b": (0, 200, 0)}.items()
        for ending, kind in {"jpg": "JPEG", "tif": "TIFF"}.items()  # TIFFs are archived too
    }
    one, other = ended(server, bodies), ended(server, {"/c/page1.jpg": (plain("JPEG", (0, 0, 200)), "")})
    for batch in (one, other):
        at_home(server, lambda office, batch=batch: archive_batch(office, batch))
    keys = [key for key in keys_below(server, "archive") if "/original." in key]
    assert len(keys) == 5
    assert all(key.split("/")[1] in {one, other} for key in keys)
    kept = {blob(server, key) for key in keys}
    assert kept == {data for data, _ in bodies.values()} | {plain("JPEG", (0, 0, 200))}


@pytest.mark.parametrize("compute", [{}, PROCESS], ids=["here", "elsewhere"])
def test_row_03_a_converted_file_takes_nobodys_name(compute, tmp_path):
    red, green, blue, grey = (200, 0, 0), (0, 160, 0), (0, 0, 200), (90, 90, 90)
    bodies = {
        "/box/x.tif": (plain("TIFF", red), "image/tiff"),
        "/box/x.jpg": (plain("JPEG", green), "image/jpeg"),
        "/box/y.tif": (plain("TIFF", blue), "image/tiff"),
        "/box/y.tiff": (plain("TIFF", grey), "image/tiff"),
    }
    with serving(tmp_path, FAST | compute, "--workers", "1") as server:
        batch = ended(server, bodies)
        assert set(listed(server, batch)) == {
            "/box/x.tif",
            "/box/x.tif.jpg.ref.json",
            "/box/x.jpg.ref.json",
            "/box/y.tif",
            "/box/y.tif.jpg.ref.json",
            "/box/y.tiff",
            "/box/y.tiff.jpg.ref.json",
        }
        made = {
            path: one
            for _, _, all_made in outcomes(server, batch).values()
            for (_, path), one in all_made.items()
        }
        for path, colour in {"x.tif": red, "y.tif": blue, "y.tiff": grey}.items():
            assert near(colour_of(made[f"/box/{path}.jpg"][-1]), colour)
        assert (
            blob(server, f"staging/{batch}/box/x.jpg") == bodies["/box/x.jpg"][0]
        )  # the upload is untouched


def hash_of_the_original(key: str) -> int:
    """31 bits of the usual hash of a text, as the original named its tasks by."""
    value = 0
    for character in key:
        value = (value * 31 + ord(character)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


def test_row_04_files_whose_hashes_collide_are_all_processed(server):
    names = ["".join(parts) for parts in product(("Aa", "BB"), repeat=3)]
    bodies = {
        f"/box/{name}.tif": (plain("TIFF", (20 * number, 90, 200)), "image/tiff")
        for number, name in enumerate(names)
    }
    batch = ended(server, bodies)
    keys = [f"staging/{batch}{path}" for path in bodies]
    assert len({hash_of_the_original(key) for key in keys}) == 1
    assert len({task_id("tiff", batch, key) for key in keys}) == len(keys)
    found = outcomes(server, batch)
    for number, path in enumerate(bodies):
        outcome, _, made = found[path]
        assert outcome == "done"
        assert near(colour_of(made["jpeg", path.replace(".tif", ".jpg")][-1]), (20 * number, 90, 200))
    assert httpx.get(f"{server.url}/status/{batch}").json()["phases"]["TIFF_CONVERSION"]["total"] == 8


def test_row_10_derived_files_have_a_cid_of_their_own(server, tmp_path):
    tiff, jpeg = plain("TIFF", (10, 90, 30)), plain("JPEG", (90, 10, 30))
    (tmp_path / "known.jpg").write_bytes(jpeg)
    (tmp_path / "known.tif").write_bytes(tiff)
    cids = {name: file_cid(tmp_path / name) for name in ("known.jpg", "known.tif")}
    with server.client() as client:
        sender = Sender(client, file_count=2, total_size=len(tiff) + len(jpeg))
        for name, data in {"known.tif": tiff, "known.jpg": jpeg}.items():
            said = {"content_type": BINARY, "cid": cids[name]}
            url = sender.start(f"/{name}", len(data), **said).raise_for_status().json()["presigned_url"]
            client.put(url, content=data).raise_for_status()
            sender.complete(f"/{name}").raise_for_status()
        sender.finalize().raise_for_status()
    assert finished(server, sender.id)["status"] == "DONE"
    files = listed(server, sender.id)
    assert files["/known.tif"]["cid"] == cids["known.tif"]
    made = outcomes(server, sender.id)["/known.tif"][2]
    (_, _, _, cid, data) = next(one for (role, _), one in made.items() if role == "jpeg")
    (tmp_path / "made.jpg").write_bytes(data)
    assert cid == file_cid(tmp_path / "made.jpg") != cids["known.tif"]
    references = {
        path: json.loads(blob(server, file["r2_key"]))["ipfs_cid"]
        for path, file in files.items()
        if path.endswith(".ref.json")
    }
    assert sorted(references.values()) == sorted([cids["known.jpg"], cid])


MISNAMED = {
    # path: (bytes, declared type, what the list has of it afterwards)
    "/a/photo.jpg": (plain("JPEG", (9, 9, 200)), BINARY, "/a/photo.jpg.ref.json"),
    "/a/without ending": (plain("JPEG", (9, 200, 9)), BINARY, "/a/without ending.ref.json"),
    "/a/scan.dat": (plain("TIFF", (200, 9, 9)), "", "/a/scan.dat.jpg.ref.json"),
    "/a/note.txt": (plain("PNG", (200, 200, 9)), "text/plain", "/a/note.txt"),
    "/a/other.txt": (plain("PNG", (200, 9, 200)), BINARY, "/a/other.txt.ref.json"),
    "/a/plain.bin": (b"only words", BINARY, "/a/plain.bin"),
    "/a/not.tif": (plain("JPEG", (9, 90, 90)), "image/tiff", "/a/not.jpg.ref.json"),
    "/a/tiff.jpg": (plain("TIFF", (90, 9, 90)), BINARY, "/a/tiff.jpg.jpg.ref.json"),
}


def test_row_11_extension_and_first_bytes_count_beside_the_declared_type(server):
    batch = ended(server, {path: (data, kind) for path, (data, kind, _) in MISNAMED.items()})
    files = listed(server, batch)
    for path, (_, _, expected) in MISNAMED.items():
        assert expected in files, (path, sorted(files))
    # What name and sender agree about is not read, and passes as they say.
    assert files["/a/note.txt"]["content_type"] == "text/plain"
    assert files["/a/plain.bin"]["content_type"] == BINARY


async def test_row_11_holds_for_folders_too(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for path, (data, _, _) in MISNAMED.items():
        (folder / path.rpartition("/")[2]).write_bytes(data)
    async with open_engine(Settings(home=tmp_path / "home", workers=1)) as house:
        request = RunRequest(roots=[folder], out=tmp_path / "out", pipeline="preprocess")
        ran = await run_folder(request, house.run_context(), Silent(), asyncio.Event())
    assert (
        ran.summary.counts["done"] == len(MISNAMED) - 1
    )  # all but the words: bytes are looked at here always
    assert (tmp_path / "out" / "without ending.ref.json").exists()


def test_row_12_every_page_of_a_tiff_is_converted(server):
    pages = [Image.new("RGB", (220, 210), (80 * number, 90, 30)) for number in range(3)]
    out = io.BytesIO()
    pages[0].save(out, "TIFF", save_all=True, append_images=pages[1:])
    batch = ended(server, {"/box/x.tif": (out.getvalue(), "image/tiff")})
    made = outcomes(server, batch)["/box/x.tif"][2]
    for number, name in enumerate(("x.jpg", "x-p002.jpg", "x-p003.jpg")):
        assert near(colour_of(made["jpeg", f"/box/{name}"][-1]), (80 * number, 90, 30))
    assert set(listed(server, batch)) == {
        "/box/x.tif",
        "/box/x.jpg.ref.json",
        "/box/x-p002.jpg.ref.json",
        "/box/x-p003.jpg.ref.json",
    }


def test_row_12_the_first_page_alone_by_a_setting(tmp_path):
    with serving(tmp_path, FAST | {"QUIRE_PREPROCESS_ALL_PAGES": "false"}, "--workers", "1") as server:
        batch = ended(server, {"/box/x.tif": (picture("TIFF", (300, 200), pages=3), "image/tiff")})
        assert set(listed(server, batch)) == {"/box/x.tif", "/box/x.jpg.ref.json"}


def test_row_13_done_is_said_when_the_next_queue_has_the_batch(server):
    batch = ended(server, {"/box/a.jpg": (plain("JPEG", (1, 2, 3)), "image/jpeg")})
    (message,) = messages(server, "arke-batch-jobs", batch)
    assert message["total_files"] == len(listed(server, batch)) == 1
    with server.client() as client:
        assert client.get(f"/api/batches/{batch}/status").json()["status"] == "enqueued"


async def test_row_13_a_hand_over_that_fails_is_repeated_before_it_is_done(tmp_path, monkeypatch):
    from tests.acceptance.test_uploaded_batch import ID, submitted

    tried, seen, real = [], [], handover.hand_over

    async def failing(*arguments):
        tried.append((await arguments[0].get_batch(ID)).status)
        if len(tried) < 4:
            raise Retry("the store is away")
        return await real(*arguments)

    async def observe(batch):
        seen.append((batch.position.stage, len(tried)))

    monkeypatch.setattr(handover, "hand_over", failing)
    patient = PhaseRetrySettings(first_delay_seconds=0.01, longest_delay_seconds=0.02)
    async with open_engine(Settings(home=tmp_path / "home", workers=2, phase_retry=patient)) as house:
        await submitted(house, hands_over_to="arke-batch-jobs")
        async with house.start_engine() as wheel:
            batch = await wheel.run_batch(ID, observe)
    assert batch.position.stage is Stage.DONE
    assert tried == ["IMAGE_PROCESSING"] * 4
    assert {stage for stage, count in seen if count < 4}.isdisjoint({Stage.DONE, Stage.ERROR})


def test_row_14_an_error_is_told_in_the_view_of_the_upload(tmp_path):
    once = '[queues."arke-preprocess-jobs"]\nmax_retries = 1\ndelays_seconds = [0]\n'
    (tmp_path / "quire.toml").write_text(once, encoding="utf-8")
    with serving(tmp_path, FAST, "--api-only") as server:
        batch = sent(server, {"/box/a.jpg": (plain("JPEG", (1, 2, 3)), "image/jpeg")})
        at_home(server, lambda office: office.blobs.delete(f"staging/{batch}/_manifest.json"))
        server.restart("--workers", "0")
        progress = until(server, batch, lambda said: said["status"] == "ERROR")
        assert "_manifest.json" in progress["error"]
        with server.client() as client:
            told = client.get(f"/api/batches/{batch}/status").json()
            assert (told["status"], told["error"]) == ("failed", progress["error"])
            status = client.get(f"/status/{batch}").json()
            assert (status["status"], status["stage"]) == ("ERROR", "error")
            assert status["error"] == progress["error"]


def test_row_17_failed_tasks_alone_are_done_again(server):
    bodies = {
        "/box/good.tif": (picture("TIFF", (310, 200)), "image/tiff"),
        "/box/bad.tif": (b"II*\0 and nothing more", "image/tiff"),
        "/box/half.jpg": (picture("JPEG")[:900], "image/jpeg"),
    }
    batch = ended(server, bodies)
    before = {path: len(attempts(server, batch, path)) for path in bodies}
    with server.client() as client:
        answer = client.post(f"/admin/retry/{batch}", json={"reason": "again"}).raise_for_status().json()
        assert (answer["kind"], answer["files"]) == ("new_round", 2)
        with client.stream("GET", f"/api/batches/{batch}/events") as stream:
            assert "event: end" in list(stream.iter_lines())
    after = {path: len(attempts(server, batch, path)) for path in bodies}
    assert after == before | {
        "/box/bad.tif": before["/box/bad.tif"] + 1,
        "/box/half.jpg": before["/box/half.jpg"] + 1,
    }
    assert len(messages(server, "arke-batch-jobs", batch)) == 1  # handed over once


def test_the_status_keeps_every_phase_and_every_failed_task(server):
    """Section 1: counters start anew with each phase, and what failed before would vanish."""
    bodies = {
        "/box/bad.tif": (b"II*\0 and nothing more", "image/tiff"),
        "/box/half.jpg": (picture("JPEG")[:900], "image/jpeg"),
        "/box/good.tif": (plain("TIFF", (4, 5, 6)), "image/tiff"),
    }
    batch = ended(server, bodies)
    status = httpx.get(f"{server.url}/status/{batch}").json()
    assert status["progress"] == {"tasks_total": 2, "tasks_completed": 1, "tasks_failed": 1}
    counted = {
        name: (one["total"], one["completed"], one["failed"]) for name, one in status["phases"].items()
    }
    assert counted == {"PDF_SPLIT": (0, 0, 0), "TIFF_CONVERSION": (2, 1, 1), "IMAGE_PROCESSING": (2, 1, 1)}
    failed = {one["input_r2_key"]: one for one in status["failed_tasks"]}
    for prefix, path, words in (("tiff", "/box/bad.tif", "missing"), ("img", "/box/half.jpg", "missing")):
        key = f"staging/{batch}{path}"
        assert failed[key]["task_id"] == task_id(prefix, batch, key)
        assert words in failed[key]["error"]
    assert len(failed) == 2


class Silent:
    """Watches a run and says nothing."""

    def __getattr__(self, _name):
        return lambda *_, **__: None
