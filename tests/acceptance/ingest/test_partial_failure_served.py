"""Steps side by side, some of which fail: the answers of the server tell it step by step."""

import pytest
from tests.acceptance.ingest.conftest import serving
from tests.acceptance.ingest.elsewhere import FAST, finished, sent
from tests.acceptance.test_partial_failure import PRESS

pytestmark = pytest.mark.slow
BOOKS = {
    "/shelf/both.txt": (b"an odd ugly book", "text/plain"),
    "/shelf/fine.txt": (b"a fine book", "text/plain"),
    "/shelf/ugly.txt": (b"an ugly book", "text/plain"),
}


@pytest.fixture
def served(tmp_path):
    """A server that has ended a batch of these books, and the answers about it."""
    (tmp_path / "press.py").write_text(PRESS, "utf-8")
    own = {"QUIRE_PIPELINES": "press.py", "QUIRE_INGEST_PIPELINE": "press"}
    with serving(tmp_path, FAST | own, "--workers", "1") as server:
        batch = sent(server, BOOKS)
        finished(server, batch)
        with server.client() as client:
            yield (
                lambda what, **params: (
                    client.get(f"/api/batches/{batch}{what}", params=params).raise_for_status().json()
                )
            )


def test_the_files_of_a_batch_tell_which_steps_failed_and_why(served):
    both, fine, ugly = served("/files")["files"]
    assert [one["status"] for one in (both, fine, ugly)] == ["failed", "done", "failed"]
    assert fine["steps"] == []
    assert [(one["step"], one["done"], one["failed"], one["error_class"]) for one in both["steps"]] == [
        ("title", 1, 0, None),
        ("asset.blurb", 0, 1, "step_error"),
        ("asset.synopsis", 1, 0, None),
        ("asset.cover", 0, 1, "ugly"),
        ("kit", 1, 0, None),
        ("overview", 1, 0, None),
    ]
    assert both["steps"][3]["reason"] == "the cover cannot be drawn"
    assert [one["step"] for one in ugly["steps"] if one["failed"]] == ["asset.cover"]
    assert (ugly["error_class"], ugly["reason"]) == ("ugly", "asset.cover: the cover cannot be drawn")


def test_the_history_of_a_file_names_the_step_of_each_attempt(served):
    told = served("/files/history", path="/shelf/ugly.txt")
    assert [one["step"] for one in told["file"]["steps"] if one["failed"]] == ["asset.cover"]
    attempts = {one["step"]: (one["outcome"], one["error"]) for one in told["attempts"]}
    assert attempts["asset.cover"] == ("rejected", "the cover cannot be drawn")
    assert attempts["asset.blurb"][0] == "done"
