"""`files` in the status of a batch is its present list: as sent, in the end as its phases have left it."""

import pytest
from tests.acceptance.ingest.conftest import serving
from tests.acceptance.ingest.elsewhere import BODIES, FAST, PROCESS, finished, sent, until
from tests.acceptance.ingest.home import manifest

pytestmark = pytest.mark.slow
# What the manifest leaves out or says for a folder, and what only one who uploads knows.
OF_UPLOADS = {"upload_type", "status", "completed_at", "processing_config"}


def status(server, batch, **said):
    with server.client() as client:
        return client.get(f"/api/batches/{batch}/status", params=said).raise_for_status().json()


def listed(said):
    return [file["logical_path"] for file in said["files"]]


def of_manifest(server, batch):
    return [
        {name: said for name, said in file.items() if name not in {"sha256", "processing_config"}}
        for one in manifest(server, batch)["directories"]
        for file in one["files"]
    ]


def plain(said):
    return [{name: one for name, one in file.items() if name not in OF_UPLOADS} for file in said["files"]]


@pytest.mark.parametrize("compute", [{}, PROCESS], ids=["local", "process"])
def test_the_list_is_as_sent_and_in_the_end_that_of_the_manifest(tmp_path, compute):
    with serving(tmp_path, FAST | compute, "--api-only") as server:
        batch = sent(server, BODIES)
        before = status(server, batch)
        assert before["status"] == "preprocessing"
        assert listed(before) == sorted(BODIES)
        server.restart("--workers", "2")
        assert finished(server, batch)["status"] == "DONE"
        after = status(server, batch)
        assert (after["status"], after["files_uploaded"]) == ("enqueued", len(BODIES))
        assert plain(after) == of_manifest(server, batch)
        changes = {file["logical_path"]: file for file in after["files"]}
        assert changes["/box/p1.tif"]["preprocessor_tags"] == ["TiffConverter:source"]
        reference = changes["/box/p1.jpg.ref.json"]
        assert (reference["source_file"], reference["preprocessor_tags"]) == ("p1.jpg", ["ImageProcessor"])
        assert (reference["status"], reference["upload_type"]) == ("completed", "simple")
        assert reference["processing_config"] == before["files"][0]["processing_config"]
        assert "/box/x.jpg" not in changes, "its reference has replaced it"
        # A file that failed passes unchanged.
        assert changes["/box/broken.tif"]["r2_key"] == f"staging/{batch}/box/broken.tif"
        assert status(server, batch, files="uploaded")["files"] == before["files"]
        assert "files" not in status(server, batch, files="false")


def test_a_retry_goes_on_from_the_present_list(tmp_path):
    limits = {"QUIRE_PREPROCESS_MAX_MEGAPIXELS": "1"}
    with serving(tmp_path, FAST | limits, "--workers", "1") as server:
        batch = sent(server, {path: BODIES[path] for path in ("/box/p1.tif", "/box/x.jpg")})
        assert finished(server, batch)["phases"]["TIFF_CONVERSION"]["failed"] == 1
        assert listed(status(server, batch)) == ["/box/p1.tif", "/box/x.jpg.ref.json"]
        server.kill()
        server.start("--api-only")
        with server.client() as client:
            client.post(f"/admin/retry/{batch}").raise_for_status()
        assert status(server, batch)["status"] == "preprocessing"
        assert listed(status(server, batch)) == ["/box/p1.tif", "/box/x.jpg.ref.json"]


def test_of_a_batch_that_was_cancelled_the_list_is_as_sent(tmp_path):
    with serving(tmp_path, FAST, "--api-only") as server:
        batch = sent(server, BODIES)
        with server.client() as client:
            client.post(f"/admin/cancel/{batch}", json={"reason": "no"}).raise_for_status()
        until(server, batch, lambda said: said["status"] == "CANCELLED")
        assert (status(server, batch)["status"], listed(status(server, batch))) == ("failed", sorted(BODIES))
