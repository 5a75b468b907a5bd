"""Bytes that rot in the store of a server: nobody is given them, by whatever address they are asked for."""

import hashlib
import io
import json
import zipfile

import httpx
import obstore
import pytest
from obstore.store import S3Store
from tests.acceptance.ingest.conftest import serving
from tests.acceptance.ingest.elsewhere import FAST, PROCESS, finished, picture, sent
from tests.acceptance.ingest.test_assets import Gallery
from tests.acceptance.ingest.test_tiles import Viewer

pytestmark = pytest.mark.slow
TILES = {
    "QUIRE_PREPROCESS_TILES": "true",
    "QUIRE_PREPROCESS_TILE_SIZE": "256",
    "QUIRE_PREPROCESS_TILES_ABOVE": "1000",
}


@pytest.fixture
def gallery(tmp_path):
    with serving(tmp_path, TILES, "--workers", "1") as running, running.client() as client:
        made = Gallery(client)
        made.home = running.home
        yield made


def flip(path, at=0):
    before = path.read_bytes()
    at %= len(before)
    path.chmod(0o644)
    path.write_bytes(before[:at] + bytes([before[at] ^ 1]) + before[at + 1 :])


def blob_with(home, content):
    (found,) = [path for path in home.rglob("cas/*/*") if path.is_file() and path.read_bytes() == content]
    return found


@pytest.mark.parametrize("headers", [{}, {"range": "bytes=0-99"}])
@pytest.mark.parametrize("at", [0, 5000, -1])
def test_a_damaged_rendition_is_not_sent(gallery, at, headers):
    right = gallery.get("/a/large.jpg", "/large").raise_for_status().content
    flip(blob_with(gallery.home, right), at)
    answer = gallery.get("/a/large.jpg", "/large", headers=headers)
    assert answer.status_code == 500
    said = answer.json()
    assert said["details"] == "DamagedBlob"
    assert "not to blame" in said["error"]
    assert gallery.get("/a/large.jpg", "/thumb").is_success, "the others are sent"


def test_a_tile_of_a_damaged_pack_is_not_sent(gallery):
    service = f"/iiif/{gallery.assets['/a/large.jpg'].rpartition('/')[2]}"
    viewer = Viewer(gallery.client.get(f"{service}/info.json").json())
    (address, _), _ = next(viewer.level(viewer.max_level))
    tile = gallery.client.get(address).raise_for_status().content
    (pack,) = [
        path
        for path in gallery.home.rglob("cas/*/*")
        if path.is_file() and tile in path.read_bytes() and path.read_bytes() != tile
    ]
    flip(pack, pack.read_bytes().index(tile) + len(tile) // 2)
    answer = gallery.client.get(address)
    assert (answer.status_code, answer.json()["details"]) == (500, "DamagedBlob")


def test_a_download_and_a_package_with_a_damaged_result_fail(gallery):
    lines = gallery.client.get(f"{gallery.batch.at}/files").json()["files"]
    path = next(made for line in lines for made in line["outputs"] if made.endswith(".ref.json"))
    url = gallery.client.get(f"{gallery.batch.at}/files/download", params={"path": path}).json()["url"]
    whole = gallery.client.get(f"{gallery.batch.at}/archive").raise_for_status().content
    assert zipfile.ZipFile(io.BytesIO(whole)).testzip() is None
    flip(blob_with(gallery.home, httpx.get(url).raise_for_status().content))
    assert httpx.get(url).status_code == 500
    with pytest.raises(httpx.RemoteProtocolError):  # the connection ends before the package does
        gallery.client.get(f"{gallery.batch.at}/archive")


def test_what_is_sent_again_replaces_damaged_results_and_their_addresses_work_again(store, tmp_path):
    with serving(tmp_path, store, "--workers", "1") as running, running.client() as client:
        gallery = Gallery(client)
        right = gallery.get("/a/large.jpg", "/large").raise_for_status().content
        damage_blob(running, store, right)
        assert gallery.get("/a/large.jpg", "/large").status_code == 500
        again = Gallery(client)
        assert again.get("/a/large.jpg", "/large").raise_for_status().content == right
        assert gallery.get("/a/large.jpg", "/large").raise_for_status().content == right


def damage_blob(running, store, right):
    """Flip a bit of the stored result with these bytes, in the folder or in the bucket."""
    if not store:
        flip(blob_with(running.home, right), 100)
        return
    bucket = S3Store(
        store["QUIRE_S3_BUCKET"],
        endpoint=store["QUIRE_S3_ENDPOINT"],
        access_key_id=store["QUIRE_S3_ACCESS_KEY_ID"],
        secret_access_key=store["QUIRE_S3_SECRET_ACCESS_KEY"],
        prefix=store["QUIRE_S3_PREFIX"],
        region="us-east-1",
        client_options={"allow_http": True},
    )
    digest = hashlib.sha256(right).hexdigest()
    wrong = right[:100] + bytes([right[100] ^ 1]) + right[101:]
    obstore.put(bucket, f"cas/{digest[:2]}/{digest}", wrong)


LINES = """
from quire import Document, Output, Pipeline

lines = Pipeline("lines", version=1)


@lines.step(accepts="*.txt", runs_on="{where}")
def upper(document: Document) -> Output:
    return Output.text("upper.txt", document.text().upper())
"""


@pytest.mark.parametrize("where", ["local", "process"])
def test_a_damaged_upload_is_our_fault_and_not_that_of_the_file(tmp_path, where):
    (tmp_path / "lines.py").write_text(LINES.replace("{where}", where))
    own = FAST | {"QUIRE_PIPELINES": "lines.py", "QUIRE_INGEST_PIPELINE": "lines"}
    bodies = {"/a.txt": (b"damaged", "text/plain"), "/b.txt": (b"whole", "text/plain")}
    check_damaged_upload(tmp_path, own, bodies)


def test_a_damaged_tiff_is_not_converted_on_a_machine_of_its_own(tmp_path):
    bodies = {
        "/a.tif": (picture("TIFF", (300, 200)), "image/tiff"),
        "/b.tif": (picture("TIFF", (200, 300)), "image/tiff"),
    }
    check_damaged_upload(tmp_path, FAST | PROCESS, bodies)


def check_damaged_upload(folder, environment, bodies):
    """Send two files, damage the first, and let a server work on them that was not there before."""
    with serving(folder, environment, "--api-only") as server:
        batch = sent(server, bodies)
        first, second = bodies
        (stored,) = [
            path for path in server.home.rglob("staging/**/*") if path.is_file() and path.name == first[1:]
        ]
        flip(stored, -1)
        server.stop()
        server.start("--workers", "1")
        finished(server, batch)
        with server.client() as client:
            lines = client.get(f"/api/batches/{batch}/files").json()["files"]
    found = {line["path"]: line for line in lines}
    assert found[second]["status"] == "done"
    assert found[first]["status"] == "failed"
    assert found[first]["error_class"] == "damaged_blob"
    assert "not to blame" in json.dumps(found[first])
    check_sent_again(server, bodies)


def check_sent_again(server, bodies):
    """The same files once more: our damaged copy of the first one is no hindrance."""
    server.start("--workers", "1")
    try:
        batch = sent(server, bodies)
        finished(server, batch)
        with server.client() as client:
            lines = client.get(f"/api/batches/{batch}/files").json()["files"]
        assert {line["status"] for line in lines} == {"done"}
    finally:
        server.close()
