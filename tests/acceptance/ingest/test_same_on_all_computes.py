"""One batch on every compute: whatever works on it, the same comes of it, to the byte.

A file of each kind, names that collide, and files that cannot be read. What is compared is all that a user
sees: how each file ended and why, what was made of it, the list that is handed over, and the counters.
"""

import hashlib
from itertools import combinations
from pathlib import Path

import pytest
from tests.acceptance.ingest import computes
from tests.acceptance.ingest.conftest import s3_environment, serving
from tests.acceptance.ingest.elsewhere import BODIES, FAST, PROCESS, finished, on_fly, outcomes, sent, strays
from tests.acceptance.ingest.home import manifest

pytestmark = pytest.mark.slow
CORPUS = Path(__file__).parents[2] / "documents" / "corpus"

# Keys are the batch's own; a SHA-256 is listed only where it is known without reading the bytes again, and of
# outputs that others stored it is not. The bytes themselves are compared.
UNLIKE = {"r2_key", "sha256"}
BATCH = BODIES | {
    "/box/deep.tiff": ((CORPUS / "tiff" / "rgb-3c-16b.tiff").read_bytes(), "image/tiff"),
    "/box/turned.jpg": ((CORPUS / "image" / "Landscape_6.jpg").read_bytes(), "image/jpeg"),
    "/box/few colours.png": ((CORPUS / "image" / "phototest-rotated-R.png").read_bytes(), "image/png"),
}
ENDS = {
    "/box/broken.tif": ("failed", "truncated"),
    "/box/broken.jpg": ("failed", "truncated"),
    "/box/letter.txt": ("skipped", "not_handled"),
}


def result(server) -> dict:
    """All that must be the same, without what names the batch or a place in the store."""
    batch = sent(server, BATCH)
    progress = finished(server, batch)
    assert progress["status"] == "DONE"
    assert strays(server, batch) == []
    files = {
        path: (outcome, why, {name: (*known, _digest(data)) for name, (*known, data) in made.items()})
        for path, (outcome, why, made) in outcomes(server, batch).items()
    }
    listed = {
        file["logical_path"]: {name: said for name, said in file.items() if name not in UNLIKE}
        for one in manifest(server, batch)["directories"]
        for file in one["files"]
    }
    return {"phases": progress["phases"], "files": files, "listed": listed}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def on_processes(folder, **more):
    with serving(folder, FAST | PROCESS | more) as server:
        return result(server)


def on_both(folder):
    """One phase here, one elsewhere."""
    mixed = {"QUIRE_COMPUTE_TIFF": "local", "QUIRE_COMPUTE_IMAGE": "process"}
    with serving(folder, FAST | mixed, "--workers", "1") as server:
        return result(server)


def on_machines(folder):
    with on_fly(folder) as (server, machines):
        found = result(server)
        machines.wait_until(lambda: not machines.running())
        assert {one.app for one in machines.machines} == {"tiffs", "pictures"}
        return found


def on(compute):
    """Links are compared with the rest, so all of them begin alike."""

    def run(folder):
        opened, _ = computes.COMPUTES[compute]
        fixed = {"QUIRE_PREPROCESS_PUBLIC_URL": "http://localhost:8787"}
        with opened(folder, None, fixed) as server:
            return result(server)

    return run


COMPUTES = {
    "local": on("local"),
    "process": on_processes,
    "local and process": on_both,
    "fly": on_machines,
    "queue": on("queue"),
    "ray": on("ray"),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Each compute is asked once, when the first test needs it."""
    known: dict[str, dict] = {}

    def of(name: str) -> dict:
        if name not in known:
            known[name] = COMPUTES[name](tmp_path_factory.mktemp("compute"))
        return known[name]

    return of


def test_the_local_result_is_as_it_must_be(results):
    found = results("local")
    ends = {path: (outcome, why) for path, (outcome, why, _) in found["files"].items()}
    assert ends == dict.fromkeys(BATCH, ("done", "")) | ENDS
    made = {path for _, _, some in found["files"].values() for _, path in some}
    assert {"/box/many.jpg", "/box/many-p002.jpg", "/box/many-p003.jpg"} <= made
    assert {"/box/p1.jpg.medium.jpg", "/box/x.tif.jpg", "/box/turned.jpg.medium.jpg"} <= made
    assert {"/box/broken.tif", "/box/broken.jpg", "/box/letter.txt"} <= set(found["listed"])
    counted = {name: (one["total"], one["completed"], one["failed"]) for name, one in found["phases"].items()}
    assert counted == {"PDF_SPLIT": (0, 0, 0), "TIFF_CONVERSION": (5, 4, 1), "IMAGE_PROCESSING": (11, 10, 1)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(*pair, marks=[pytest.mark.service] if "ray" in pair else [], id=" - ".join(pair))
        for pair in combinations(COMPUTES, 2)
    ],
)
def test_two_computes_give_the_same(one, other, results):
    first, second = results(one), results(other)
    for part in first:
        assert first[part] == second[part], part


@pytest.mark.service
def test_processes_give_the_same_on_s3(results, tmp_path, s3_server):
    found = on_processes(tmp_path, **s3_environment(s3_server, f"elsewhere/{tmp_path.name}"))
    assert found == results("local")
