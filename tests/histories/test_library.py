"""The bucket of a library that an earlier version worked on is worked on by this one."""

import signal

import pytest
from tests.histories.record_library import STILL

pytestmark = pytest.mark.slow


def test_documents_are_where_they_were_and_are_found(library):
    quire, facts = library
    hashes = facts["hashes"]
    found, logs, manifest, labels, counts, *stands = quire.read_all(
        "library search Überblick",
        f"library logs {hashes['dead']}",
        "library manifest",
        "library repair-metadata --dry-run",
        "library list",
        *(f"library status {ident}" for ident in hashes.values()),
    )
    assert [one["standing"] for one in stands] == list(hashes)
    (document,) = found["documents"]
    assert document["hash"] == hashes["done"]
    assert facts["copy"] in document["paths"]
    assert "password" in logs["error"]["error"]
    assert manifest["problems"] == []
    # Names and tags are still told with the PDFs: nothing would have to be written again.
    assert (labels["labelled"]["looked_at"], labels["labelled"]["written"]) == (5, 0)
    assert [counts[name] for name in ("processing", "failed", "dead", "done")] == [1, 1, 1, 1]


def test_workers_finish_what_the_killed_one_began_and_what_waits(library):
    quire, facts = library
    hashes = facts["hashes"]
    swept = {one["hash"]: (one["why"], one["did"]) for one in quire.read("library", "janitor")["settled"]}
    assert swept == {hashes["processing"]: ("silent", "requeued"), hashes["failed"]: ("failed", "requeued")}
    # The janitor has passed: what fails now is not tried once more.
    with quire.started("library", "worker", "--json", **STILL) as worker:
        said = worker.heard("idle")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(30) == 0
    fates = {one["hash"]: one["fate"] for one in said if one["event"] == "ended"}
    assert fates == {hashes["processing"]: "done", hashes["queued"]: "done", hashes["failed"]: "failed"}
    assert quire.read("library", "status", hashes["failed"])["attempts"] == 2
    retried = quire.read("library", "retry", hashes["dead"], "--reset-retries")
    assert (retried["was"], retried["changed"]) == ("dead", True)
    written = quire.read("library", "hydrate", "books")
    assert (written["written"], written["missing"], written["failed"]) == (4, 2, 0)
    text = (quire.folder / "books" / facts["copy"]).with_suffix(".md").read_text("utf-8")
    assert "crazy ones" in text.casefold()
